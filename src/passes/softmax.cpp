// Softmax and its relatives: shifted by the maximum, as eager.
#include <cmath>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

struct Input {
  Val x;  // in the dtype it is computed in
  Dims dim;
  Dtype result;
};

Input input(Op& op) {
  Val x = op.val("self");
  if (!ir::is_float(x.dtype())) decline("not defined for integers");
  bool to_float = op.given("half_to_float") && op.flag("half_to_float");
  Dtype result = to_float ? Dtype::f32 : op.dtype("dtype").value_or(x.dtype());
  int64_t d = wrap_dim(op.integer("dim"), x.dim());
  if (x.dim() > 0 && x.size(d) == 0) decline("a softmax of nothing");
  return {cast(cast(x, result), compute_dtype(result)), x.dim() ? Dims{d} : Dims{}, result};
}

Val largest(Val x, const Dims& dim) { return reduce("amax", x, dim, true, x.dtype()); }

Val softmax_of(Val x, const Dims& dim) {
  Val e = exp(x - largest(x, dim));
  return e / sum(e, dim, true);
}
void softmax(Op& op) {
  Input in = input(op);
  op.result(0, cast(softmax_of(in.x, in.dim), in.result));
}
// Rows of -inf alone give zeros.
void safe_softmax(Op& op) {
  Input in = input(op);
  Val masked = reduce("all.dims", eq(in.x, -HUGE_VAL), in.dim, true, Dtype::b8);
  op.result(0, cast(where(masked, 0.0, softmax_of(in.x, in.dim)), in.result));
}
void log_softmax(Op& op) {
  Input in = input(op);
  Val shifted = in.x - largest(in.x, in.dim);
  op.result(0, cast(shifted - log(sum(exp(shifted), in.dim, true)), in.result));
}

struct Gradient {
  Val g, y;
  Dims dim;
  Dtype result;
};
Gradient gradient(Op& op) {
  Val g = op.val("grad_output"), y = op.val("output");
  if (g.dtype() != y.dtype()) decline("the gradient is of another dtype");
  Dtype c = compute_dtype(y.dtype());
  int64_t d = wrap_dim(op.integer("dim"), y.dim());
  return {cast(g, c), cast(y, c), y.dim() ? Dims{d} : Dims{}, op.dtype("input_dtype").value_or(y.dtype())};
}
void softmax_backward(Op& op) {
  Gradient v = gradient(op);
  Val dot = sum(v.g * v.y, v.dim, true);
  op.result(0, cast((v.g - dot) * v.y, v.result));
}
void log_softmax_backward(Op& op) {
  Gradient v = gradient(op);
  op.result(0, cast(v.g - exp(v.y) * sum(v.g, v.dim, true), v.result));
}

constexpr Row kRows[] = {
    {"aten::_softmax", softmax},
    {"aten::_safe_softmax", safe_softmax},
    {"aten::_log_softmax", log_softmax},
    {"aten::_softmax_backward_data", softmax_backward},
    {"aten::_log_softmax_backward_data", log_softmax_backward},
};

}  // namespace

std::span<const Row> softmax_rules() { return kRows; }

}  // namespace precast::passes
