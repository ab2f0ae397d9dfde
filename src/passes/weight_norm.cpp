// Weights scaled to a norm: weight norm with its gradient, and renorm.
#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

Val computed(Val v) { return cast(v, compute_dtype(v.dtype())); }
Dims all_but(Val x, int64_t d) {
  Dims dims = all_dims(x);
  dims.erase(dims.begin() + d);
  return dims;
}

void weight_norm(Op& op) {
  Val v = op.val("v"), g = op.val("g");
  int64_t d = op.integer("dim");
  if (!ir::is_float(v.dtype()) || g.dtype() != v.dtype() || v.dim() < 2) decline("operands are not of one float dtype");
  Val x = computed(v), norm = sqrt(sum(x * x, all_but(x, d), true));
  op.result(0, cast(x * (computed(g) / norm), v.dtype()));
  op.result(1, cast(norm, op.wants(1) ? op.wanted(1).dtype : v.dtype()));
}

void weight_norm_backward(Op& op) {
  Val v = op.val("saved_v"), g = op.val("saved_g"), grad = op.val("grad_w");
  int64_t d = op.integer("dim");
  if (!ir::is_float(v.dtype()) || g.dtype() != v.dtype() || grad.dtype() != v.dtype() || v.dim() < 2)
    decline("operands are not of one float dtype");
  Val x = computed(v), gw = computed(grad), norm = computed(op.val("saved_norms"));
  Val dot = sum(gw * x, all_but(x, d), true), inverse = 1.0 / norm;
  op.result(0, cast(computed(g) * inverse * (gw - x * (dot * inverse * inverse)), v.dtype()));
  op.result(1, cast(dot * inverse, g.dtype()));
}

// Slices along dim that are longer than maxnorm become as long as it; the norm is f64 for f32, as eager's.
void renorm(Op& op) {
  Val x = op.val("self");
  Dtype d = x.dtype(), c = d == Dtype::f32 ? Dtype::f64 : compute_dtype(d);
  if (!ir::is_float(d) || x.dim() < 2) decline("not a matrix of floats");
  int64_t dim = wrap_dim(op.integer("dim"), x.dim());
  Val wide = cast(x, c);
  Val norm = op.apply(
      "aten::linalg_vector_norm",
      {{"self", ir::Ref{wide.id}}, {"ord", op.real("p")}, {"dim", all_but(x, dim)}, {"keepdim", true}, {"dtype", {}}});
  double most = op.real("maxnorm");
  Val factor = where(gt(norm, most), op.b.number(most, c) / (norm + 1e-7), op.b.number(1.0, c));
  op.result(0, x * cast(factor, d));
}

constexpr Row kRows[] = {
    {"aten::_weight_norm_interface", weight_norm},
    {"aten::_weight_norm_interface_backward", weight_norm_backward},
    {"aten::renorm", renorm},
};

}  // namespace

std::span<const Row> weight_norm_rules() { return kRows; }

}  // namespace precast::passes
