// Element by element: arithmetic, maths, comparisons, bits.
#include "operands.h"

namespace precast::fuzz {
namespace {

Args clamp(State& s) {
  const Ref a = s.pick(numeric);
  if (a.value < 0) return {};
  return {{a, Arg(int64_t{-1}), s.random.chance(0.3) ? Arg() : Arg(int64_t{2})}};
}
Args clamp_tensors(State& s) {
  Args args = three<numeric>(s);
  if (args && s.random.chance(0.4)) args->back() = {};
  return args;
}
Args rounding_division_of_tensors(State& s) {
  Args args = two<numeric>(s);
  if (args) args->push_back(std::string(s.random.choose({"floor", "trunc"})));
  return args;
}
Args rounding_division_by_number(State& s) {
  Args args = with_number<numeric>(s);
  if (args) args->push_back(std::string(s.random.choose({"floor", "trunc"})));
  return args;
}
Args shift(State& s) {
  const Ref a = s.pick(integral);
  if (a.value < 0) return {};
  return {{a, s.random.integer(0, 5)}};
}
// By 0 or 1: what lies beyond the width is not the same on all processors.
Args shift_by_mask(State& s) {
  const Ref a = s.pick(integral);
  if (a.value < 0) return {};
  const Ref b = s.pick([&](const at::Tensor& t) { return boolean(t) && broadcasts(s.at(a), t); });
  if (b.value < 0) return {};
  return {{a, b}};
}
Args with_alpha(State& s) {
  Args args = two<numeric>(s);
  if (args) args->push_back(s.random.choose({int64_t{2}, int64_t{-1}, int64_t{3}}));
  return args;
}
Args product_and_value(State& s) {
  Args args = three<floating>(s);
  if (args && s.random.chance(0.5)) args->push_back(s.random.choose({0.5, -2.0}));
  return args;
}
Args lerp_number(State& s) {
  Args args = two<floating>(s);
  if (args) args->push_back(s.random.choose({0.3, 0.75, -0.5}));
  return args;
}
Args with_bits(State& s) {
  const Ref a = s.pick(integral_or_bool);
  if (a.value < 0) return {};
  return {{a, boolean(s.at(a)) ? Arg(s.random.chance(0.5)) : Arg(s.random.integer(-3, 9))}};
}
Args to_decimals(State& s) {
  const Ref a = s.pick(floating);
  if (a.value < 0) return {};
  return {{a, s.random.integer(-1, 2)}};
}
Args shrink(State& s) {
  const Ref a = s.pick(floating);
  if (a.value < 0) return {};
  return {{a, s.random.choose({0.25, 0.5, 1.0})}};
}
Args threshold(State& s) {
  const Ref a = s.pick(numeric);
  if (a.value < 0) return {};
  return {{a, s.random.integer(-1, 1), number_for(s, s.at(a))}};
}
Args elu(State& s) {
  const Ref a = s.pick(floating);
  if (a.value < 0) return {};
  return {{a, s.random.choose({0.5, 1.5}), s.random.choose({1.0, 1.25}), s.random.choose({1.0, 0.5})}};
}
Args softplus(State& s) {
  const Ref a = s.pick(floating);
  if (a.value < 0) return {};
  return {{a, s.random.choose({0.5, 2.0}), s.random.choose({1.0, 20.0})}};
}
Args prelu(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return floating(t) && t.dim() > 0; });
  if (a.value < 0) return {};
  const int64_t channels = s.at(a).dim() > 1 ? s.at(a).size(1) : 1;
  const Ref w =
      same_dtype(s, a, [&](const at::Tensor& t) { return t.dim() == 1 && (t.numel() == 1 || t.numel() == channels); });
  if (w.value < 0) return {};
  return {{a, w}};
}
Args halves(State& s) {
  const Ref a = s.pick([](const at::Tensor& t) { return floating(t) && t.dim() > 0 && t.size(-1) % 2 == 0; });
  if (a.value < 0) return {};
  return {{a, int64_t{-1}}};
}

}  // namespace

std::vector<Family> pointwise_families() {
  return {
      {"unary",
       Kind::exact,
       4,
       {"aten::abs", "aten::neg", "aten::relu", "aten::square", "aten::clone", "aten::positive"},
       one<numeric>},
      {"unary float",
       Kind::exact,
       2,
       {"aten::reciprocal", "aten::nan_to_num", "aten::relu6", "aten::leaky_relu", "aten::hardtanh"},
       one<floating>},
      {"maths",
       Kind::inexact,
       5,
       {"aten::sqrt",       "aten::exp",     "aten::log",       "aten::sigmoid",     "aten::tanh",  "aten::sin",
        "aten::cos",        "aten::rsqrt",   "aten::erf",       "aten::erfc",        "aten::expm1", "aten::log1p",
        "aten::exp2",       "aten::log2",    "aten::log10",     "aten::tan",         "aten::asin",  "aten::acos",
        "aten::atan",       "aten::sinh",    "aten::cosh",      "aten::asinh",       "aten::acosh", "aten::atanh",
        "aten::lgamma",     "aten::digamma", "aten::erfinv",    "aten::gelu",        "aten::silu",  "aten::softplus",
        "aten::mish",       "aten::elu",     "aten::hardswish", "aten::hardsigmoid", "aten::selu",  "aten::celu",
        "aten::log_sigmoid"},
       one<floating>},
      {"rarer maths",
       Kind::inexact,
       1,
       {"aten::sinc", "aten::deg2rad", "aten::rad2deg", "aten::logit", "aten::i0", "aten::special_entr",
        "aten::special_ndtr", "aten::special_log_ndtr"},
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
      {"decimals", Kind::discontinuous, 1, {"aten::round.decimals"}, to_decimals},
      {"tests",
       Kind::discontinuous,
       2,
       {"aten::isnan", "aten::isinf", "aten::isfinite", "aten::logical_not", "aten::zeros_like", "aten::ones_like",
        "aten::isposinf", "aten::isneginf"},
       one<not_complex>},
      {"bits of one", Kind::exact, 1, {"aten::bitwise_not"}, one<integral_or_bool>},
      {"arithmetic",
       Kind::exact,
       8,
       {"aten::add.Tensor", "aten::mul.Tensor", "aten::maximum", "aten::minimum", "aten::rsub.Tensor"},
       two<not_complex>},
      {"difference",
       Kind::exact,
       3,
       {"aten::sub.Tensor", "aten::div.Tensor", "aten::fmax", "aten::fmin"},
       two<numeric>},
      {"multiple", Kind::inexact, 1, {"aten::add.Tensor", "aten::sub.Tensor", "aten::rsub.Tensor"}, with_alpha},
      {"maths of two",
       Kind::inexact,
       2,
       {"aten::atan2", "aten::pow.Tensor_Tensor", "aten::hypot", "aten::logaddexp", "aten::logaddexp2",
        "aten::xlogy.Tensor", "aten::ldexp.Tensor"},
       two<floating>},
      {"signs and steps",
       Kind::exact,
       1,
       {"aten::copysign.Tensor", "aten::nextafter", "aten::heaviside"},
       two<floating>},
      {"powers in double", Kind::inexact, 1, {"aten::float_power.Tensor_Tensor"}, two<numeric>},
      {"powers of integers", Kind::exact, 1, {"aten::pow.Tensor_Tensor"}, two<integral>},
      {"divisors", Kind::exact, 1, {"aten::gcd", "aten::lcm"}, two<integral>},
      {"comparison",
       Kind::discontinuous,
       4,
       {"aten::eq.Tensor", "aten::ne.Tensor", "aten::lt.Tensor", "aten::le.Tensor", "aten::gt.Tensor",
        "aten::ge.Tensor", "aten::logical_and", "aten::logical_or", "aten::logical_xor"},
       two<not_complex>},
      {"closeness", Kind::discontinuous, 1, {"aten::isclose"}, same_sizes<numeric>},
      {"division",
       Kind::discontinuous,
       2,
       {"aten::remainder.Tensor", "aten::fmod.Tensor", "aten::floor_divide"},
       two<numeric>},
      {"rounding division", Kind::discontinuous, 1, {"aten::div.Tensor_mode"}, rounding_division_of_tensors},
      {"rounding division by a number", Kind::discontinuous, 1, {"aten::div.Scalar_mode"}, rounding_division_by_number},
      {"bits",
       Kind::exact,
       2,
       {"aten::bitwise_and.Tensor", "aten::bitwise_or.Tensor", "aten::bitwise_xor.Tensor"},
       two<integral_or_bool>},
      {"bits with a number",
       Kind::exact,
       1,
       {"aten::bitwise_and.Scalar", "aten::bitwise_or.Scalar", "aten::bitwise_xor.Scalar"},
       with_bits},
      {"shift",
       Kind::exact,
       1,
       {"aten::bitwise_left_shift.Tensor_Scalar", "aten::bitwise_right_shift.Tensor_Scalar"},
       shift},
      {"shift by a tensor",
       Kind::exact,
       1,
       {"aten::bitwise_left_shift.Tensor", "aten::bitwise_right_shift.Tensor"},
       shift_by_mask},
      {"with a number",
       Kind::exact,
       5,
       {"aten::add.Scalar", "aten::mul.Scalar", "aten::sub.Scalar", "aten::rsub.Scalar", "aten::div.Scalar",
        "aten::clamp_min", "aten::clamp_max", "aten::copysign.Scalar"},
       with_number<numeric>},
      {"power", Kind::inexact, 2, {"aten::pow.Tensor_Scalar", "aten::float_power.Tensor_Scalar"}, with_number<numeric>},
      {"number first", Kind::inexact, 1, {"aten::pow.Scalar", "aten::xlogy.Scalar_Self"}, number_with<numeric>},
      {"logarithm of a number", Kind::inexact, 1, {"aten::xlogy.Scalar_Other"}, with_number<floating>},
      {"comparison with a number",
       Kind::discontinuous,
       3,
       {"aten::eq.Scalar", "aten::ne.Scalar", "aten::lt.Scalar", "aten::le.Scalar", "aten::gt.Scalar",
        "aten::ge.Scalar", "aten::remainder.Scalar", "aten::fmod.Scalar", "aten::floor_divide.Scalar"},
       with_number<numeric>},
      {"remainder of a number", Kind::discontinuous, 1, {"aten::remainder.Scalar_Tensor"}, number_with<numeric>},
      {"clamp", Kind::exact, 1, {"aten::clamp"}, clamp},
      {"clamp between tensors", Kind::exact, 1, {"aten::clamp.Tensor"}, clamp_tensors},
      {"clamp by a tensor", Kind::exact, 1, {"aten::clamp_min.Tensor", "aten::clamp_max.Tensor"}, two<numeric>},
      {"three", Kind::inexact, 1, {"aten::lerp.Tensor"}, three<floating>},
      {"product and value", Kind::inexact, 1, {"aten::addcmul", "aten::addcdiv"}, product_and_value},
      {"between", Kind::inexact, 1, {"aten::lerp.Scalar"}, lerp_number},
      {"shrink", Kind::inexact, 1, {"aten::hardshrink", "aten::softshrink", "aten::leaky_relu"}, shrink},
      {"threshold", Kind::exact, 1, {"aten::threshold"}, threshold},
      {"elu", Kind::inexact, 1, {"aten::elu"}, elu},
      {"softplus", Kind::inexact, 1, {"aten::softplus"}, softplus},
      {"prelu", Kind::exact, 1, {"aten::prelu"}, prelu, Theme::rows},
      {"halves", Kind::inexact, 1, {"aten::glu"}, halves},
  };
}

}  // namespace precast::fuzz
