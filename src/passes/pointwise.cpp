// Pointwise ops of one and two operands: promotion made explicit, compound ones written out.
#include <cmath>
#include <numbers>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

bool is_half(Dtype d) { return d == Dtype::f16 || d == Dtype::bf16; }

std::string_view bare(const Op& op) {  // the name up to the overload
  std::string_view name = op.name();
  name.remove_prefix(6);
  return name.substr(0, name.find('.'));
}

Dtype float_dtype(Dtype d) { return ir::is_float(d) ? d : Dtype::f32; }

// ---- one operand

void same_dtype(Op& op) { op.result(0, unary(bare(op), op.val("self"))); }
void float_result(Op& op) {
  Val x = op.val("self");
  op.result(0, unary(bare(op), cast(x, float_dtype(x.dtype()))));
}
void number_sign(Op& op) { op.result(0, sign(op.val("self"))); }  // sgn of a real number
void not_for_bool(Op& op) {
  if (op.val("self").dtype() == Dtype::b8) decline("not defined for bool");
  same_dtype(op);
}
// floor, ceil, round, trunc leave integers as they are.
void rounding(Op& op) {
  Val x = op.val("self");
  if (x.dtype() == Dtype::b8) decline("not defined for bool");
  op.result(0, ir::is_float(x.dtype()) ? unary(bare(op), x) : x);
}
void is_not_a_number(Op& op) {
  Val x = op.val("self");
  op.result(0, ir::is_float(x.dtype()) ? unary(bare(op), x) : op.b.full(x.sizes(), false, Dtype::b8));
}
void absolute(Op& op) {
  Val x = op.val("self");
  op.result(0, x.dtype() == Dtype::b8 || x.dtype() == Dtype::u8 ? x : abs(x));
}
void relu(Op& op) {
  Val x = op.val("self");
  if (x.dtype() == Dtype::b8) decline("not defined for bool");
  op.result(0, unary("relu", x));
}
void fraction(Op& op) {
  Val x = op.val("self");
  if (!ir::is_float(x.dtype())) decline("not defined for integers");
  op.result(0, in_f32(x, [](Val v) { return v - unary("trunc", v); }));
}
void square(Op& op) {
  Val x = op.val("self");
  if (x.dtype() == Dtype::b8) x = cast(x, Dtype::i64);
  op.result(0, x * x);
}
// The angle of a real number.
void angle(Op& op) {
  Val x = op.val("self");
  if (!ir::is_float(x.dtype()))
    x = x.dtype() == Dtype::b8 ? op.b.full(x.sizes(), 0.0, Dtype::f32) : cast(x, Dtype::f32);
  op.result(0, where(isnan(x), x, where(lt(x, 0.0), std::numbers::pi, op.b.full(x.sizes(), 0.0, x.dtype()))));
}
void positive(Op& op) { op.result(0, op.val("self")); }

// ---- two operands

// A number operand that eager keeps in f32 even beside half tensors (its "opmath" kernels).
Val with_exact_number(Val x, Number n, Val (*f)(Val, Number)) {
  return in_f32(x, [&](Val v) { return f(v, n); });
}

// A 0-dim tensor on the right is such a number too.
bool is_single(Op& op, const char* arg, Dtype d) {
  return is_half(d) && !op.is_number(arg) && op.val(arg).dim() == 0 && op.val(arg).dtype() != d;
}
template <class F>
Val with_single(Op& op, Dtype d, F f) {
  return cast(f(cast(op.as("self", d), Dtype::f32), op.as("other", Dtype::f32)), d);
}

Val times(Val x, Number n) { return x * n; }
Val over(Val x, Number n) { return x / n; }

// first + alpha * second, with sign -1 for sub.
void add_scaled(Op& op, bool subtract, const char* first = "self", const char* second = "other") {
  Dtype d = op.common_dtype({"self", "other"});
  if (subtract && d == Dtype::b8) decline("not defined for bool");
  Number alpha = op.given("alpha") ? op.number("alpha") : Number(1);
  if (alpha == 1.0) {
    if (op.is_number(first)) {
      Val y = cast(op.val(second), d);
      op.result(0, subtract ? op.number(first) - y : y + op.number(first));
    } else if (op.is_number(second)) {
      Val x = cast(op.val(first), d);
      op.result(0, subtract ? x - op.number(second) : x + op.number(second));
    } else {
      Val x = op.as(first, d), y = op.as(second, d);
      op.result(0, subtract ? x - y : x + y);
    }
    return;
  }
  if (alpha.is_double() && !ir::is_float(d)) decline("alpha does not fit the operands");
  if (d == Dtype::b8) return op.result(0, alpha == 0.0 ? op.as(first, d) + false : op.as(first, d) + op.as(second, d));
  ir::Attr held = alpha.in(d);  // alpha counts in the operands' dtype
  Number a = std::holds_alternative<double>(held) ? Number(std::get<double>(held)) : alpha;
  Dtype c = compute_dtype(d);
  Val x = cast(op.as(first, d), c), y = cast(op.as(second, d), c) * a;
  op.result(0, cast(subtract ? x - y : x + y, d));
}
void add(Op& op) { add_scaled(op, false); }
void sub(Op& op) { add_scaled(op, true); }

void rsub(Op& op) { add_scaled(op, true, "other", "self"); }

void mul(Op& op) {
  Dtype d = op.common_dtype({"self", "other"});
  for (auto [x, n] : {std::pair{"self", "other"}, std::pair{"other", "self"}})
    if (op.is_number(n) && !op.is_number(x))
      return op.result(0, with_exact_number(cast(op.val(x), d), op.number(n), times));
  if (is_single(op, "other", d)) return op.result(0, with_single(op, d, [](Val x, Val y) { return x * y; }));
  op.result(0, op.as("self", d) * op.as("other", d));
}

void div(Op& op) {
  Dtype d = float_dtype(op.common_dtype({"self", "other"}));
  if (op.is_number("other") && !op.is_number("self"))
    return op.result(0, with_exact_number(cast(op.val("self"), d), op.number("other"), over));
  if (is_single(op, "other", d)) return op.result(0, with_single(op, d, [](Val x, Val y) { return x / y; }));
  op.result(0, op.as("self", d) / op.as("other", d));
}

Val divided(Op& op, const char* mode) {
  Dtype d = op.common_dtype({"self", "other"});
  if (d == Dtype::b8) decline("not defined for bool");
  bool exact = op.is_number("other") && is_half(d);
  Dtype c = exact ? Dtype::f32 : d;
  return cast(div_mode(cast(op.as("self", d), c), op.as("other", c), mode), d);
}
void div_rounded(Op& op) {
  if (!op.given("rounding_mode")) return div(op);
  op.result(0, divided(op, op.text("rounding_mode").c_str()));
}
void floor_divide(Op& op) { op.result(0, divided(op, "floor")); }

// Promoted operands; a number becomes the op's .Scalar overload.
Val promoted_binary(Op& op, std::string_view tensor_op, std::string_view number_op, Dtype d) {
  if (!number_op.empty() && op.is_number("other") && !op.is_number("self"))
    return binary_number(number_op, cast(op.val("self"), d), op.number("other"));
  return binary(tensor_op, op.as("self", d), op.as("other", d));
}

template <bool for_bool>
void arithmetic(Op& op) {  // result of the common dtype
  Dtype d = op.common_dtype({"self", "other"});
  if (!for_bool && d == Dtype::b8) decline("not defined for bool");
  std::string name(bare(op));
  bool has_scalar = name != "maximum" && name != "minimum" && name != "fmax" && name != "fmin" && name != "nextafter";
  bool plain = !has_scalar || name == "atan2" || name == "hypot";
  op.result(0, promoted_binary(op, plain ? name : name + ".Tensor", plain ? "" : name + ".Scalar", d));
}
void float_binary(Op& op) {
  Dtype d = float_dtype(op.common_dtype({"self", "other"}));
  std::string name(bare(op));
  op.result(0, binary(name == "copysign" ? name + ".Tensor" : name, op.as("self", d), op.as("other", d)));
}
void shift(Op& op) {
  Dtype d = op.common_dtype({"self", "other"});
  if (!ir::is_integral(d)) decline("defined for integers only");
  std::string name(bare(op));
  op.result(0, promoted_binary(op, name + ".Tensor", name + ".Tensor_Scalar", d));
}
// Of integers as bits; of floats by a power of two.
template <char way>
void shift_operator(Op& op) {
  if (!ir::is_integral(op.common_dtype({"self", "other"}))) decline("defined for integers only");
  const std::string name = way == 'l' ? "aten::bitwise_left_shift" : "aten::bitwise_right_shift";
  op.result(0, op.apply(name + (op.is_number("other") ? ".Tensor_Scalar" : ".Tensor"), op.args()));
}
void add_relu(Op& op) {
  Val sum = op.apply("aten::add.Tensor", op.args());
  op.result(0, at_least(sum, 0));
}
void bitwise(Op& op) {
  if (ir::is_float(op.common_dtype({"self", "other"}))) decline("defined for integers only");
  arithmetic<true>(op);
}
void compare(Op& op) {
  Dtype d = op.common_dtype({"self", "other"});
  std::string name(bare(op));
  op.result(0, promoted_binary(op, name + ".Tensor", name + ".Scalar", d));
}
void logical(Op& op) {
  Dtype d = op.common_dtype({"self", "other"});
  op.result(0, binary(bare(op), op.as("self", d), op.as("other", d)));
}

// Powers that eager writes as products; the rest is pow.
Val power(Val x, Number e) {
  double p = e.real();
  if (p == 0.0) return x.b->full(x.sizes(), 1, x.dtype());
  if (p == 1.0) return x;
  if (p == 2.0) return in_f32(x, [](Val v) { return v * v; });
  if (p == 3.0) return in_f32(x, [](Val v) { return v * v * v; });
  if (ir::is_float(x.dtype())) {
    if (x.dtype() == Dtype::f16 && (p == 0.5 || p == -0.5))  // eager takes pow there: pow(-inf, 0.5) is inf
      return binary("pow.Tensor_Tensor", x, x.b->number(e, x.dtype()));
    if (p == 0.5) return sqrt(x);
    if (p == -0.5) return rsqrt(x);
    if (p == -1.0) return unary("reciprocal", x);
    if (p == -2.0) return in_f32(x, [](Val v) { return unary("reciprocal", v * v); });
  } else if (p < 0) {
    decline("an integer to a negative power");
  }
  return binary_number("pow.Tensor_Scalar", x, e);
}
void pow_number(Op& op) {
  Number e = op.number("exponent");
  Dtype d = Promotion().add(op.val("self").type()).add(e).result();
  if (d == Dtype::b8) decline("not defined for bool");
  op.result(0, power(cast(op.val("self"), d), e));
}
void pow_of_number(Op& op) {
  Dtype d = op.common_dtype({"self", "exponent"});
  if (d == Dtype::b8) decline("not defined for bool");
  op.result(0, binary("pow.Tensor_Tensor", op.as("self", d), op.as("exponent", d)));
}
void pow_tensor(Op& op) {
  if (op.is_number("exponent")) return pow_number(op);
  Dtype d = op.common_dtype({"self", "exponent"});
  if (d == Dtype::b8) decline("not defined for bool");
  op.result(0, binary("pow.Tensor_Tensor", op.as("self", d), op.as("exponent", d)));
}

// 0 * log(y) is 0 but for NaN. The logarithm of a half type is rounded on its own.
void xlogy(Op& op) {
  Dtype d = float_dtype(op.common_dtype({"self", "other"}));
  Val x = op.as("self", d), y = op.as("other", d);
  op.result(0, where(isnan(y), y, where(eq(x, 0.0), 0.0, x * log(y))));
}
void logaddexp(Op& op) {
  Dtype d = op.common_dtype({"self", "other"}), c = compute_dtype(d);
  if (!ir::is_float(d)) decline("not defined for integers");
  Val x = cast(op.as("self", d), c), y = cast(op.as("other", d), c);
  Val m = binary("maximum", x, y);
  Val equal_infinities = logical_and(binary("eq.Tensor", x, y), unary("isinf", x));
  op.result(0, cast(where(equal_infinities, x, m + log1p(exp(neg(abs(x - y))))), d));
}

constexpr Row kRows[] = {
    {"aten::neg", not_for_bool},
    {"aten::abs", absolute},
    {"aten::sign", same_dtype},
    {"aten::sgn", number_sign},
    {"aten::relu", relu},
    {"aten::bitwise_not", same_dtype},
    {"aten::logical_not", same_dtype},
    {"aten::floor", rounding},
    {"aten::ceil", rounding},
    {"aten::round", rounding},
    {"aten::trunc", rounding},
    {"aten::isnan", is_not_a_number},
    {"aten::isinf", is_not_a_number},
    {"aten::frac", fraction},
    {"aten::square", square},
    {"aten::positive", positive},
    {"aten::conj_physical", positive},
    {"aten::_conj_physical", positive},
    {"aten::angle", angle},
    {"aten::exp", float_result},
    {"aten::exp2", float_result},
    {"aten::expm1", float_result},
    {"aten::log", float_result},
    {"aten::log2", float_result},
    {"aten::log10", float_result},
    {"aten::log1p", float_result},
    {"aten::sqrt", float_result},
    {"aten::rsqrt", float_result},
    {"aten::reciprocal", float_result},
    {"aten::sin", float_result},
    {"aten::cos", float_result},
    {"aten::tan", float_result},
    {"aten::asin", float_result},
    {"aten::acos", float_result},
    {"aten::atan", float_result},
    {"aten::sinh", float_result},
    {"aten::cosh", float_result},
    {"aten::tanh", float_result},
    {"aten::asinh", float_result},
    {"aten::acosh", float_result},
    {"aten::atanh", float_result},
    {"aten::erf", float_result},
    {"aten::erfc", float_result},
    {"aten::erfinv", float_result},
    {"aten::lgamma", float_result},
    {"aten::digamma", float_result},
    {"aten::sigmoid", float_result},
    {"aten::add.Tensor", add},
    {"aten::add.Scalar", add},
    {"aten::sub.Tensor", sub},
    {"aten::sub.Scalar", sub},
    {"aten::rsub.Tensor", rsub},
    {"aten::rsub.Scalar", rsub},
    {"aten::mul.Tensor", mul},
    {"aten::mul.Scalar", mul},
    {"aten::div.Tensor", div},
    {"aten::div.Scalar", div},
    {"aten::div.Tensor_mode", div_rounded},
    {"aten::div.Scalar_mode", div_rounded},
    {"aten::floor_divide", floor_divide},
    {"aten::floor_divide.Scalar", floor_divide},
    {"aten::remainder.Scalar_Tensor", arithmetic<false>},
    {"aten::bitwise_and.Scalar_Tensor", bitwise},
    {"aten::bitwise_or.Scalar_Tensor", bitwise},
    {"aten::bitwise_xor.Scalar_Tensor", bitwise},
    {"aten::bitwise_left_shift.Scalar_Tensor", shift},
    {"aten::bitwise_right_shift.Scalar_Tensor", shift},
    {"aten::__lshift__.Tensor", shift_operator<'l'>},
    {"aten::__lshift__.Scalar", shift_operator<'l'>},
    {"aten::__rshift__.Tensor", shift_operator<'r'>},
    {"aten::__rshift__.Scalar", shift_operator<'r'>},
    {"aten::_add_relu.Tensor", add_relu},
    {"aten::_add_relu.Scalar", add_relu},
    {"aten::remainder.Tensor", arithmetic<false>},
    {"aten::remainder.Scalar", arithmetic<false>},
    {"aten::fmod.Tensor", arithmetic<false>},
    {"aten::fmod.Scalar", arithmetic<false>},
    {"aten::maximum", arithmetic<true>},
    {"aten::minimum", arithmetic<true>},
    {"aten::fmax", arithmetic<true>},
    {"aten::fmin", arithmetic<true>},
    {"aten::nextafter", float_binary},
    {"aten::atan2", float_binary},
    {"aten::hypot", float_binary},
    {"aten::copysign.Tensor", float_binary},
    {"aten::copysign.Scalar", float_binary},
    {"aten::bitwise_and.Tensor", bitwise},
    {"aten::bitwise_and.Scalar", bitwise},
    {"aten::bitwise_or.Tensor", bitwise},
    {"aten::bitwise_or.Scalar", bitwise},
    {"aten::bitwise_xor.Tensor", bitwise},
    {"aten::bitwise_xor.Scalar", bitwise},
    {"aten::bitwise_left_shift.Tensor", shift},
    {"aten::bitwise_left_shift.Tensor_Scalar", shift},
    {"aten::bitwise_right_shift.Tensor", shift},
    {"aten::bitwise_right_shift.Tensor_Scalar", shift},
    {"aten::eq.Tensor", compare},
    {"aten::eq.Scalar", compare},
    {"aten::ne.Tensor", compare},
    {"aten::ne.Scalar", compare},
    {"aten::lt.Tensor", compare},
    {"aten::lt.Scalar", compare},
    {"aten::le.Tensor", compare},
    {"aten::le.Scalar", compare},
    {"aten::gt.Tensor", compare},
    {"aten::gt.Scalar", compare},
    {"aten::ge.Tensor", compare},
    {"aten::ge.Scalar", compare},
    {"aten::logical_and", logical},
    {"aten::logical_or", logical},
    {"aten::logical_xor", logical},
    {"aten::pow.Tensor_Scalar", pow_number},
    {"aten::pow.Scalar", pow_of_number},
    {"aten::pow.Tensor_Tensor", pow_tensor},
    {"aten::xlogy.Tensor", xlogy},
    {"aten::xlogy.Scalar_Self", xlogy},
    {"aten::xlogy.Scalar_Other", xlogy},
    {"aten::logaddexp", logaddexp},
};

}  // namespace

std::span<const Row> pointwise_rules() { return kRows; }

}  // namespace precast::passes
