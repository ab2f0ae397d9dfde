// Pointwise functions that are formulas over others.
#include <cmath>
#include <numbers>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

Dtype float_dtype(Dtype d) { return ir::is_float(d) ? d : Dtype::f32; }
Val as_float(Op& op) { return cast(op.val("self"), float_dtype(op.val("self").dtype())); }

void deg2rad(Op& op) {
  op.result(0, in_f32(as_float(op), [](Val x) { return x * (std::numbers::pi / 180); }));
}
void rad2deg(Op& op) {
  op.result(0, in_f32(as_float(op), [](Val x) { return x * (180 / std::numbers::pi); }));
}

void sinc(Op& op) {
  op.result(0, in_f32(as_float(op), [](Val x) {
              Val z = x * std::numbers::pi;
              return where(eq(x, 0.0), 1.0, unary("sin", z) / z);
            }));
}

void logit(Op& op) {
  Val x = as_float(op);
  if (op.given("eps")) x = at_most(at_least(x, op.real("eps")), 1 - op.real("eps"));
  op.result(0, log(x / (1.0 - x)));
}
void logit_backward(Op& op) {
  Val g = op.val("grad_output"), x = op.val("self");
  if (!ir::is_float(x.dtype()) || g.dtype() != x.dtype()) decline("operands are not of one float dtype");
  bool clamped = op.given("eps");
  double eps = clamped ? op.real("eps") : 0;
  Val outside = logical_or(lt(x, eps), gt(x, 1 - eps)), slope = g / (x * (1.0 - x));
  op.result(0, where(outside, clamped ? 0.0 : std::nan(""), slope));
}

void entr(Op& op) {
  op.result(0, in_f32(as_float(op), [](Val x) {
              Val inside = where(eq(x, 0.0), 0.0, neg(x) * log(x));
              return where(lt(x, 0.0), -HUGE_VAL, where(isnan(x), x, inside));
            }));
}
void xlog1py(Op& op) {
  Dtype d = float_dtype(op.common_dtype({"self", "other"})), c = compute_dtype(d);
  Val x = cast(op.as("self", d), c), y = cast(op.as("other", d), c);
  op.result(0, cast(where(isnan(y), y, where(eq(x, 0.0), 0.0, x * log1p(y))), d));
}
void logaddexp2(Op& op) {
  Dtype d = op.common_dtype({"self", "other"}), c = compute_dtype(d);
  if (!ir::is_float(d)) decline("not defined for integers");
  Val x = cast(op.as("self", d), c), y = cast(op.as("other", d), c), m = binary("maximum", x, y);
  Val equal_infinities = logical_and(binary("eq.Tensor", x, y), unary("isinf", x));
  Val sum = m + log1p(unary("exp2", neg(abs(x - y)))) * std::numbers::log2e;
  op.result(0, cast(where(equal_infinities, x, sum), d));
}

// x * 2 ** other. Whole exponents move x's own, so that nothing overflows on the way.
void ldexp(Op& op) {
  Val x = op.val("self");
  if (Val e = op.val("other"); ir::is_float(x.dtype()) && ir::is_integral(e.dtype())) {
    constexpr int64_t kMost = 2200;
    e = at_most(at_least(cast(e, Dtype::i64), -kMost), kMost);
    Val half = div_mode(e, op.b.number(2, Dtype::i64), "trunc");
    const auto power = [](Val n) { return unary("exp2", cast(n, Dtype::f64)); };
    Val y = cast(x, Dtype::f64) * power(half) * power(binary("sub.Tensor", e, half));
    return op.result(0, cast(y, x.dtype()));
  }
  // The 2 is a 0-dim tensor of self's dtype.
  Val two = op.b.number(2.0, float_dtype(x.dtype()));
  Val power = op.apply("aten::pow.Tensor_Tensor", {{"self", ir::Ref{two.id}}, {"exponent", *op.find("other")}});
  op.result(0, op.apply("aten::mul.Tensor", {{"self", ir::Ref{x.id}}, {"other", ir::Ref{power.id}}}));
}

void round_decimals(Op& op) {
  Val x = op.val("self");
  if (!ir::is_float(x.dtype())) return op.result(0, x);
  int64_t decimals = op.integer("decimals");
  double scale = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  if (decimals == 0) return op.result(0, unary("round", x));
  op.result(0, in_f32(x, [&](Val v) {
              return decimals < 0 ? unary("round", v / scale) * scale : unary("round", v * scale) / scale;
            }));
}

void heaviside(Op& op) {
  Val x = op.val("self"), v = op.val("values");
  if (x.dtype() != v.dtype()) decline("operands are of several dtypes");
  if (x.dtype() == Dtype::b8) return op.result(0, logical_or(x, v));
  op.result(0, where(eq(x, 0), v, cast(gt(x, 0), x.dtype())));
}

void signbit(Op& op) {
  Val x = op.val("self");
  if (x.dtype() == Dtype::b8) return op.result(0, op.b.full(x.sizes(), false, Dtype::b8));
  if (!ir::is_float(x.dtype())) return op.result(0, lt(x, 0));
  op.result(0, lt(binary("copysign.Tensor", op.b.number(1.0, x.dtype()), x), 0.0));
}
void is_infinity(Op& op, double which) {
  Val x = op.val("self");
  op.result(0, ir::is_float(x.dtype()) ? eq(x, which) : op.b.full(x.sizes(), false, Dtype::b8));
}
void isposinf(Op& op) { is_infinity(op, HUGE_VAL); }
void isneginf(Op& op) { is_infinity(op, -HUGE_VAL); }

constexpr Row kRows[] = {
    {"aten::deg2rad", deg2rad},
    {"aten::rad2deg", rad2deg},
    {"aten::sinc", sinc},
    {"aten::logit", logit},
    {"aten::logit_backward", logit_backward},
    {"aten::special_entr", entr},
    {"aten::special_xlog1py", xlog1py},
    {"aten::special_xlog1py.self_scalar", xlog1py},
    {"aten::special_xlog1py.other_scalar", xlog1py},
    {"aten::logaddexp2", logaddexp2},
    {"aten::ldexp.Tensor", ldexp},
    {"aten::round.decimals", round_decimals},
    {"aten::heaviside", heaviside},
    {"aten::signbit", signbit},
    {"aten::isposinf", isposinf},
    {"aten::isneginf", isneginf},
};

}  // namespace

std::span<const Row> special_rules() { return kRows; }

}  // namespace precast::passes
