#include "io/array.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "util/errors.h"

namespace precast::io {
namespace {

constexpr size_t kAlignment = 64;

// Calls f(offset in a, offset in b) for each element, offsets in elements.
template <class F>
void for_each_pair(const std::vector<int64_t>& sizes, const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                   F&& f) {
  for (int64_t size : sizes)
    if (size == 0) return;
  std::vector<int64_t> index(sizes.size(), 0);
  int64_t at_a = 0, at_b = 0;
  for (;;) {
    f(at_a, at_b);
    size_t d = sizes.size();
    for (; d-- > 0;) {
      at_a += a[d];
      at_b += b[d];
      if (++index[d] < sizes[d]) break;
      at_a -= a[d] * sizes[d];
      at_b -= b[d] * sizes[d];
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

}  // namespace

std::optional<uint64_t> byte_count(ir::Dtype dtype, const std::vector<int64_t>& sizes) {
  constexpr uint64_t kLimit = uint64_t{1} << 62;
  uint64_t bytes = static_cast<uint64_t>(ir::itemsize(dtype));
  bool empty = false;
  for (int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    const auto factor = static_cast<uint64_t>(size == 0 ? 1 : size);  // strides of empty tensors must fit too
    if (bytes > kLimit / factor) return std::nullopt;
    bytes *= factor;
    empty |= size == 0;
  }
  return empty ? 0 : bytes;
}

Array allocate(ir::Type type) {
  const auto bytes = static_cast<size_t>(type.span_bytes());
  const size_t rounded = (bytes / kAlignment + 1) * kAlignment;
  void* block = std::aligned_alloc(kAlignment, rounded);
  if (!block)
    throw PrecompileError(ir::to_string(type) + " takes " + std::to_string(bytes) +
                          " bytes, and there is no memory for them");
  std::memset(block, 0, rounded);
  return {std::move(type), static_cast<std::byte*>(block), std::shared_ptr<void>(block, std::free)};
}

Array with_strides(const Array& array, const std::vector<int64_t>& strides) {
  if (array.type.strides == ir::sizes(strides)) return array;
  PRECAST_CHECK(strides.size() == array.type.sizes.size(), "with_strides: rank differs");
  ir::Type type = array.type;
  type.strides = ir::sizes(strides);
  Array result = allocate(std::move(type));
  const auto item = static_cast<int64_t>(ir::itemsize(array.type.dtype));
  for_each_pair(ir::numbers(array.type.sizes), ir::numbers(array.type.strides), strides, [&](int64_t from, int64_t to) {
    std::memcpy(result.data + to * item, array.data + from * item, static_cast<size_t>(item));
  });
  return result;
}

Array contiguous(const Array& array) {
  return with_strides(array, ir::numbers(ir::contiguous_strides(array.type.sizes)));
}

}  // namespace precast::io
