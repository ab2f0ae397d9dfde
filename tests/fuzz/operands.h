// How operands are chosen; for the tables of families.
#pragma once
#include <algorithm>

#include "ops.h"

namespace precast::fuzz {

inline bool any(const at::Tensor&) { return true; }
inline bool complex_number(const at::Tensor& t) { return at::isComplexType(t.scalar_type()); }
inline bool floating(const at::Tensor& t) { return at::isFloatingType(t.scalar_type()); }
inline bool integral(const at::Tensor& t) { return at::isIntegralType(t.scalar_type(), false); }
inline bool integral_or_bool(const at::Tensor& t) { return at::isIntegralType(t.scalar_type(), true); }
inline bool boolean(const at::Tensor& t) { return t.scalar_type() == at::kBool; }
inline bool numeric(const at::Tensor& t) { return !boolean(t) && !complex_number(t); }
inline bool not_complex(const at::Tensor& t) { return !complex_number(t); }
inline bool has_dim(const at::Tensor& t) { return t.dim() > 0; }
inline bool has_elements(const at::Tensor& t) { return t.dim() > 0 && t.numel() > 0; }

/// A dimension of `t`, counted from either end. 0-dim tensors have dimensions 0 and -1.
inline int64_t dim_of(State& s, const at::Tensor& t) {
  const int64_t n = std::max<int64_t>(t.dim(), 1);
  return s.random.integer(-n, n - 1);
}
inline size_t from_start(int64_t dim, const at::Tensor& t) {
  return static_cast<size_t>(dim < 0 ? dim + std::max<int64_t>(t.dim(), 1) : dim);
}

inline Arg number_for(State& s, const at::Tensor& t) {
  if (s.random.chance(0.25))
    return s.random.chance(0.5) ? Arg(s.random.choose({0.5, -1.25, 2.0, 0.1})) : Arg(s.random.integer(-3, 3));
  if (integral_or_bool(t)) return s.random.integer(-3, 5);
  return s.random.choose({0.5, -1.25, 2.0, 0.3, 3.0});
}

inline bool broadcasts(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t d = 1; d <= std::min(a.dim(), b.dim()); ++d)
    if (a.size(-d) != b.size(-d) && a.size(-d) != 1 && b.size(-d) != 1) return false;
  return a.numel() * b.numel() <= 1 << 24;
}
inline bool expands_to(const at::Tensor& a, at::IntArrayRef to) {
  if (a.dim() > static_cast<int64_t>(to.size())) return false;
  for (int64_t d = 1; d <= a.dim(); ++d)
    if (a.size(-d) != to[to.size() - static_cast<size_t>(d)] && a.size(-d) != 1) return false;
  return true;
}
inline bool expands_to(const at::Tensor& a, const at::Tensor& to) { return expands_to(a, to.sizes()); }

/// A value that may be written: not one that all of its elements share.
inline bool writable(const at::Tensor& t) {
  if (t.requires_grad() && t.is_leaf()) return false;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.stride(d) == 0 && t.size(d) > 1) return false;
  return true;
}
/// The operand of an op that exists in both forms.
template <bool in_place>
bool target(const at::Tensor& t) {
  return !in_place || writable(t);
}

template <class Pred>
Ref same_dtype(State& s, Ref a, Pred pred) {
  return s.pick([&](const at::Tensor& t) { return t.scalar_type() == s.at(a).scalar_type() && pred(t); });
}
inline Ref like(State& s, Ref a) {
  return same_dtype(s, a, [&](const at::Tensor& t) { return t.sizes() == s.at(a).sizes(); });
}

template <class Pred>
Args pair(State& s, Pred pred) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  const Ref b = s.pick([&](const at::Tensor& t) { return pred(t) && broadcasts(s.at(a), t); });
  if (b.value < 0) return {};
  return {{a, b}};
}

template <bool (*pred)(const at::Tensor&)>
Args one(State& s) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  return {{a}};
}
template <bool (*pred)(const at::Tensor&)>
Args two(State& s) {
  return pair(s, pred);
}
template <bool (*pred)(const at::Tensor&)>
Args three(State& s) {
  const Args ab = pair(s, pred);
  if (!ab) return {};
  const Ref c = s.pick([&](const at::Tensor& t) {
    return pred(t) && broadcasts(t, s.at(std::get<Ref>((*ab)[0]))) && broadcasts(t, s.at(std::get<Ref>((*ab)[1])));
  });
  if (c.value < 0) return {};
  return {{(*ab)[0], (*ab)[1], c}};
}
template <bool (*pred)(const at::Tensor&)>
Args with_number(State& s) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  return {{a, number_for(s, s.at(a))}};
}
template <bool (*pred)(const at::Tensor&)>
Args number_with(State& s) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  return {{number_for(s, s.at(a)), a}};
}
template <bool (*pred)(const at::Tensor&)>
Args with_dim(State& s) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  return {{a, dim_of(s, s.at(a))}};
}
template <bool (*pred)(const at::Tensor&)>
Args with_dim_keep(State& s) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  return {{a, dim_of(s, s.at(a)), s.random.chance(0.5)}};
}
/// Some of the dimensions of a value, at least one.
inline std::vector<int64_t> dims_of(State& s, const at::Tensor& t) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < std::max<int64_t>(t.dim(), 1); ++d)
    if (s.random.chance(0.6)) dims.push_back(s.random.chance(0.3) && t.dim() ? d - t.dim() : d);
  if (dims.empty()) dims.push_back(0);
  return dims;
}
template <bool (*pred)(const at::Tensor&)>
Args with_dims_keep(State& s) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  return {{a, dims_of(s, s.at(a)), s.random.chance(0.5)}};
}
template <bool (*pred)(const at::Tensor&)>
Args same_sizes(State& s) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  return {{a, like(s, a)}};
}

}  // namespace precast::fuzz
