#include "passes/layout.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace precast::passes {
namespace {

using ir::Type;

// Sorts dims from the fastest to the slowest, starting from the reversed order and moving a dim only
// where `compare` decides (ATen's insertion sort: ties and unknowns keep their place).
template <class Compare>
std::vector<size_t> fastest_first(size_t dims, Compare compare) {
  std::vector<size_t> perm(dims);
  std::iota(perm.rbegin(), perm.rend(), 0);
  for (size_t i = 1; i < dims; ++i) {
    size_t dim1 = i;
    for (size_t dim0 = i; dim0-- > 0;) {
      int c = compare(perm[dim0], perm[dim1]);
      if (c > 0) {
        std::swap(perm[dim0], perm[dim1]);
        dim1 = dim0;
      } else if (c < 0) {
        break;
      }
    }
  }
  return perm;
}

bool channels_last(const Type& t) {
  if (t.dim() != 4) return false;
  Size expected = 1;
  for (size_t d : {1, 3, 2, 0}) {
    if (t.sizes[d] == 1) continue;
    if (t.strides[d] != expected) return false;
    expected *= t.sizes[d];
  }
  return true;
}

Dims channels_last_strides(const Dims& sizes) {
  Dims strides(sizes.size());
  strides[1] = 1;
  Size n = 1;
  const auto fill = [&](size_t d) {
    strides[d] = n;
    if (sizes[d] != 0) n *= sizes[d];
  };
  fill(1);
  for (size_t d = sizes.size(); d-- > 2;) fill(d);
  strides[0] = n;
  return strides;
}

}  // namespace

std::optional<Dims> broadcast_sizes(const std::vector<const Type*>& operands) {
  Dims sizes;
  for (const Type* t : operands) {
    if (t->sizes.size() > sizes.size()) sizes.insert(sizes.begin(), t->sizes.size() - sizes.size(), 1);
    size_t offset = sizes.size() - t->sizes.size();
    for (size_t i = 0; i < t->sizes.size(); ++i) {
      Size& s = sizes[offset + i];
      if (s == 1)
        s = t->sizes[i];
      else if (t->sizes[i] != 1 && t->sizes[i] != s)
        return {};
    }
  }
  return sizes;
}

Dims pointwise_strides(const std::vector<const Type*>& operands, const Dims& sizes) {
  auto all = [&](auto f) { return std::ranges::all_of(operands, f); };
  if (all([&](const Type* t) { return t->sizes == sizes; })) {
    if (all([](const Type* t) { return t->is_contiguous(); })) return ir::contiguous_strides(sizes);
    if (all([](const Type* t) { return channels_last(*t); })) return channels_last_strides(sizes);
    if (all([&](const Type* t) { return is_dense(*t) && t->strides == operands[0]->strides; }))
      return operands[0]->strides;
  }
  auto stride = [&](const Type& t, size_t dim) -> Size {
    size_t offset = sizes.size() - t.sizes.size();
    if (dim < offset) return 0;
    if (t.sizes[dim - offset] == 1 && sizes[dim] != 1) return 0;
    return t.strides[dim - offset];
  };
  auto perm = fastest_first(sizes.size(), [&](size_t a, size_t b) {
    for (const Type* t : operands) {
      Size sa = stride(*t, a), sb = stride(*t, b);
      if (sa == 0 || sb == 0) continue;
      if (sa != sb) return ir::roughly_less(sa, sb) ? -1 : 1;
      if (ir::roughly_less(sizes[b], sizes[a])) return 1;
    }
    return 0;
  });
  if (std::ranges::is_sorted(perm, std::greater<>())) return ir::contiguous_strides(sizes);
  Dims strides(sizes.size());
  Size next = 1;
  for (size_t dim : perm) {
    strides[dim] = next;
    next *= sizes[dim];
  }
  return strides;
}

Dims preserved_strides(const Type& t) {
  if (is_dense(t)) return t.strides;
  auto perm = fastest_first(t.sizes.size(), [&](size_t a, size_t b) {
    Size sa = t.strides[a], sb = t.strides[b];
    if (sa == 0 || sb == 0) return 0;
    if (sa != sb) return ir::roughly_less(sa, sb) ? -1 : 1;
    return ir::roughly_less(t.sizes[b], t.sizes[a]) ? 1 : 0;
  });
  Dims strides(t.sizes.size());
  Size next = 1;
  for (size_t dim : perm) {
    strides[dim] = next;
    if (t.sizes[dim] != 0) next *= t.sizes[dim];
  }
  return strides;
}

std::optional<Dims> format_strides(const Type& t, int64_t memory_format) {
  enum { kContiguous = 0, kPreserve = 1, kChannelsLast = 2, kChannelsLast3d = 3 };
  if (memory_format == kContiguous) return ir::contiguous_strides(t.sizes);
  if (memory_format == kPreserve) return preserved_strides(t);
  if ((memory_format == kChannelsLast && t.dim() == 4) || (memory_format == kChannelsLast3d && t.dim() == 5))
    return channels_last_strides(t.sizes);
  return {};
}

namespace {

// The dims with more than one element, those of small strides first.
std::vector<size_t> by_stride(const Type& t) {
  std::vector<size_t> dims;
  for (size_t i = 0; i < t.sizes.size(); ++i)
    if (t.sizes[i] != 1) dims.push_back(i);
  std::ranges::sort(dims, {}, [&](size_t i) { return t.strides[i].hint(); });
  return dims;
}

}  // namespace

bool is_dense(const Type& t) {
  for (const Size& size : t.sizes)
    if (size == 0) return true;
  Size expected = 1;
  for (size_t i : by_stride(t)) {
    if (t.strides[i] != expected) return false;
    expected *= t.sizes[i];
  }
  return true;
}

bool overlaps(const Type& t) {
  for (const Size& size : t.sizes)
    if (size == 0) return false;
  int64_t last = 0;  // the place of the last element so far
  for (size_t i : by_stride(t)) {
    if (t.strides[i] <= last) return true;
    last += t.strides[i] * (t.sizes[i] - 1);
  }
  return false;
}

bool same_layout(const Dims& sizes, const Dims& a, const Dims& b) {
  bool same = true;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return true;
    same = same && (sizes[i] == 1 || a[i] == b[i]);
  }
  return same;
}

std::optional<Dims> reshaped_strides(const Type& t, const Dims& sizes) {
  if (t.numel() == 0) return ir::contiguous_strides(sizes);
  if (t.sizes.empty()) return Dims(sizes.size(), 1);
  auto at = [](const Dims& v, int64_t i) { return v[static_cast<size_t>(i)]; };
  // Walks blocks of old dims that lie behind each other, and fills each with new dims, from the last on.
  Dims strides(sizes.size());
  auto next = static_cast<int64_t>(sizes.size()) - 1;
  Size block_stride = t.strides.back(), old_numel = 1, new_numel = 1;
  auto room = [&] {  // in the block, for more of the new dims
    if (!old_numel.is_symbolic() && !new_numel.is_symbolic()) return new_numel < old_numel;
    return new_numel != old_numel && ir::divide(old_numel, new_numel).has_value();
  };
  for (int64_t d = t.dim() - 1; d >= 0; --d) {
    old_numel *= at(t.sizes, d);
    bool block_ends = d == 0 || (at(t.sizes, d - 1) != 1 && at(t.strides, d - 1) != old_numel * block_stride);
    if (!block_ends) continue;
    for (; next >= 0 && (room() || at(sizes, next) == 1); --next) {
      strides[static_cast<size_t>(next)] = new_numel * block_stride;
      new_numel *= at(sizes, next);
    }
    if (new_numel != old_numel) return {};
    if (d > 0) {
      block_stride = at(t.strides, d - 1);
      old_numel = new_numel = 1;
    }
  }
  if (next != -1) return {};
  return strides;
}

}  // namespace precast::passes
