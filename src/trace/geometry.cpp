#include "trace/geometry.h"

#include <c10/util/hash.h>

#include <algorithm>

#include "host_torch/tensor_types.h"

namespace precast::trace {

namespace {

/// Dims with more than one entry, by stride.
std::vector<std::pair<int64_t, int64_t>> sorted_dims(const ir::Type& t) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t d = 0; d < t.sizes.size(); ++d)
    if (t.sizes[d] > 1) dims.emplace_back(t.strides[d], t.sizes[d]);
  std::sort(dims.begin(), dims.end());
  return dims;
}

}  // namespace

bool Window::is(const at::Tensor& t) const {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  return static_cast<ir::Dtype>(t.scalar_type()) == type.dtype && ir::equal(type.sizes, impl->sizes()) &&
         ir::equal(type.strides, impl->strides()) &&
         impl->storage_offset() * static_cast<int64_t>(impl->itemsize()) == offset && t.is_conj() == type.conj &&
         t.is_neg() == type.neg;
}

Window window_of(const at::Tensor& t) {
  return {host_torch::type_of(t), t.storage_offset() * static_cast<int64_t>(t.itemsize())};
}

size_t hash_of_window(const at::Tensor& t) {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  const auto sizes = impl->sizes(), strides = impl->strides();
  size_t hash =
      c10::get_hash(sizes, impl->storage_offset(), static_cast<int>(t.scalar_type()), t.is_conj(), t.is_neg());
  for (size_t d = 0; d < sizes.size(); ++d)
    hash = c10::hash_combine(hash, static_cast<size_t>(sizes[d] == 1 ? 0 : strides[d]));
  return hash;
}

at::Tensor tensor_at(const c10::Storage& storage, const Window& w) {
  const auto dtype = static_cast<at::ScalarType>(w.type.dtype);
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::computeDispatchKey(dtype, std::nullopt, storage.device())),
      at::scalarTypeToTypeMeta(dtype));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(ir::numbers(w.type.sizes), ir::numbers(w.type.strides),
                                                 w.offset / ir::itemsize(w.type.dtype));
  if (w.type.conj) t._set_conj(true);
  if (w.type.neg) t._set_neg(true);
  return t;
}

bool overlaps_itself(const ir::Type& t) {
  int64_t reach = 0;  // of the dims with smaller strides
  for (auto [stride, size] : sorted_dims(t)) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

bool is_dense(const ir::Type& t) {
  int64_t expected = 1;
  for (auto [stride, size] : sorted_dims(t)) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

bool disjoint(const Window& a, const Window& b) {
  if (!a.bytes().intersects(b.bytes())) return true;
  if (is_dense(a.type) && is_dense(b.type)) return false;
  KnownBytes of_a(std::max(a.bytes().end, b.bytes().end));
  of_a.add(a);
  return of_a.contains_none(b);
}

bool KnownBytes::contains_none(const Window& w) {
  expand();
  return for_each_run(w, [&](Bytes run) {
    return std::none_of(map_.begin() + run.begin, map_.begin() + std::min(run.end, size_),
                        [](bool known) { return known; });
  });
}

bool KnownBytes::contains(const Window& w) {
  const Bytes b = w.bytes();
  if (b.empty() || (all_ && b.end <= size_)) return true;
  for (const Window& known : windows_)
    if (known == w || (is_dense(known.type) && known.bytes().contains(b))) return true;
  if (none() || b.begin < 0 || b.end > size_) return false;
  expand();
  return for_each_run(w, [&](Bytes run) {
    for (int64_t i = run.begin; i < run.end; ++i)
      if (!map_[static_cast<size_t>(i)]) return false;
    return true;
  });
}

void KnownBytes::add(const Window& w) {
  constexpr size_t kFew = 16;
  const Bytes b = w.bytes();
  if (b.empty() || all_) return;
  windows_.push_back(w);
  if (!map_.empty() || windows_.size() > kFew) expand();
  all_ = map_.empty() ? b.begin == 0 && b.end >= size_ && is_dense(w.type) : missing_ == 0;
}

void KnownBytes::expand() {
  if (map_.empty()) {
    map_.assign(static_cast<size_t>(size_), false);
    missing_ = size_;
  }
  for (const Window& w : windows_)
    for_each_run(w, [&](Bytes run) {
      for (int64_t i = run.begin; i < std::min(run.end, size_); ++i) {
        missing_ -= !map_[static_cast<size_t>(i)];
        map_[static_cast<size_t>(i)] = true;
      }
      return true;
    });
  windows_.clear();
}

std::vector<Bytes> KnownBytes::gaps(const Window& src, const Window& dst) {
  const auto elements = [](const Window& w) {
    std::vector<int64_t> at;
    for_each_element(w, [&](int64_t offset) {
      at.push_back(offset);
      return true;
    });
    return at;
  };
  std::vector<Bytes> gaps;
  const std::vector<int64_t> from = elements(src), to = elements(dst);
  const ir::Type element = ir::contiguous(src.type.dtype, {});
  for (size_t i = 0; i < from.size(); ++i)
    if (!contains({element, from[i]})) gaps.push_back({to[i], to[i] + ir::itemsize(dst.type.dtype)});
  return gaps;
}

void KnownBytes::remove(const std::vector<Bytes>& gaps) {
  if (gaps.empty()) return;
  expand();
  for (const Bytes& gap : gaps)
    for (int64_t i = gap.begin; i < gap.end; ++i) {
      missing_ += map_[static_cast<size_t>(i)];
      map_[static_cast<size_t>(i)] = false;
    }
  all_ = false;
}

void KnownBytes::resize(int64_t size) {
  if (none()) {
    size_ = size;
    return;
  }
  if (all_) windows_.push_back({ir::contiguous(ir::Dtype::u8, {size_}), 0});
  expand();
  map_.resize(static_cast<size_t>(size), false);
  size_ = size;
  missing_ = std::count(map_.begin(), map_.end(), false);
  all_ = missing_ == 0;
}

}  // namespace precast::trace
