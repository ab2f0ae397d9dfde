// Where a tensor lies in its storage: the identity of a tensor is its storage and this window,
// not its TensorImpl (autograd makes shallow copies that no dispatch shows).
#pragma once
#include <ATen/core/Tensor.h>

#include "ir/type.h"

namespace precast::trace {

/// A half-open range of a storage's bytes.
struct Bytes {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  bool contains(Bytes b) const { return b.empty() || (begin <= b.begin && b.end <= end); }
  bool intersects(Bytes b) const { return begin < b.end && b.begin < end && !empty() && !b.empty(); }
};

struct Window {
  ir::Type type;
  int64_t offset = 0;  // bytes from the start of the storage to the first element
  bool operator==(const Window&) const = default;

  Bytes bytes() const { return {offset, offset + type.span_bytes()}; }
  bool is(const at::Tensor&) const;  // same window, compared without allocating
};

Window window_of(const at::Tensor&);
size_t hash_of_window(const at::Tensor&);  // strides of dims of size 1 reach nothing
/// The tensor's storage seen through a window (below autograd).
at::Tensor tensor_at(const c10::Storage&, const Window&);

/// Two indices of `type` may name one element (a safe guess: true when in doubt).
bool overlaps_itself(const ir::Type&);
/// Elements fill the span without gaps or overlap, in any order of dims.
bool is_dense(const ir::Type&);
/// No byte belongs to elements of both (windows of one storage).
bool disjoint(const Window&, const Window&);

/// Calls f(offset in bytes) for each element in the order of indices; f returns false to stop.
template <class F>
bool for_each_element(const Window& w, F&& f) {
  const int64_t itemsize = ir::itemsize(w.type.dtype);
  if (w.type.numel() == 0) return true;
  const auto& sizes = w.type.sizes;
  std::vector<int64_t> index(sizes.size(), 0);
  int64_t at = w.offset;
  while (true) {
    if (!f(at)) return false;
    size_t d = sizes.size();
    while (d-- > 0) {
      const int64_t stride = w.type.strides[d] * itemsize;
      at += stride;
      if (++index[d] < sizes[d]) break;
      at -= stride * sizes[d];
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return true;
  }
}

/// Calls f(Bytes) for each stretch of memory that elements cover; f returns false to stop.
template <class F>
bool for_each_run(const Window& w, F&& f) {
  if (w.type.numel() == 0) return true;
  if (is_dense(w.type)) return f(w.bytes());
  const int64_t itemsize = ir::itemsize(w.type.dtype);
  return for_each_element(w, [&](int64_t at) { return f(Bytes{at, at + itemsize}); });
}

/// Which bytes of a storage hold something the graph knows. Fresh `empty` memory holds nothing.
class KnownBytes {
 public:
  explicit KnownBytes(int64_t size) : size_(size) {}

  bool all() const { return all_; }
  bool none() const { return !all_ && windows_.empty() && map_.empty(); }
  bool contains(const Window&);
  bool contains_none(const Window&);
  void add(const Window&);
  void resize(int64_t size);  // new bytes are unknown
  /// The elements of `src` that are not wholly known, as the bytes they would fill in `dst` (of the same sizes and
  /// dtype).
  std::vector<Bytes> gaps(const Window& src, const Window& dst);
  void remove(const std::vector<Bytes>&);

 private:
  void expand();

  int64_t size_, missing_ = 0;
  bool all_ = false;
  std::vector<Window> windows_;  // known, not yet in the map
  std::vector<bool> map_;        // made when a question needs it; then `missing_` counts its gaps
};

}  // namespace precast::trace
