// Pointwise ops of more operands: choices, bounds, fused sums.
#include <cmath>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

void where_rule(Op& op) {
  Dtype d = op.common_dtype({"self", "other"});
  Val c = op.val("condition");
  if (c.dtype() != Dtype::b8) decline("the condition is not bool");
  op.result(0, where(c, op.as("self", d), op.as("other", d)));
}

void masked_fill(Op& op) {
  Val x = op.val("self"), mask = op.val("mask");
  if (mask.dtype() != Dtype::b8) decline("the mask is not bool");
  op.result(0, where(mask, op.as("value", x.dtype()), x));
}

Val bounded(Val x, std::optional<Number> low, std::optional<Number> high) {
  for (auto& n : {low, high})
    if (n && std::isnan(n->real())) decline("a bound is NaN");
  if (low) x = at_least(x, *low);
  if (high) x = at_most(x, *high);
  return x;
}
void clamp_between(Op& op, const char* low, const char* high) {
  Promotion p;
  p.add(op.val("self").type());
  std::optional<Number> bounds[2];
  for (int i = 0; i < 2; ++i) {
    const char* arg = i ? high : low;
    if (arg) bounds[i] = op.optional_number(arg);
    if (bounds[i]) p.add(*bounds[i]);
  }
  Dtype d = p.result();
  if (d == Dtype::b8) decline("not defined for bool");
  op.result(0, bounded(cast(op.val("self"), d), bounds[0], bounds[1]));
}
void clamp(Op& op) { clamp_between(op, "min", "max"); }
void clamp_min(Op& op) { clamp_between(op, "min", nullptr); }
void clamp_max(Op& op) { clamp_between(op, nullptr, "max"); }
void clamp_tensor(Op& op) {
  Val x = op.val("self"), low = op.optional("min"), high = op.optional("max");
  Promotion p;
  p.add(x.type());
  for (Val v : {low, high})
    if (v) p.add(v.type());
  Dtype d = p.result();
  Val r = cast(x, d);
  if (low) r = binary("maximum", r, cast(low, d));
  if (high) r = binary("minimum", r, cast(high, d));
  op.result(0, r);
}

void addcmul(Op& op) {
  Dtype d = op.common_dtype({"self", "tensor1", "tensor2"}), c = compute_dtype(d);
  if (d == Dtype::b8) decline("not defined for bool");
  Number v = op.number("value");
  auto get = [&](const char* arg) { return cast(op.as(arg, d), c); };
  Val t = get("tensor1");
  op.result(0, cast(get("self") + (v == 1.0 ? t : t * v) * get("tensor2"), d));
}
void addcdiv(Op& op) {
  Dtype d = op.common_dtype({"self", "tensor1", "tensor2"}), c = compute_dtype(d);
  if (!ir::is_float(d)) decline("not defined for integers");
  Number v = op.number("value");
  auto get = [&](const char* arg) { return cast(op.as(arg, d), c); };
  Val t = get("tensor1");
  op.result(0, cast(get("self") + (v == 1.0 ? t : t * v) / get("tensor2"), d));
}

// From the nearer end, as eager.
void lerp(Op& op) {
  Val x = op.val("self"), end = op.val("end");
  Dtype d = op.is_number("weight") ? op.common_dtype({"self", "end"}) : op.common_dtype({"self", "end", "weight"});
  Dtype c = compute_dtype(d);
  if (!ir::is_float(d)) decline("not defined for integers");
  x = cast(cast(x, d), c);
  end = cast(cast(end, d), c);
  Val span = end - x;
  if (op.is_number("weight")) {
    double w = op.real("weight");
    op.result(0, cast(std::fabs(w) < 0.5 ? x + span * w : end - span * (1.0 - rounded(w, c)), d));
    return;
  }
  Val w = cast(op.as("weight", d), c);
  op.result(0, cast(where(lt(abs(w), 0.5), x + w * span, end - span * (1.0 - w)), d));
}

void nan_to_num(Op& op) {
  Val x = op.val("self");
  Dtype d = x.dtype();
  if (!ir::is_float(d)) return op.result(0, x);
  double largest = d == Dtype::f64   ? 1.7976931348623157e308
                   : d == Dtype::f32 ? 3.4028234663852886e38
                   : d == Dtype::f16 ? 65504.0
                                     : 3.3895313892515355e38;
  auto given = [&](const char* arg, double otherwise) { return op.given(arg) ? op.real(arg) : otherwise; };
  double inf = HUGE_VAL;
  Val r = where(isnan(x), given("nan", 0.0), x);
  r = where(eq(x, inf), given("posinf", largest), r);
  op.result(0, where(eq(x, -inf), given("neginf", -largest), r));
}

void dropout_backward(Op& op) {
  Val g = op.val("grad_output"), mask = op.val("mask");
  if (!ir::is_float(g.dtype())) return op.result(0, cast(g * cast(mask, g.dtype()), Dtype::f32) * op.number("scale"));
  op.result(0, in_f32(g, [&](Val v) { return v * (cast(mask, v.dtype()) * op.number("scale")); }));
}

constexpr Row kRows[] = {
    {"aten::where.self", where_rule},
    {"aten::where.ScalarSelf", where_rule},
    {"aten::where.ScalarOther", where_rule},
    {"aten::where.Scalar", where_rule},
    {"aten::masked_fill.Scalar", masked_fill},
    {"aten::masked_fill.Tensor", masked_fill},
    {"aten::clamp", clamp},
    {"aten::clamp.Tensor", clamp_tensor},
    {"aten::clamp_min", clamp_min},
    {"aten::clamp_max", clamp_max},
    {"aten::clamp_min.Tensor", clamp_tensor},
    {"aten::clamp_max.Tensor", clamp_tensor},
    {"aten::addcmul", addcmul},
    {"aten::addcdiv", addcdiv},
    {"aten::lerp.Scalar", lerp},
    {"aten::lerp.Tensor", lerp},
    {"aten::nan_to_num", nan_to_num},
    {"aten::native_dropout_backward", dropout_backward},
};

}  // namespace

std::span<const Row> ternary_rules() { return kRows; }

}  // namespace precast::passes
