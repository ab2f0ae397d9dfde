// Joins, borders, repeats, copies with a window replaced, casts, and tensors from nothing.
#include "operands.h"

namespace precast::fuzz {
namespace {

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
Args side_by_side(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() < 4; });
  if (a.value < 0) return {};
  return {{std::vector<Ref>{a, s.pick([&](const at::Tensor& t) { return t.sizes() == s.at(a).sizes(); })}}};
}
Args blocks(State& s) {
  const auto small = [](const at::Tensor& t) { return t.dim() <= 2 && t.numel() <= 256; };
  const Ref a = s.pick(small), b = s.pick(small);
  if (a.value < 0 || b.value < 0) return {};
  return {{std::vector<Ref>{a, b}}};
}
Args grid(State& s) {
  const auto small = [](const at::Tensor& t) { return t.dim() <= 1 && t.numel() <= 64; };
  const Ref a = s.pick(small);
  if (a.value < 0) return {};
  return {{std::vector<Ref>{a, same_dtype(s, a, small)}, std::string(s.random.choose({"ij", "xy"}))}};
}
Args pad(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && !complex_number(t); });
  if (a.value < 0) return {};
  std::vector<int64_t> pads;
  for (int64_t d = 0; d < s.random.integer(1, std::min<int64_t>(2, s.at(a).dim())); ++d) {
    pads.push_back(s.random.integer(0, 2));
    pads.push_back(s.random.integer(-1, 2));
  }
  return {{a, pads, number_for(s, s.at(a))}};
}
Args pad_with_itself(State& s) {
  const Ref a =
      s.pick([](const at::Tensor& t) { return t.dim() >= 2 && t.dim() <= 4 && floating(t) && t.numel() > 0; });
  if (a.value < 0) return {};
  std::vector<int64_t> pads;
  for (int64_t i = 0; i < (s.at(a).dim() == 4 ? 4 : 2); ++i) pads.push_back(s.random.integer(0, 2));
  return {{a, pads, std::string(s.random.choose({"reflect", "replicate", "circular"}))}};
}
Args flip(State& s) {
  const Ref a = s.pick(has_dim);
  if (a.value < 0) return {};
  return {{a, dims_of(s, s.at(a))}};
}
Args roll(State& s) {
  const Ref a = s.pick(has_dim);
  if (a.value < 0) return {};
  const std::vector<int64_t> one = {s.random.integer(-3, 3)};
  if (s.random.chance(0.2)) return {{a, one, std::vector<int64_t>{}}};
  if (s.random.chance(0.3) && s.at(a).dim() > 1)
    return {{a, std::vector<int64_t>{1, s.random.integer(-3, 3)}, std::vector<int64_t>{-1, 0}}};
  return {{a, one, std::vector<int64_t>{dim_of(s, s.at(a))}}};
}
Args turn(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() >= 2; });
  if (a.value < 0) return {};
  return {{a, s.random.integer(-1, 3), std::vector<int64_t>{0, 1}}};
}
Args repeat(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.numel() <= 2048; });
  if (a.value < 0) return {};
  std::vector<int64_t> times(static_cast<size_t>(s.at(a).dim()) + (s.random.chance(0.3) ? 1 : 0));
  for (int64_t& n : times) n = s.random.integer(1, 2);
  return {{a, times}};
}
Args repeat_elements(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && t.numel() <= 2048; });
  if (a.value < 0) return {};
  return {{a, s.random.integer(1, 3), dim_of(s, s.at(a))}};
}
Args triangle(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() >= 2; });
  if (a.value < 0) return {};
  return {{a, s.random.integer(-1, 1)}};
}
Args diagonal_of(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && t.dim() < 4 && t.size(-1) <= 33; });
  if (a.value < 0) return {};
  return {{a, s.random.integer(-1, 1)}};
}

// ---- copies with a window replaced

Args replace_selected(State& s) {
  const Ref a = s.pick(has_elements);
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a)), n = s.at(a).size(dim);
  std::vector<int64_t> sizes = s.at(a).sizes().vec();
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(from_start(dim, s.at(a))));
  const Ref src = same_dtype(s, a, [&](const at::Tensor& t) { return t.sizes() == sizes; });
  if (src.value < 0) return {};
  return {{a, src, dim, s.random.integer(-n, n - 1)}};
}
Args replace_slice(State& s) {
  const Ref a = s.pick(has_elements);
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a)), n = s.at(a).size(dim);
  const size_t d = from_start(dim, s.at(a));
  const Ref src = same_dtype(s, a, [&](const at::Tensor& t) {
    if (t.dim() != s.at(a).dim() || t.size(dim) == 0) return false;
    for (size_t i = 0; i < t.sizes().size(); ++i)
      if (i == d ? t.sizes()[i] > n : t.sizes()[i] != s.at(a).sizes()[i]) return false;
    return true;
  });
  if (src.value < 0) return {};
  const int64_t k = s.at(src).size(dim), step = k > 1 ? std::max<int64_t>((n - 1) / (k - 1), 1) : 1;
  return {{a, src, dim, int64_t{0}, (k - 1) * step + 1, step}};
}
Args replace_diagonal(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 2 && t.numel() > 0; });
  if (a.value < 0) return {};
  const int64_t n = std::min(s.at(a).size(0), s.at(a).size(1));
  const Ref src = same_dtype(s, a, [&](const at::Tensor& t) { return t.dim() == 1 && t.size(0) == n; });
  if (src.value < 0) return {};
  return {{a, src}};
}

// ---- from nothing, and casts

Args full_like(State& s) {
  const Ref a = s.pick(not_complex);
  if (a.value < 0) return {};
  return {{a, number_for(s, s.at(a))}};
}
Args new_full(State& s) {
  const Ref a = s.pick(not_complex);
  if (a.value < 0) return {};
  return {{a, std::vector<int64_t>{s.random.integer(1, 3), s.random.integer(0, 9)}, number_for(s, s.at(a))}};
}
Args new_sizes(State& s) {
  const Ref a = s.pick(any);
  return {{a, std::vector<int64_t>{s.random.integer(1, 3), s.random.integer(1, 9)}}};
}
Args sizes(State& s) {
  return {{std::vector<int64_t>{s.random.integer(1, 3), s.random.integer(1, 9)},
           s.random.choose({at::kFloat, at::kHalf, at::kLong, at::kBool, at::kShort})}};
}
Args full(State& s) {
  return {{std::vector<int64_t>{s.random.integer(1, 3), s.random.integer(1, 5)}, s.random.integer(-2, 2),
           s.random.choose({at::kFloat, at::kLong, at::kDouble, at::kBool, at::kInt})}};
}
Args arange(State& s) {
  return {{s.random.integer(1, 9), s.random.choose({at::kFloat, at::kLong, at::kInt, at::kDouble})}};
}
Args arange_step(State& s) {
  if (s.random.chance(0.5))
    return {{s.random.integer(-3, 1), s.random.integer(2, 20), s.random.integer(1, 3),
             s.random.choose({at::kLong, at::kInt, at::kFloat, at::kHalf})}};
  return {{0.5, 4.25, s.random.choose({0.25, 0.5}), s.random.choose({at::kFloat, at::kDouble, at::kBFloat16})}};
}
Args linspace(State& s) {
  return {{s.random.choose({-1.0, 0.0}), s.random.choose({2.0, 3.5}), s.random.integer(1, 20),
           s.random.choose({at::kFloat, at::kDouble})}};
}
Args eye(State& s) { return {{s.random.integer(1, 5), s.random.choose({at::kFloat, at::kLong, at::kBool})}}; }
Args cast(State& s) {
  const Ref a = s.pick(not_complex);
  if (a.value < 0) return {};
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
Args as_type_of(State& s) {
  const Ref a = s.pick(not_complex);
  if (a.value < 0) return {};
  return {{a, s.pick(floating)}};
}

}  // namespace

std::vector<Family> join_families() {
  return {
      {"cat", Kind::exact, 3, {"aten::cat"}, cat},
      {"stack", Kind::exact, 1, {"aten::stack"}, stack},
      {"side by side", Kind::exact, 1, {"aten::hstack", "aten::vstack"}, side_by_side},
      {"blocks", Kind::exact, 1, {"aten::block_diag"}, blocks},
      {"grid", Kind::exact, 1, {"aten::meshgrid.indexing"}, grid},
      {"pad", Kind::exact, 2, {"aten::constant_pad_nd"}, pad},
      {"pad with itself", Kind::exact, 1, {"aten::pad"}, pad_with_itself, Theme::image},
      {"flip", Kind::exact, 1, {"aten::flip"}, flip},
      {"roll", Kind::exact, 1, {"aten::roll"}, roll},
      {"turn around", Kind::exact, 1, {"aten::rot90"}, turn},
      {"repeat", Kind::exact, 1, {"aten::repeat", "aten::tile"}, repeat},
      {"repeat elements", Kind::exact, 1, {"aten::repeat_interleave.self_int"}, repeat_elements},
      {"triangle", Kind::exact, 1, {"aten::tril", "aten::triu"}, triangle},
      {"diagonal of", Kind::exact, 1, {"aten::diag_embed"}, diagonal_of},
      {"replace one", Kind::exact, 1, {"aten::select_scatter"}, replace_selected},
      {"replace a slice", Kind::exact, 1, {"aten::slice_scatter"}, replace_slice},
      {"replace a diagonal", Kind::exact, 1, {"aten::diagonal_scatter"}, replace_diagonal},
      {"full_like", Kind::exact, 1, {"aten::full_like"}, full_like},
      {"new_full", Kind::exact, 1, {"aten::new_full"}, new_full},
      {"new", Kind::exact, 1, {"aten::new_zeros", "aten::new_ones"}, new_sizes},
      {"sizes", Kind::exact, 1, {"aten::zeros", "aten::ones"}, sizes},
      {"full", Kind::exact, 1, {"aten::full"}, full},
      {"arange", Kind::exact, 1, {"aten::arange"}, arange},
      {"arange with a step", Kind::exact, 1, {"aten::arange.start_step"}, arange_step},
      {"linspace", Kind::inexact, 1, {"aten::linspace"}, linspace},
      {"eye", Kind::exact, 1, {"aten::eye"}, eye},
      {"cast", Kind::exact, 4, {"aten::to.dtype"}, cast},
      {"cast to integers", Kind::discontinuous, 1, {"aten::to.dtype"}, cast_jump},
      {"cast like", Kind::exact, 1, {"aten::type_as"}, as_type_of},
  };
}

}  // namespace precast::fuzz
