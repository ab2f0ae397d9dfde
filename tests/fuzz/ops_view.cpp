// Views: windows on memory that other values share.
#include "operands.h"

namespace precast::fuzz {
namespace {

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
Args matrix(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() >= 2; });
  if (a.value < 0) return {};
  return {{a}};
}
Args select(State& s) {
  const Ref a = s.pick(has_elements);
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
Args as_another(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.numel() <= 4096; });
  if (a.value < 0) return {};
  return {{a, s.pick([&](const at::Tensor& t) { return expands_to(s.at(a), t); })}};
}
Args flatten(State& s) {
  const Ref a = s.pick(has_dim);
  if (a.value < 0) return {};
  const int64_t first = s.random.integer(0, s.at(a).dim() - 1);
  return {{a, first, s.random.integer(first, s.at(a).dim() - 1)}};
}
Args unflatten(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && t.size(-1) > 0 && t.size(-1) % 2 == 0; });
  if (a.value < 0) return {};
  return {{a, int64_t{-1}, std::vector<int64_t>{2, s.at(a).size(-1) / 2}}};
}
Args unsqueeze(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() < 5; });
  if (a.value < 0) return {};
  return {{a, s.random.integer(-s.at(a).dim() - 1, s.at(a).dim())}};
}
Args squeeze_dims(State& s) {
  const Ref a = s.pick(has_dim);
  if (a.value < 0) return {};
  return {{a, dims_of(s, s.at(a))}};
}
Args diagonal(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() >= 2; });
  if (a.value < 0) return {};
  return {{a, s.random.integer(-1, 1), int64_t{0}, int64_t{1}}};
}
Args unfold(State& s) {
  const Ref a = s.pick(has_elements);
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a));
  return {{a, dim, s.random.integer(1, s.at(a).size(dim)), s.random.integer(1, 3)}};
}
// Overlapping rows are in it.
Args as_strided(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.numel() >= 4 && t.is_contiguous(); });
  if (a.value < 0) return {};
  return {{a, std::vector<int64_t>{2, s.at(a).numel() / 4}, std::vector<int64_t>{s.random.integer(1, 2), 1}}};
}
Args split(State& s) {
  const Ref a = s.pick(has_elements);
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
// The same bytes as numbers of another type.
Args as_bytes_of(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return !complex_number(t) && !boolean(t); });
  if (a.value < 0) return {};
  switch (s.at(a).element_size()) {
    case 8:
      return {{a, s.random.choose({at::kLong, at::kDouble, at::kInt})}};
    case 4:
      return {{a, s.random.choose({at::kInt, at::kFloat, at::kByte})}};
    case 2:
      return {{a, s.random.choose({at::kShort, at::kHalf, at::kBFloat16})}};
    default:
      return {{a, s.random.choose({at::kChar, at::kByte})}};
  }
}

}  // namespace

std::vector<Family> view_families() {
  return {
      {"permute", Kind::exact, 2, {"aten::permute"}, permute},
      {"transpose", Kind::exact, 2, {"aten::transpose.int", "aten::movedim.int", "aten::swapaxes"}, transpose},
      {"matrix", Kind::exact, 1, {"aten::mT"}, matrix},
      {"select", Kind::exact, 2, {"aten::select.int"}, select},
      {"slice", Kind::exact, 4, {"aten::slice.Tensor"}, slice},
      {"narrow", Kind::exact, 1, {"aten::narrow"}, narrow},
      {"reshape", Kind::exact, 2, {"aten::reshape", "aten::view"}, reshape},
      {"flatten", Kind::exact, 1, {"aten::flatten.using_ints"}, flatten},
      {"unflatten", Kind::exact, 1, {"aten::unflatten.int"}, unflatten},
      {"expand", Kind::exact, 2, {"aten::expand"}, expand},
      {"as another", Kind::exact, 1, {"aten::expand_as"}, as_another},
      {"unsqueeze", Kind::exact, 1, {"aten::unsqueeze"}, unsqueeze},
      {"squeeze",
       Kind::exact,
       1,
       {"aten::squeeze", "aten::contiguous", "aten::alias", "aten::detach", "aten::ravel", "aten::numpy_T"},
       one<any>},
      {"squeeze one", Kind::exact, 1, {"aten::squeeze.dim"}, with_dim<any>},
      {"squeeze some", Kind::exact, 1, {"aten::squeeze.dims"}, squeeze_dims},
      {"diagonal", Kind::exact, 1, {"aten::diagonal"}, diagonal},
      {"unfold", Kind::exact, 1, {"aten::unfold"}, unfold},
      {"as_strided", Kind::exact, 1, {"aten::as_strided"}, as_strided},
      {"split", Kind::exact, 1, {"aten::split.Tensor"}, split},
      {"chunk", Kind::exact, 1, {"aten::chunk", "aten::tensor_split.sections"}, chunk},
      {"unbind", Kind::exact, 1, {"aten::unbind.int"}, unbind},
      {"bytes", Kind::discontinuous, 1, {"aten::view.dtype"}, as_bytes_of},
  };
}

}  // namespace precast::fuzz
