#include "ops.h"

#include <algorithm>

namespace precast::fuzz {
namespace {

using Args = std::optional<std::vector<Arg>>;

bool any(const at::Tensor&) { return true; }
bool floating(const at::Tensor& t) { return at::isFloatingType(t.scalar_type()); }
bool integral(const at::Tensor& t) { return at::isIntegralType(t.scalar_type(), false); }
bool integral_or_bool(const at::Tensor& t) { return at::isIntegralType(t.scalar_type(), true); }
bool boolean(const at::Tensor& t) { return t.scalar_type() == at::kBool; }
bool numeric(const at::Tensor& t) { return t.scalar_type() != at::kBool; }
bool has_dim(const at::Tensor& t) { return t.dim() > 0; }

// A dimension of `t`, counted from either end. 0-dim tensors have dimensions 0 and -1.
int64_t dim_of(State& s, const at::Tensor& t) {
  const int64_t n = std::max<int64_t>(t.dim(), 1);
  return s.random.integer(-n, n - 1);
}

Arg number_for(State& s, const at::Tensor& t) {
  if (s.random.chance(0.25))
    return s.random.chance(0.5) ? Arg(s.random.choose({0.5, -1.25, 2.0, 0.1})) : Arg(s.random.integer(-3, 3));
  if (integral_or_bool(t)) return s.random.integer(-3, 5);
  return s.random.choose({0.5, -1.25, 2.0, 0.3, 3.0});
}

bool broadcasts(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t d = 1; d <= std::min(a.dim(), b.dim()); ++d)
    if (a.size(-d) != b.size(-d) && a.size(-d) != 1 && b.size(-d) != 1) return false;
  return a.numel() * b.numel() <= 1 << 24;
}
bool expands_to(const at::Tensor& a, at::IntArrayRef to) {
  if (a.dim() > static_cast<int64_t>(to.size())) return false;
  for (int64_t d = 1; d <= a.dim(); ++d)
    if (a.size(-d) != to[to.size() - static_cast<size_t>(d)] && a.size(-d) != 1) return false;
  return true;
}
bool expands_to(const at::Tensor& a, const at::Tensor& to) { return expands_to(a, to.sizes()); }
template <class Pred>
Args pair(State& s, Pred pred) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  const Ref b = s.pick([&](const at::Tensor& t) { return pred(t) && broadcasts(s.at(a), t); });
  if (b.value < 0) return {};
  return {{a, b}};
}

// One operand.
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
Args with_number(State& s) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  return {{a, number_for(s, s.at(a))}};
}

// A value that may be written: not one that all of its elements share.
bool writable(const at::Tensor& t) {
  if (t.requires_grad() && t.is_leaf()) return false;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.stride(d) == 0 && t.size(d) > 1) return false;
  return true;
}
Args write_one(State& s) {
  const Ref a = s.pick(writable);
  if (a.value < 0) return {};
  return {{a}};
}
Args write_number(State& s) {
  const Ref a = s.pick(writable);
  if (a.value < 0) return {};
  return {{a, number_for(s, s.at(a))}};
}
Args write_two(State& s) {
  const Ref a = s.pick(writable);
  if (a.value < 0) return {};
  const Ref b = s.pick([&](const at::Tensor& t) { return expands_to(t, s.at(a)); });
  if (b.value < 0) return {};
  return {{a, b}};
}

// One operand and one dimension.
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
template <bool (*pred)(const at::Tensor&)>
Args with_dims_keep(State& s) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < std::max<int64_t>(s.at(a).dim(), 1); ++d)
    if (s.random.chance(0.6)) dims.push_back(s.random.chance(0.3) && s.at(a).dim() ? d - s.at(a).dim() : d);
  if (dims.empty()) dims.push_back(0);
  return {{a, dims, s.random.chance(0.5)}};
}

// ---- views ----

Args permute(State& s) {
  const Ref a = s.pick(any);
  std::vector<int64_t> order;
  for (int64_t d = 0; d < s.at(a).dim(); ++d) order.insert(order.begin() + s.random.integer(0, d), d);
  return {{a, order}};
}
Args transpose(State& s) {
  const Ref a = s.pick(has_dim);
  if (a.value < 0) return {};
  return {{a, dim_of(s, s.at(a)), dim_of(s, s.at(a))}};
}
Args select(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && t.numel() > 0; });
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a)), n = s.at(a).size(dim);
  return {{a, dim, s.random.integer(-n, n - 1)}};
}
Args slice(State& s) {
  const Ref a = s.pick(has_dim);
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a)), n = s.at(a).size(dim);
  const Arg start = s.random.chance(0.3) ? Arg() : Arg(s.random.integer(-n, n));
  const Arg end = s.random.chance(0.4) ? Arg() : Arg(s.random.integer(-n, n + 2));
  return {{a, dim, start, end, s.random.choose({int64_t{1}, int64_t{1}, int64_t{2}, int64_t{3}})}};
}
Args narrow(State& s) {
  const Ref a = s.pick(has_dim);
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a)), n = s.at(a).size(dim), start = s.random.integer(0, n);
  return {{a, dim, start, s.random.integer(0, n - start)}};
}
// Sizes with the same number of elements: dims merged, or one split in two.
Args reshape(State& s) {
  const Ref a = s.pick(any);
  std::vector<int64_t> sizes;
  for (int64_t size : s.at(a).sizes()) {
    if (!sizes.empty() && s.random.chance(0.4))
      sizes.back() *= size;
    else if (size > 2 && size % 2 == 0 && s.random.chance(0.3))
      sizes.insert(sizes.end(), {2, size / 2});
    else
      sizes.push_back(size);
  }
  if (sizes.empty()) sizes = {1, 1};
  if (s.at(a).numel() > 0 && s.random.chance(0.2))
    sizes[static_cast<size_t>(s.random.integer(0, static_cast<int64_t>(sizes.size()) - 1))] = -1;
  return {{a, sizes}};
}
Args expand(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.numel() <= 4096; });
  if (a.value < 0) return {};
  std::vector<int64_t> sizes;
  for (int64_t size : s.at(a).sizes())
    sizes.push_back(size == 1 && s.random.chance(0.7) ? s.random.integer(0, 4) : s.random.chance(0.3) ? -1 : size);
  if (s.random.chance(0.3)) sizes.insert(sizes.begin(), s.random.integer(1, 3));
  return {{a, sizes}};
}
Args unsqueeze(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() < 5; });
  if (a.value < 0) return {};
  return {{a, s.random.integer(-s.at(a).dim() - 1, s.at(a).dim())}};
}
Args diagonal(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() >= 2; });
  if (a.value < 0) return {};
  return {{a, s.random.integer(-1, 1), int64_t{0}, int64_t{1}}};
}
Args unfold(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && t.numel() > 0; });
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a));
  return {{a, dim, s.random.integer(1, s.at(a).size(dim)), s.random.integer(1, 3)}};
}
Args as_strided(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.numel() >= 4 && t.is_contiguous(); });
  if (a.value < 0) return {};
  return {{a, std::vector<int64_t>{2, s.at(a).numel() / 4}, std::vector<int64_t>{s.random.integer(1, 2), 1}}};
}
Args split(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && t.numel() > 0; });
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a));
  return {{a, (s.at(a).size(dim) + 1) / 2, dim}};
}
Args chunk(State& s) {
  const Ref a = s.pick(has_dim);
  if (a.value < 0) return {};
  return {{a, s.random.integer(1, 3), dim_of(s, s.at(a))}};
}
Args unbind(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && t.size(0) > 0 && t.size(0) < 4; });
  if (a.value < 0) return {};
  return {{a, int64_t{0}}};
}

// ---- joins, copies, creation ----

Args cat(State& s) {
  const Ref a = s.pick(has_dim);
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a));
  const Ref b = s.pick([&](const at::Tensor& t) {
    if (t.dim() != s.at(a).dim()) return false;
    for (int64_t d = 0; d < t.dim(); ++d)
      if (d != (dim + t.dim()) % t.dim() && t.size(d) != s.at(a).size(d)) return false;
    return true;
  });
  std::vector<Ref> list = {a, b};
  if (s.random.chance(0.3)) list.push_back(a);
  return {{list, dim}};
}
Args stack(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() < 5; });
  if (a.value < 0) return {};
  const Ref b = s.pick([&](const at::Tensor& t) { return t.sizes() == s.at(a).sizes(); });
  return {{std::vector<Ref>{a, b}, s.random.integer(0, s.at(a).dim())}};
}
Args pad(State& s) {
  const Ref a = s.pick(has_dim);
  if (a.value < 0) return {};
  std::vector<int64_t> pads;
  for (int64_t d = 0; d < s.random.integer(1, std::min<int64_t>(2, s.at(a).dim())); ++d) {
    pads.push_back(s.random.integer(0, 2));
    pads.push_back(s.random.integer(-1, 2));
  }
  return {{a, pads, number_for(s, s.at(a))}};
}
Args flip(State& s) {
  const Ref a = s.pick(has_dim);
  if (a.value < 0) return {};
  return {{a, std::vector<int64_t>{dim_of(s, s.at(a))}}};
}
Args roll(State& s) {
  const Ref a = s.pick(has_dim);
  if (a.value < 0) return {};
  return {{a, std::vector<int64_t>{s.random.integer(-3, 3)}, std::vector<int64_t>{dim_of(s, s.at(a))}}};
}
Args repeat(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.numel() <= 2048; });
  if (a.value < 0) return {};
  std::vector<int64_t> times(static_cast<size_t>(s.at(a).dim()) + (s.random.chance(0.3) ? 1 : 0));
  for (int64_t& n : times) n = s.random.integer(1, 2);
  return {{a, times}};
}
Args triangle(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() >= 2; });
  if (a.value < 0) return {};
  return {{a, s.random.integer(-1, 1)}};
}
Args full_like(State& s) {
  const Ref a = s.pick(any);
  return {{a, number_for(s, s.at(a))}};
}
Args full(State& s) {
  return {{std::vector<int64_t>{s.random.integer(1, 3), s.random.integer(1, 5)}, s.random.integer(-2, 2),
           s.random.choose({at::kFloat, at::kLong, at::kDouble, at::kBool, at::kInt})}};
}
Args arange(State& s) {
  return {{s.random.integer(1, 9), s.random.choose({at::kFloat, at::kLong, at::kInt, at::kDouble})}};
}
Args cast(State& s) {
  const Ref a = s.pick(any);
  // Floats that are negative, huge or NaN have no portable integer value: their casts are tested elsewhere.
  std::vector<at::ScalarType> to = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};
  if (!floating(s.at(a))) to.insert(to.end(), {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte, at::kBool});
  return {{a, s.random.choose(to)}};
}
Args cast_jump(State& s) {
  const Ref a = s.pick(floating);
  if (a.value < 0) return {};
  return {{a, s.random.choose({at::kLong, at::kInt, at::kBool})}};
}

// ---- reductions ----

Args max_dim(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.numel() > 0; });
  if (a.value < 0) return {};
  return {{a, dim_of(s, s.at(a)), s.random.chance(0.5)}};
}
Args variance(State& s) {
  const Ref a = s.pick(floating);
  if (a.value < 0) return {};
  return {{a, std::vector<int64_t>{dim_of(s, s.at(a))}, s.random.integer(0, 1), s.random.chance(0.5)}};
}
Args norm(State& s) {
  const Ref a = s.pick(floating);
  if (a.value < 0) return {};
  return {{a, s.random.choose({1.0, 2.0}), std::vector<int64_t>{dim_of(s, s.at(a))}, s.random.chance(0.5)}};
}
Args topk(State& s) {
  const Ref a =
      s.pick([](const at::Tensor& t) { return t.dim() > 0 && t.numel() > 0 && t.scalar_type() != at::kBool; });
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a));
  return {{a, s.random.integer(1, s.at(a).size(dim)), dim}};
}

// ---- reads and writes through an index ----

// An integer input made to index a dimension of `size`.
Ref index_for(State& s, int64_t size, int64_t rank) {
  std::vector<int> found;
  for (size_t i = 0; i < s.program.inputs.size(); ++i) {
    const Input& in = s.program.inputs[i];
    if (in.index_below > 0 && in.index_below <= size && static_cast<int64_t>(in.sizes.size()) == rank)
      found.push_back(static_cast<int>(i));
  }
  return found.empty() ? Ref{} : Ref{s.random.choose(found)};
}
struct Indexed {
  Ref self, index;
  int64_t dim = 0;
};
template <class Pred>
Indexed indexed(State& s, Pred pred, int64_t index_rank) {  // rank -1: that of self
  Indexed r;
  r.self = s.pick([&](const at::Tensor& t) { return pred(t) && t.dim() > 0 && t.numel() > 0; });
  if (r.self.value < 0) return r;
  r.dim = dim_of(s, s.at(r.self));
  r.index = index_for(s, s.at(r.self).size(r.dim), index_rank < 0 ? s.at(r.self).dim() : index_rank);
  return r;
}
Args index_select(State& s) {
  const Indexed r = indexed(s, any, 1);
  if (r.index.value < 0) return {};
  return {{r.self, r.dim, r.index}};
}
Args gather(State& s) {
  const Indexed r = indexed(s, any, -1);
  if (r.index.value < 0) return {};
  return {{r.self, r.dim, r.index}};
}
Args index(State& s) {
  const Indexed r = indexed(s, any, s.random.integer(1, 2));
  if (r.index.value < 0) return {};
  std::vector<Ref> list(static_cast<size_t>((r.dim + s.at(r.self).dim()) % s.at(r.self).dim()));
  list.push_back(r.index);
  return {{r.self, list}};
}
Args embedding(State& s) {
  const Ref table = s.pick([](const at::Tensor& t) { return t.dim() == 2 && t.numel() > 0 && floating(t); });
  if (table.value < 0) return {};
  const Ref rows = index_for(s, s.at(table).size(0), s.random.integer(1, 2));
  if (rows.value < 0) return {};
  return {{table, rows}};
}
Args take(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.numel() > 0; });
  if (a.value < 0) return {};
  const Ref at = index_for(s, s.at(a).numel(), s.random.integer(1, 2));
  if (at.value < 0) return {};
  return {{a, at}};
}
template <bool in_place>
bool target(const at::Tensor& t) {
  return !in_place || writable(t);
}
template <bool in_place>
Args scatter(State& s) {
  const Indexed r = indexed(s, target<in_place>, -1);
  if (r.index.value < 0) return {};
  const Ref source = s.pick([&](const at::Tensor& t) {
    if (t.dim() != s.at(r.index).dim() || t.scalar_type() != s.at(r.self).scalar_type()) return false;
    for (int64_t d = 0; d < t.dim(); ++d)
      if (t.size(d) < s.at(r.index).size(d)) return false;
    return true;
  });
  if (source.value < 0) return {};
  return {{r.self, r.dim, r.index, source}};
}
template <bool in_place>
Args scatter_value(State& s) {
  const Indexed r = indexed(s, target<in_place>, -1);
  if (r.index.value < 0) return {};
  return {{r.self, r.dim, r.index, number_for(s, s.at(r.self))}};
}
Args scatter_reduce(State& s) {
  Args args = scatter<false>(s);
  if (!args) return {};
  args->push_back(std::string(s.random.choose({"sum", "amax", "amin", "prod", "mean"})));
  args->push_back(s.random.chance(0.5));
  return args;
}
template <bool in_place>
Args index_put(State& s) {
  const Indexed r = indexed(s, target<in_place>, 1);
  if (r.index.value < 0) return {};
  std::vector<int64_t> sizes = s.at(r.self).sizes().vec();
  const auto dim = static_cast<size_t>((r.dim + s.at(r.self).dim()) % s.at(r.self).dim());
  sizes[dim] = s.at(r.index).numel();
  const Ref value = s.pick([&](const at::Tensor& t) {
    return t.scalar_type() == s.at(r.self).scalar_type() && expands_to(t, at::IntArrayRef(sizes));
  });
  if (value.value < 0) return {};
  std::vector<Ref> list(dim);
  list.push_back(r.index);
  return {{r.self, list, value, s.random.chance(0.5)}};
}
template <bool in_place>
Args index_add(State& s) {
  const Indexed r = indexed(s, target<in_place>, 1);
  if (r.index.value < 0) return {};
  std::vector<int64_t> sizes = s.at(r.self).sizes().vec();
  sizes[static_cast<size_t>((r.dim + s.at(r.self).dim()) % s.at(r.self).dim())] = s.at(r.index).numel();
  const Ref source =
      s.pick([&](const at::Tensor& t) { return t.scalar_type() == s.at(r.self).scalar_type() && t.sizes() == sizes; });
  if (source.value < 0) return {};
  return {{r.self, r.dim, r.index, source}};
}
Args index_fill(State& s) {
  const Indexed r = indexed(s, any, 1);
  if (r.index.value < 0) return {};
  return {{r.self, r.dim, r.index, number_for(s, s.at(r.self))}};
}
template <bool in_place>
Args masked_fill(State& s) {
  const Ref a = s.pick(target<in_place>);
  if (a.value < 0) return {};
  const Ref mask = s.pick([&](const at::Tensor& t) { return boolean(t) && expands_to(t, s.at(a)); });
  if (mask.value < 0) return {};
  return {{a, mask, number_for(s, s.at(a))}};
}
Args where(State& s) {
  const Ref mask = s.pick(boolean);
  if (mask.value < 0) return {};
  const Ref a = s.pick([&](const at::Tensor& t) { return broadcasts(t, s.at(mask)); });
  if (a.value < 0) return {};
  const Ref b = s.pick([&](const at::Tensor& t) { return broadcasts(t, s.at(mask)) && broadcasts(t, s.at(a)); });
  return {{mask, a, b}};
}

// ---- products ----

template <class Pred>
Ref same_dtype(State& s, Ref a, Pred pred) {
  return s.pick([&](const at::Tensor& t) { return t.scalar_type() == s.at(a).scalar_type() && pred(t); });
}
Args mm(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 2 && numeric(t); });
  if (a.value < 0) return {};
  const Ref b = same_dtype(s, a, [&](const at::Tensor& t) { return t.dim() == 2 && t.size(0) == s.at(a).size(1); });
  if (b.value < 0) return {};
  return {{a, b}};
}
Args bmm(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 3 && numeric(t); });
  if (a.value < 0) return {};
  const Ref b = same_dtype(s, a, [&](const at::Tensor& t) {
    return t.dim() == 3 && t.size(0) == s.at(a).size(0) && t.size(1) == s.at(a).size(2);
  });
  if (b.value < 0) return {};
  return {{a, b}};
}
Args matmul(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && numeric(t); });
  if (a.value < 0) return {};
  const Ref b = same_dtype(s, a, [&](const at::Tensor& t) {
    return t.dim() > 0 && t.size(t.dim() == 1 ? 0 : -2) == s.at(a).size(-1) && t.numel() < 8192;
  });
  if (b.value < 0) return {};
  return {{a, b}};
}
Args linear(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && floating(t); });
  if (a.value < 0) return {};
  const Ref w = same_dtype(s, a, [&](const at::Tensor& t) { return t.dim() == 2 && t.size(1) == s.at(a).size(-1); });
  if (w.value < 0) return {};
  return {{a, w, same_dtype(s, a, [&](const at::Tensor& t) { return t.dim() == 1 && t.size(0) == s.at(w).size(0); })}};
}
Args addmm(State& s) {
  const Args product = mm(s);
  if (!product) return {};
  const at::Tensor &a = s.at(std::get<Ref>((*product)[0])), &b = s.at(std::get<Ref>((*product)[1]));
  const std::vector<int64_t> sizes = {a.size(0), b.size(1)};
  const Ref bias = same_dtype(s, std::get<Ref>((*product)[0]),
                              [&](const at::Tensor& t) { return expands_to(t, at::IntArrayRef(sizes)); });
  if (bias.value < 0) return {};
  return {{bias, (*product)[0], (*product)[1], s.random.choose({int64_t{1}, int64_t{1}, int64_t{0}, int64_t{2}}),
           s.random.choose({int64_t{1}, int64_t{2}})}};
}
Args vectors(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 1 && numeric(t); });
  if (a.value < 0) return {};
  const Ref b = same_dtype(s, a, [&](const at::Tensor& t) { return t.dim() == 1 && t.size(0) == s.at(a).size(0); });
  if (b.value < 0) return {};
  return {{a, b}};
}

// ---- pieces of networks ----

Args layer_norm(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && floating(t) && t.numel() > 0; });
  if (a.value < 0) return {};
  const auto fits = [&](const at::Tensor& t) { return t.dim() == 1 && t.size(0) == s.at(a).size(-1); };
  const Ref weight = same_dtype(s, a, fits);
  return {{a, std::vector<int64_t>{s.at(a).size(-1)}, weight, weight.value < 0 ? Ref{} : same_dtype(s, a, fits)}};
}
Args same_sizes(State& s) {
  const Ref a = s.pick(floating);
  if (a.value < 0) return {};
  const Ref b = same_dtype(s, a, [&](const at::Tensor& t) { return t.sizes() == s.at(a).sizes(); });
  return {{a, b}};
}
Args cross_entropy(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 2 && floating(t) && t.numel() > 0; });
  if (a.value < 0) return {};
  const Ref target = index_for(s, s.at(a).size(1), 1);
  if (target.value < 0 || s.at(target).size(0) != s.at(a).size(0)) return {};
  return {{a, target}};
}
Args threesome(State& s) {
  const Args two_of_them = pair(s, floating);
  if (!two_of_them) return {};
  const Ref c = s.pick([&](const at::Tensor& t) {
    return floating(t) && broadcasts(t, s.at(std::get<Ref>((*two_of_them)[0]))) &&
           broadcasts(t, s.at(std::get<Ref>((*two_of_them)[1])));
  });
  return {{(*two_of_them)[0], (*two_of_them)[1], c}};
}
Args clamp(State& s) {
  const Ref a = s.pick(numeric);
  if (a.value < 0) return {};
  return {{a, Arg(int64_t{-1}), s.random.chance(0.3) ? Arg() : Arg(int64_t{2})}};
}
Args rounding_division(State& s) {
  Args args = pair(s, numeric);
  if (args) args->push_back(std::string(s.random.choose({"floor", "trunc"})));
  return args;
}
Args shift(State& s) {
  const Ref a = s.pick(integral);
  if (a.value < 0) return {};
  return {{a, s.random.integer(0, 5)}};
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"unary",
       Kind::exact,
       4,
       {"aten::abs", "aten::neg", "aten::relu", "aten::square", "aten::clone", "aten::positive"},
       one<numeric>},
      {"unary float",
       Kind::exact,
       2,
       {"aten::sqrt", "aten::reciprocal", "aten::nan_to_num", "aten::relu6", "aten::leaky_relu", "aten::hardtanh"},
       one<floating>},
      {"maths",
       Kind::inexact,
       5,
       {"aten::exp",     "aten::log",       "aten::sigmoid",     "aten::tanh",  "aten::sin",      "aten::cos",
        "aten::rsqrt",   "aten::erf",       "aten::erfc",        "aten::expm1", "aten::log1p",    "aten::exp2",
        "aten::log2",    "aten::log10",     "aten::tan",         "aten::asin",  "aten::acos",     "aten::atan",
        "aten::sinh",    "aten::cosh",      "aten::asinh",       "aten::acosh", "aten::atanh",    "aten::lgamma",
        "aten::digamma", "aten::erfinv",    "aten::gelu",        "aten::silu",  "aten::softplus", "aten::mish",
        "aten::elu",     "aten::hardswish", "aten::hardsigmoid", "aten::selu",  "aten::celu",     "aten::log_sigmoid"},
       one<floating>},
      {"maths of integers",
       Kind::inexact,
       1,
       {"aten::exp", "aten::sqrt", "aten::sigmoid", "aten::sin", "aten::reciprocal", "aten::log1p"},
       one<integral_or_bool>},
      {"jumps",
       Kind::discontinuous,
       2,
       {"aten::floor", "aten::ceil", "aten::round", "aten::trunc", "aten::sign", "aten::frac", "aten::sgn",
        "aten::signbit"},
       one<numeric>},
      {"tests",
       Kind::discontinuous,
       2,
       {"aten::isnan", "aten::isinf", "aten::isfinite", "aten::logical_not", "aten::zeros_like", "aten::ones_like"},
       one<any>},
      {"bits of one", Kind::exact, 1, {"aten::bitwise_not"}, one<integral_or_bool>},
      {"arithmetic",
       Kind::exact,
       8,
       {"aten::add.Tensor", "aten::mul.Tensor", "aten::maximum", "aten::minimum", "aten::rsub.Tensor"},
       two<any>},
      {"difference",
       Kind::exact,
       3,
       {"aten::sub.Tensor", "aten::div.Tensor", "aten::fmax", "aten::fmin"},
       two<numeric>},
      {"maths of two",
       Kind::inexact,
       1,
       {"aten::atan2", "aten::pow.Tensor_Tensor", "aten::hypot", "aten::logaddexp", "aten::copysign.Tensor",
        "aten::xlogy.Tensor"},
       two<floating>},
      {"powers of integers", Kind::exact, 1, {"aten::pow.Tensor_Tensor"}, two<integral>},
      {"comparison",
       Kind::discontinuous,
       4,
       {"aten::eq.Tensor", "aten::ne.Tensor", "aten::lt.Tensor", "aten::le.Tensor", "aten::gt.Tensor",
        "aten::ge.Tensor", "aten::logical_and", "aten::logical_or", "aten::logical_xor"},
       two<any>},
      {"division",
       Kind::discontinuous,
       2,
       {"aten::remainder.Tensor", "aten::fmod.Tensor", "aten::floor_divide"},
       two<numeric>},
      {"rounding division", Kind::discontinuous, 1, {"aten::div.Tensor_mode"}, rounding_division},
      {"bits",
       Kind::exact,
       2,
       {"aten::bitwise_and.Tensor", "aten::bitwise_or.Tensor", "aten::bitwise_xor.Tensor"},
       two<integral_or_bool>},
      {"shift",
       Kind::exact,
       1,
       {"aten::bitwise_left_shift.Tensor_Scalar", "aten::bitwise_right_shift.Tensor_Scalar"},
       shift},
      {"with a number",
       Kind::exact,
       5,
       {"aten::add.Scalar", "aten::mul.Scalar", "aten::sub.Scalar", "aten::rsub.Scalar", "aten::div.Scalar",
        "aten::clamp_min", "aten::clamp_max"},
       with_number<numeric>},
      {"power", Kind::inexact, 1, {"aten::pow.Tensor_Scalar"}, with_number<numeric>},
      {"comparison with a number",
       Kind::discontinuous,
       3,
       {"aten::eq.Scalar", "aten::ne.Scalar", "aten::lt.Scalar", "aten::le.Scalar", "aten::gt.Scalar",
        "aten::ge.Scalar", "aten::remainder.Scalar", "aten::fmod.Scalar", "aten::floor_divide.Scalar"},
       with_number<numeric>},
      {"clamp", Kind::exact, 1, {"aten::clamp"}, clamp},
      {"three", Kind::inexact, 1, {"aten::addcmul", "aten::addcdiv", "aten::lerp.Tensor"}, threesome},

      {"write", Kind::exact, 3, {"aten::relu_", "aten::abs_", "aten::neg_", "aten::zero_", "aten::square_"}, write_one},
      {"write maths", Kind::inexact, 2, {"aten::exp_", "aten::sigmoid_", "aten::tanh_", "aten::sin_"}, write_one},
      {"write a number",
       Kind::exact,
       3,
       {"aten::add_.Scalar", "aten::mul_.Scalar", "aten::sub_.Scalar", "aten::fill_.Scalar", "aten::div_.Scalar"},
       write_number},
      {"write two",
       Kind::exact,
       5,
       {"aten::add_.Tensor", "aten::mul_.Tensor", "aten::sub_.Tensor", "aten::div_.Tensor", "aten::copy_"},
       write_two},
      {"write masked", Kind::exact, 1, {"aten::masked_fill_.Scalar"}, masked_fill<true>},
      {"write scattered", Kind::exact, 1, {"aten::scatter_.src"}, scatter<true>},
      {"write added", Kind::inexact, 1, {"aten::scatter_add_"}, scatter<true>},
      {"write indexed", Kind::inexact, 2, {"aten::index_put_"}, index_put<true>},
      {"write rows", Kind::inexact, 1, {"aten::index_add_"}, index_add<true>},
      {"write rows over", Kind::exact, 1, {"aten::index_copy_"}, index_add<true>},

      {"permute", Kind::exact, 2, {"aten::permute"}, permute},
      {"transpose", Kind::exact, 2, {"aten::transpose.int", "aten::movedim.int"}, transpose},
      {"select", Kind::exact, 2, {"aten::select.int"}, select},
      {"slice", Kind::exact, 4, {"aten::slice.Tensor"}, slice},
      {"narrow", Kind::exact, 1, {"aten::narrow"}, narrow},
      {"reshape", Kind::exact, 2, {"aten::reshape", "aten::view"}, reshape},
      {"expand", Kind::exact, 2, {"aten::expand"}, expand},
      {"unsqueeze", Kind::exact, 1, {"aten::unsqueeze"}, unsqueeze},
      {"squeeze",
       Kind::exact,
       1,
       {"aten::squeeze", "aten::contiguous", "aten::alias", "aten::detach", "aten::ravel", "aten::numpy_T"},
       one<any>},
      {"squeeze one", Kind::exact, 1, {"aten::squeeze.dim"}, with_dim<any>},
      {"diagonal", Kind::exact, 1, {"aten::diagonal"}, diagonal},
      {"unfold", Kind::exact, 1, {"aten::unfold"}, unfold},
      {"as_strided", Kind::exact, 1, {"aten::as_strided"}, as_strided},
      {"split", Kind::exact, 1, {"aten::split.Tensor"}, split},
      {"chunk", Kind::exact, 1, {"aten::chunk"}, chunk},
      {"unbind", Kind::exact, 1, {"aten::unbind.int"}, unbind},

      {"cat", Kind::exact, 3, {"aten::cat"}, cat},
      {"stack", Kind::exact, 1, {"aten::stack"}, stack},
      {"pad", Kind::exact, 2, {"aten::constant_pad_nd"}, pad},
      {"flip", Kind::exact, 1, {"aten::flip"}, flip},
      {"roll", Kind::exact, 1, {"aten::roll"}, roll},
      {"repeat", Kind::exact, 1, {"aten::repeat"}, repeat},
      {"triangle", Kind::exact, 1, {"aten::tril", "aten::triu"}, triangle},
      {"full_like", Kind::exact, 1, {"aten::full_like"}, full_like},
      {"full", Kind::exact, 1, {"aten::full"}, full},
      {"arange", Kind::exact, 1, {"aten::arange"}, arange},
      {"cast", Kind::exact, 4, {"aten::to.dtype"}, cast},
      {"cast to integers", Kind::discontinuous, 1, {"aten::to.dtype"}, cast_jump},

      {"sum",
       Kind::inexact,
       3,
       {"aten::sum.dim_IntList", "aten::mean.dim", "aten::nansum", "aten::logsumexp"},
       with_dims_keep<any>},
      {"sum of all", Kind::inexact, 2, {"aten::sum", "aten::mean", "aten::prod"}, one<any>},
      {"product", Kind::inexact, 1, {"aten::prod.dim_int"}, with_dim_keep<any>},
      {"extreme", Kind::exact, 2, {"aten::amax", "aten::amin"}, with_dims_keep<any>},
      {"extreme and place",
       Kind::discontinuous,
       2,
       {"aten::max.dim", "aten::min.dim", "aten::argmax", "aten::argmin"},
       max_dim},
      {"extreme of all", Kind::exact, 1, {"aten::max", "aten::min"}, one<any>},
      {"truth",
       Kind::discontinuous,
       1,
       {"aten::any", "aten::all", "aten::argmax", "aten::argmin", "aten::count_nonzero"},
       one<any>},
      {"truth along", Kind::discontinuous, 1, {"aten::any.dim", "aten::all.dim"}, with_dim_keep<any>},
      {"scan", Kind::inexact, 2, {"aten::cumsum", "aten::cumprod"}, with_dim<numeric>},
      {"variance",
       Kind::inexact,
       2,
       {"aten::var.correction", "aten::std.correction", "aten::var_mean.correction"},
       variance},
      {"norm", Kind::inexact, 1, {"aten::linalg_vector_norm"}, norm},
      {"order", Kind::discontinuous, 1, {"aten::sort", "aten::argsort"}, with_dim<numeric>},
      {"topk", Kind::discontinuous, 1, {"aten::topk"}, topk},

      {"index_select", Kind::exact, 2, {"aten::index_select"}, index_select},
      {"gather", Kind::exact, 2, {"aten::gather"}, gather},
      {"index", Kind::exact, 2, {"aten::index.Tensor"}, index},
      {"embedding", Kind::exact, 2, {"aten::embedding"}, embedding},
      {"take", Kind::exact, 1, {"aten::take"}, take},
      {"scatter", Kind::exact, 2, {"aten::scatter.src"}, scatter<false>},
      {"scatter a number", Kind::exact, 1, {"aten::scatter.value"}, scatter_value<false>},
      {"scatter_add", Kind::inexact, 2, {"aten::scatter_add"}, scatter<false>},
      {"scatter_reduce", Kind::inexact, 1, {"aten::scatter_reduce.two"}, scatter_reduce},
      {"index_put", Kind::inexact, 2, {"aten::index_put"}, index_put<false>},
      {"index_add", Kind::inexact, 1, {"aten::index_add"}, index_add<false>},
      {"index_fill", Kind::exact, 1, {"aten::index_fill.int_Scalar"}, index_fill},
      {"masked_fill", Kind::exact, 2, {"aten::masked_fill.Scalar"}, masked_fill<false>},
      {"where", Kind::exact, 3, {"aten::where.self"}, where},

      {"mm", Kind::inexact, 3, {"aten::mm"}, mm},
      {"bmm", Kind::inexact, 2, {"aten::bmm"}, bmm},
      {"matmul", Kind::inexact, 3, {"aten::matmul"}, matmul},
      {"linear", Kind::inexact, 2, {"aten::linear"}, linear},
      {"addmm", Kind::inexact, 2, {"aten::addmm"}, addmm},
      {"vectors", Kind::inexact, 1, {"aten::dot", "aten::outer"}, vectors},

      {"softmax", Kind::inexact, 3, {"aten::softmax.int", "aten::log_softmax.int"}, with_dim<floating>},
      {"layer_norm", Kind::inexact, 2, {"aten::layer_norm"}, layer_norm},
      {"loss",
       Kind::inexact,
       2,
       {"aten::mse_loss", "aten::l1_loss", "aten::smooth_l1_loss", "aten::huber_loss",
        "aten::binary_cross_entropy_with_logits"},
       same_sizes},
      {"cross_entropy", Kind::inexact, 2, {"aten::cross_entropy_loss"}, cross_entropy},
  };
  return all;
}

}  // namespace precast::fuzz
