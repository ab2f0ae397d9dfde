// Products of matrices and vectors.
#include "operands.h"

namespace precast::fuzz {
namespace {

Args mm(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 2 && !boolean(t); });
  if (a.value < 0) return {};
  const Ref b = same_dtype(s, a, [&](const at::Tensor& t) { return t.dim() == 2 && t.size(0) == s.at(a).size(1); });
  if (b.value < 0) return {};
  return {{a, b}};
}
Args bmm(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 3 && !boolean(t); });
  if (a.value < 0) return {};
  const Ref b = same_dtype(s, a, [&](const at::Tensor& t) {
    return t.dim() == 3 && t.size(0) == s.at(a).size(0) && t.size(1) == s.at(a).size(2);
  });
  if (b.value < 0) return {};
  return {{a, b}};
}
Args matmul(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && !boolean(t); });
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
Arg beta(State& s) { return s.random.choose({int64_t{1}, int64_t{1}, int64_t{0}, int64_t{2}}); }
Arg alpha(State& s) { return s.random.choose({int64_t{1}, int64_t{2}}); }

// bias * beta + the product * alpha; the bias broadcasts to `sizes`.
Args with_bias(State& s, const Args& product, std::vector<int64_t> sizes) {
  const Ref a = std::get<Ref>((*product)[0]);
  const Ref bias = same_dtype(s, a, [&](const at::Tensor& t) { return expands_to(t, at::IntArrayRef(sizes)); });
  if (bias.value < 0) return {};
  return {{bias, (*product)[0], (*product)[1], beta(s), alpha(s)}};
}
const at::Tensor& operand(State& s, const Args& args, size_t i) { return s.at(std::get<Ref>((*args)[i])); }
Args addmm(State& s) {
  const Args product = mm(s);
  if (!product) return {};
  return with_bias(s, product, {operand(s, product, 0).size(0), operand(s, product, 1).size(1)});
}
Args baddbmm(State& s) {
  const Args product = bmm(s);
  if (!product) return {};
  const at::Tensor &a = operand(s, product, 0), &b = operand(s, product, 1);
  return with_bias(s, product, {a.size(0), a.size(1), b.size(2)});
}
Args addbmm(State& s) {
  const Args product = bmm(s);
  if (!product) return {};
  return with_bias(s, product, {operand(s, product, 0).size(1), operand(s, product, 1).size(2)});
}
Args mv(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 2 && numeric(t); });
  if (a.value < 0) return {};
  const Ref b = same_dtype(s, a, [&](const at::Tensor& t) { return t.dim() == 1 && t.size(0) == s.at(a).size(1); });
  if (b.value < 0) return {};
  return {{a, b}};
}
Args addmv(State& s) {
  const Args product = mv(s);
  return product ? with_bias(s, product, {operand(s, product, 0).size(0)}) : Args{};
}
Args two_vectors(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 1 && numeric(t); });
  if (a.value < 0) return {};
  return {{a, same_dtype(s, a, [](const at::Tensor& t) { return t.dim() == 1; })}};
}
Args addr(State& s) {
  const Args product = two_vectors(s);
  if (!product) return {};
  return with_bias(s, product, {operand(s, product, 0).size(0), operand(s, product, 1).size(0)});
}
Args vectors(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 1 && !boolean(t); });
  if (a.value < 0) return {};
  const Ref b = same_dtype(s, a, [&](const at::Tensor& t) { return t.dim() == 1 && t.size(0) == s.at(a).size(0); });
  if (b.value < 0) return {};
  return {{a, b}};
}
Args inner(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() > 0 && numeric(t) && t.numel() <= 4096; });
  if (a.value < 0) return {};
  const Ref b = same_dtype(
      s, a, [&](const at::Tensor& t) { return t.dim() > 0 && t.size(-1) == s.at(a).size(-1) && t.numel() <= 1024; });
  if (b.value < 0) return {};
  return {{a, b}};
}
Args kron(State& s) {
  const auto small = [](const at::Tensor& t) { return t.dim() > 0 && t.dim() < 3 && t.numel() <= 128 && numeric(t); };
  const Ref a = s.pick(small);
  if (a.value < 0) return {};
  return {{a, s.pick(small)}};
}
Args power(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() >= 2 && floating(t) && t.size(-1) == t.size(-2); });
  if (a.value < 0) return {};
  return {{a, s.random.integer(0, 3)}};
}
Args dot_of_dims(State& s) {
  Args args = mm(s);
  if (!args) return {};
  args->push_back(std::vector<int64_t>{1});
  args->push_back(std::vector<int64_t>{0});
  return args;
}
Args einsum(State& s) {
  const bool batched = s.random.chance(0.5);
  const Args operands = batched ? bmm(s) : mm(s);
  if (!operands) return {};
  return {{std::string(batched ? s.random.choose({"bij,bjk->bik", "bij,bjk->ik", "bij,bjk->b"})
                               : s.random.choose({"ij,jk->ki", "ij,jk->", "ij,jk->ijk"})),
           std::vector<Ref>{std::get<Ref>((*operands)[0]), std::get<Ref>((*operands)[1])}}};
}

}  // namespace

std::vector<Family> matrix_families() {
  return {
      {"mm", Kind::inexact, 3, {"aten::mm"}, mm, Theme::matrix},
      {"bmm", Kind::inexact, 2, {"aten::bmm"}, bmm, Theme::batched},
      {"matmul", Kind::inexact, 3, {"aten::matmul"}, matmul, Theme::batched},
      {"linear", Kind::inexact, 2, {"aten::linear"}, linear, Theme::matrix},
      {"addmm", Kind::inexact, 2, {"aten::addmm"}, addmm, Theme::matrix},
      {"baddbmm", Kind::inexact, 1, {"aten::baddbmm"}, baddbmm, Theme::batched},
      {"addbmm", Kind::inexact, 1, {"aten::addbmm"}, addbmm, Theme::batched},
      {"mv", Kind::inexact, 1, {"aten::mv"}, mv, Theme::matrix},
      {"addmv", Kind::inexact, 1, {"aten::addmv"}, addmv, Theme::matrix},
      {"addr", Kind::inexact, 1, {"aten::addr"}, addr, Theme::matrix},
      {"vectors", Kind::inexact, 1, {"aten::dot", "aten::vdot"}, vectors},
      {"outer", Kind::inexact, 1, {"aten::outer"}, two_vectors},
      {"inner", Kind::inexact, 1, {"aten::inner"}, inner, Theme::matrix},
      {"kron", Kind::inexact, 1, {"aten::kron"}, kron},
      {"matrix power", Kind::inexact, 1, {"aten::matrix_power"}, power},
      {"tensordot", Kind::inexact, 1, {"aten::tensordot"}, dot_of_dims, Theme::matrix},
      {"einsum", Kind::inexact, 2, {"aten::einsum"}, einsum, Theme::batched},
  };
}

}  // namespace precast::fuzz
