// Writes: in place, into out=, over lists of tensors.
#include <ATen/ExpandUtils.h>

#include "operands.h"

namespace precast::fuzz {
namespace {

bool writable_real(const at::Tensor& t) { return writable(t) && !complex_number(t); }
bool writable_float(const at::Tensor& t) { return writable(t) && floating(t); }
bool writable_integral(const at::Tensor& t) { return writable(t) && integral_or_bool(t); }

template <bool (*pred)(const at::Tensor&)>
Args write_two(State& s) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  const Ref b = s.pick([&](const at::Tensor& t) { return !complex_number(t) && expands_to(t, s.at(a)); });
  if (b.value < 0) return {};
  return {{a, b}};
}
Args write_between(State& s) {
  Args args = write_two<writable_float>(s);
  if (args) args->push_back(s.random.choose({0.25, 0.5, 1.5}));
  return args;
}
Args write_product(State& s) {
  Args args = write_two<writable_float>(s);
  if (!args) return {};
  const Ref c =
      s.pick([&](const at::Tensor& t) { return floating(t) && expands_to(t, s.at(std::get<Ref>((*args)[0]))); });
  if (c.value < 0) return {};
  args->push_back(c);
  return args;
}
Args write_clamp(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return writable_real(t) && numeric(t); });
  if (a.value < 0) return {};
  return {{a, int64_t{-1}, s.random.chance(0.3) ? Arg() : Arg(int64_t{1})}};
}
Args write_triangle(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return writable_real(t) && t.dim() >= 2; });
  if (a.value < 0) return {};
  return {{a, s.random.integer(-1, 1)}};
}
Args write_along(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return writable_real(t) && numeric(t); });
  if (a.value < 0) return {};
  return {{a, dim_of(s, s.at(a))}};
}
Args add_product(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 2 && floating(t); });
  if (a.value < 0) return {};
  const Ref b = same_dtype(s, a, [&](const at::Tensor& t) { return t.dim() == 2 && t.size(0) == s.at(a).size(1); });
  if (b.value < 0) return {};
  const Ref to = same_dtype(s, a, [&](const at::Tensor& t) {
    return writable(t) && t.dim() == 2 && t.size(0) == s.at(a).size(0) && t.size(1) == s.at(b).size(1) &&
           !t.is_alias_of(s.at(a)) && !t.is_alias_of(s.at(b));  // eager would read what it has written
  });
  if (to.value < 0) return {};
  return {{to, a, b}};
}

// A value whose geometry may change: no input, whose new geometry no op would show.
Ref own_value(State& s, int64_t at_least) {
  const auto n = s.program.inputs.size();
  const Ref a = s.pick([&](const at::Tensor& t) { return t.dim() >= at_least; });
  if (a.value < static_cast<int>(n) || (s.at(a).requires_grad() && s.at(a).is_leaf())) return {};
  for (size_t i = 0; i < n; ++i)  // to() and the like may give the input itself
    if (s.values[i].is_same(s.at(a))) return {};
  return a;
}
Args own(State& s) {
  const Ref a = own_value(s, 0);
  if (a.value < 0 || s.at(a).dim() > 2) return {};
  return {{a}};
}
Args own_dims(State& s) {
  const Ref a = own_value(s, 1);
  if (a.value < 0) return {};
  return {{a, dim_of(s, s.at(a)), dim_of(s, s.at(a))}};
}
Args own_unsqueeze(State& s) {
  const Ref a = own_value(s, 0);
  if (a.value < 0 || s.at(a).dim() > 4) return {};
  return {{a, s.random.integer(-s.at(a).dim() - 1, s.at(a).dim())}};
}

// ---- out=: autograd has none, so no operand requires grad

bool plain(const at::Tensor& t) { return !t.requires_grad() && !complex_number(t); }
bool plain_float(const at::Tensor& t) { return plain(t) && floating(t); }
Ref out_for(State& s, at::IntArrayRef sizes, at::ScalarType dtype) {
  return s.pick([&](const at::Tensor& t) {
    return plain(t) && writable(t) && t.sizes() == sizes && at::canCast(dtype, t.scalar_type());
  });
}
Args finish(std::vector<Arg> args, Ref out) {
  if (out.value < 0) return {};
  args.push_back(out);
  return args;
}
template <bool (*pred)(const at::Tensor&), bool alpha>
Args two_out(State& s) {
  Args args = two<pred>(s);
  if (!args) return {};
  const at::Tensor &a = s.at(std::get<Ref>((*args)[0])), &b = s.at(std::get<Ref>((*args)[1]));
  if (alpha) args->push_back(int64_t{1});
  return finish(*args, out_for(s, at::infer_size(a.sizes(), b.sizes()), at::result_type(a, b)));
}
template <bool (*pred)(const at::Tensor&)>
Args one_out(State& s) {
  const Ref a = s.pick(pred);
  if (a.value < 0) return {};
  return finish({a}, out_for(s, s.at(a).sizes(), s.at(a).scalar_type()));
}
Args compare_out(State& s) {
  Args args = two<plain>(s);
  if (!args) return {};
  const at::Tensor &a = s.at(std::get<Ref>((*args)[0])), &b = s.at(std::get<Ref>((*args)[1]));
  return finish(*args, out_for(s, at::infer_size(a.sizes(), b.sizes()), at::kBool));
}
Args sum_out(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return plain_float(t) && t.dim() > 0; });
  if (a.value < 0) return {};
  const int64_t dim = dim_of(s, s.at(a));
  std::vector<int64_t> sizes = s.at(a).sizes().vec();
  sizes[from_start(dim, s.at(a))] = 1;
  return finish({a, std::vector<int64_t>{dim}, true, {}}, out_for(s, sizes, s.at(a).scalar_type()));
}
Args scan_out(State& s) {
  const Ref a = s.pick(plain_float);
  if (a.value < 0) return {};
  return finish({a, dim_of(s, s.at(a)), {}}, same_dtype(s, a, [&](const at::Tensor& t) {
                  return plain(t) && writable(t) && t.sizes() == s.at(a).sizes();
                }));
}
Args mm_out(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return t.dim() == 2 && plain_float(t); });
  if (a.value < 0) return {};
  const Ref b =
      same_dtype(s, a, [&](const at::Tensor& t) { return plain(t) && t.dim() == 2 && t.size(0) == s.at(a).size(1); });
  if (b.value < 0) return {};
  const std::vector<int64_t> sizes = {s.at(a).size(0), s.at(b).size(1)};
  return finish({a, b}, same_dtype(s, a, [&](const at::Tensor& t) {  // it reads its operands while it writes
                  return plain(t) && writable(t) && t.sizes() == sizes && !t.is_alias_of(s.at(a)) &&
                         !t.is_alias_of(s.at(b));
                }));
}

// ---- lists of tensors

std::vector<Ref> list_of(State& s, bool (*pred)(const at::Tensor&)) {
  std::vector<Ref> list;
  for (int64_t n = s.random.integer(1, 3); n > 0; --n)
    if (const Ref a = s.pick(pred); a.value >= 0 && std::find(list.begin(), list.end(), a) == list.end())
      list.push_back(a);
  return list;
}
std::vector<Ref> alike(State& s, const std::vector<Ref>& list) {
  std::vector<Ref> others;
  for (const Ref a : list) others.push_back(like(s, a));
  return others;
}
template <bool (*pred)(const at::Tensor&)>
Args list_one(State& s) {
  const auto list = list_of(s, pred);
  if (list.empty()) return {};
  return {{list}};
}
template <bool (*pred)(const at::Tensor&)>
Args list_number(State& s) {
  const auto list = list_of(s, pred);
  if (list.empty()) return {};
  return {{list, s.random.choose({0.5, 2.0, -1.25})}};
}
template <bool (*pred)(const at::Tensor&)>
Args list_two(State& s) {
  const auto list = list_of(s, pred);
  if (list.empty()) return {};
  return {{list, alike(s, list)}};
}
template <bool (*pred)(const at::Tensor&)>
Args list_three(State& s) {
  const auto list = list_of(s, pred);
  if (list.empty()) return {};
  return {{list, alike(s, list), alike(s, list), s.random.choose({1.0, -0.5})}};
}
Args list_lerp(State& s) {
  const auto list = list_of(s, floating);
  if (list.empty()) return {};
  return {{list, alike(s, list), s.random.choose({0.25, 0.75})}};
}
bool norm_operand(const at::Tensor& t) { return floating(t) && t.numel() > 0; }
Args list_norm(State& s) {
  const auto list = list_of(s, norm_operand);
  if (list.empty()) return {};
  return {{list, s.random.choose({1.0, 2.0})}};
}
// Parameter, gradient and momentum of one size, dtype and memory of their own.
Args sgd(State& s) {
  const auto fits = [](const at::Tensor& t) {
    return plain_float(t) && writable(t) && t.is_contiguous() && t.numel() > 0;
  };
  const Ref p = s.pick(fits);
  if (p.value < 0) return {};
  const auto other = [&](std::vector<Ref> than) {
    return same_dtype(s, p, [&](const at::Tensor& t) {
      return fits(t) && t.sizes() == s.at(p).sizes() &&
             std::none_of(than.begin(), than.end(), [&](Ref r) { return s.at(r).is_alias_of(t); });
    });
  };
  const Ref g = other({p});
  if (g.value < 0) return {};
  const Ref m = other({p, g});
  if (m.value < 0) return {};
  return {{std::vector<Ref>{p}, std::vector<Ref>{g}, std::vector<Ref>{m}, 0.01, 0.9, 0.1, 0.0, s.random.chance(0.5),
           s.random.chance(0.3), s.random.chance(0.3)}};
}

}  // namespace

std::vector<Family> write_families() {
  return {
      {"write",
       Kind::exact,
       3,
       {"aten::relu_", "aten::abs_", "aten::neg_", "aten::zero_", "aten::square_", "aten::nan_to_num_"},
       one<writable_real>},
      {"write jumps",
       Kind::discontinuous,
       1,
       {"aten::floor_", "aten::ceil_", "aten::round_", "aten::trunc_", "aten::sign_", "aten::logical_not_"},
       one<writable_real>},
      {"write roots",
       Kind::exact,
       1,
       {"aten::reciprocal_", "aten::leaky_relu_", "aten::hardtanh_"},
       one<writable_float>},
      {"write maths",
       Kind::inexact,
       2,
       {"aten::sqrt_", "aten::exp_", "aten::sigmoid_", "aten::tanh_", "aten::sin_", "aten::log1p_", "aten::erf_",
        "aten::rsqrt_", "aten::silu_", "aten::gelu_", "aten::elu_", "aten::hardswish_", "aten::mish_", "aten::selu_"},
       one<writable_float>},
      {"write a number",
       Kind::exact,
       3,
       {"aten::add_.Scalar", "aten::mul_.Scalar", "aten::sub_.Scalar", "aten::fill_.Scalar", "aten::div_.Scalar",
        "aten::clamp_min_", "aten::clamp_max_"},
       with_number<writable_real>},
      {"write a jump by a number",
       Kind::discontinuous,
       1,
       {"aten::remainder_.Scalar", "aten::fmod_.Scalar", "aten::floor_divide_.Scalar", "aten::eq_.Scalar",
        "aten::lt_.Scalar", "aten::ge_.Scalar"},
       with_number<writable_real>},
      {"write a power", Kind::inexact, 1, {"aten::pow_.Scalar"}, with_number<writable_float>},
      {"write clamped", Kind::exact, 1, {"aten::clamp_"}, write_clamp},
      {"write two",
       Kind::exact,
       6,
       {"aten::add_.Tensor", "aten::mul_.Tensor", "aten::sub_.Tensor", "aten::div_.Tensor", "aten::copy_",
        "aten::copysign_.Tensor"},
       write_two<writable_real>},
      {"write maths of two",
       Kind::inexact,
       1,
       {"aten::atan2_", "aten::pow_.Tensor", "aten::hypot_"},
       write_two<writable_float>},
      {"write a jump of two",
       Kind::discontinuous,
       1,
       {"aten::remainder_.Tensor", "aten::fmod_.Tensor", "aten::floor_divide_.Tensor", "aten::logical_and_",
        "aten::gt_.Tensor"},
       write_two<writable_real>},
      {"write bits",
       Kind::exact,
       1,
       {"aten::bitwise_and_.Tensor", "aten::bitwise_or_.Tensor", "aten::bitwise_xor_.Tensor"},
       write_two<writable_integral>},
      {"write between", Kind::inexact, 1, {"aten::lerp_.Scalar"}, write_between},
      {"write a product", Kind::inexact, 1, {"aten::addcmul_", "aten::addcdiv_"}, write_product},
      {"write a triangle", Kind::exact, 1, {"aten::tril_", "aten::triu_"}, write_triangle},
      {"write a scan", Kind::inexact, 1, {"aten::cumsum_", "aten::cumprod_"}, write_along},
      {"write a matrix product", Kind::inexact, 1, {"aten::addmm_"}, add_product, Theme::matrix},
      {"turn", Kind::exact, 1, {"aten::t_"}, own},
      {"turn dims", Kind::exact, 1, {"aten::transpose_", "aten::swapaxes_"}, own_dims},
      {"add a dim", Kind::exact, 1, {"aten::unsqueeze_"}, own_unsqueeze},

      {"out", Kind::exact, 1, {"aten::neg.out", "aten::abs.out", "aten::square.out"}, one_out<plain>},
      {"out of maths", Kind::inexact, 1, {"aten::exp.out", "aten::sin.out", "aten::sigmoid.out"}, one_out<plain_float>},
      {"out of a sum of two", Kind::exact, 1, {"aten::add.out", "aten::sub.out"}, two_out<plain, true>},
      {"out of two",
       Kind::exact,
       1,
       {"aten::mul.out", "aten::maximum.out", "aten::minimum.out"},
       two_out<plain, false>},
      {"out of a quotient", Kind::exact, 1, {"aten::div.out"}, two_out<plain_float, false>},
      {"out of a comparison", Kind::discontinuous, 1, {"aten::eq.Tensor_out", "aten::lt.Tensor_out"}, compare_out},
      {"out of a reduction", Kind::inexact, 1, {"aten::sum.IntList_out", "aten::mean.out"}, sum_out},
      {"out of a scan", Kind::inexact, 1, {"aten::cumsum.out"}, scan_out},
      {"out of a product", Kind::inexact, 1, {"aten::mm.out"}, mm_out, Theme::matrix},

      {"list", Kind::exact, 1, {"aten::_foreach_neg", "aten::_foreach_abs"}, list_one<floating>},
      {"list of maths",
       Kind::inexact,
       1,
       {"aten::_foreach_exp", "aten::_foreach_log", "aten::_foreach_sqrt"},
       list_one<floating>},
      {"list and number",
       Kind::exact,
       1,
       {"aten::_foreach_add.Scalar", "aten::_foreach_mul.Scalar", "aten::_foreach_sub.Scalar",
        "aten::_foreach_div.Scalar"},
       list_number<floating>},
      {"two lists",
       Kind::exact,
       1,
       {"aten::_foreach_add.List", "aten::_foreach_mul.List", "aten::_foreach_div.List", "aten::_foreach_maximum.List"},
       list_two<floating>},
      {"three lists",
       Kind::inexact,
       1,
       {"aten::_foreach_addcmul.Scalar", "aten::_foreach_addcdiv.Scalar"},
       list_three<floating>},
      {"lists between", Kind::inexact, 1, {"aten::_foreach_lerp.Scalar"}, list_lerp},
      {"norms of a list", Kind::inexact, 1, {"aten::_foreach_norm.Scalar"}, list_norm},
      {"write a list", Kind::exact, 1, {"aten::_foreach_neg_", "aten::_foreach_zero_"}, list_one<writable_float>},
      {"write a number to a list",
       Kind::exact,
       1,
       {"aten::_foreach_add_.Scalar", "aten::_foreach_mul_.Scalar"},
       list_number<writable_float>},
      {"write two lists",
       Kind::exact,
       1,
       {"aten::_foreach_add_.List", "aten::_foreach_mul_.List", "aten::_foreach_copy_"},
       list_two<writable_float>},
      {"write three lists", Kind::inexact, 1, {"aten::_foreach_addcmul_.Scalar"}, list_three<writable_float>},
      {"optimizer", Kind::inexact, 1, {"aten::_fused_sgd_"}, sgd},
  };
}

}  // namespace precast::fuzz
