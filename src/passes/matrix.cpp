// Matrix products: everything becomes mm or bmm, with scaling and sum as ordinary pointwise nodes.
#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

Val one_dtype(Val x, Val y) {
  if (x.dtype() != y.dtype() || x.dtype() == Dtype::b8) decline("operands are not of one dtype, or bools");
  return x;
}

// beta * self + alpha * product; half types sum in f32 and round once. beta = 0 does not read self.
Val accumulate(Op& op, Val product) {
  Val self = op.val("self");
  const auto factor = [&](const char* arg) {
    if (!op.given(arg)) return Number(1);
    Number n = op.number(arg);
    return n.is_double() && !ir::is_float(product.dtype()) ? Number(static_cast<int64_t>(n.real())) : n;
  };
  Number alpha = factor("alpha"), beta = factor("beta");
  if (!(alpha == 1.0)) product = product * alpha;
  if (beta == 0.0) return product;
  self = cast(self, product.dtype());
  return product + (beta == 1.0 ? self : self * beta);
}

Val computed(Val v) { return cast(v, compute_dtype(v.dtype())); }

Val product(Val x, Val y) {
  if (!ir::is_float(x.dtype())) return einsum(x.dim() == 3 ? "bmk,bkn->bmn" : "mk,kn->mn", x, y);
  return x.dim() == 3 ? bmm(x, y) : mm(x, y);
}

void mm_rule(Op& op) {
  Val x = one_dtype(op.val("self"), op.val("mat2"));
  op.result(0, product(x, op.val("mat2")));
}
void bmm_rule(Op& op) {
  Val x = one_dtype(op.val("self"), op.val("mat2"));
  op.result(0, product(x, op.val("mat2")));
}
template <Val multiply(Val, Val)>
void add_product(Op& op, const char* left, const char* right) {
  Val x = one_dtype(op.val(left), op.val(right));
  op.result(0, cast(accumulate(op, multiply(computed(x), computed(op.val(right)))), x.dtype()));
}
void addmm(Op& op) { add_product<product>(op, "mat1", "mat2"); }
void baddbmm(Op& op) { add_product<product>(op, "batch1", "batch2"); }

Val matrix_vector(Val m, Val v) { return squeeze(product(m, unsqueeze(v, 1)), 1); }
void mv(Op& op) {
  Val m = one_dtype(op.val("self"), op.val("vec"));
  op.result(0, matrix_vector(m, op.val("vec")));
}
void addmv(Op& op) { add_product<matrix_vector>(op, "mat", "vec"); }
Val outer(Val x, Val y) { return unsqueeze(x, 1) * unsqueeze(y, 0); }
void addr(Op& op) {
  Val x = op.val("vec1"), y = op.val("vec2"), self = op.val("self");
  if (x.dtype() != Dtype::b8) return add_product<outer>(op, "vec1", "vec2");
  const auto counts = [&](const char* arg, Val v) {
    return op.number(arg) == 0.0 ? op.b.full({}, false, Dtype::b8) : v;
  };
  op.result(0, logical_or(counts("beta", self), counts("alpha", outer(x, y))));
}

Val batches_summed(Val x, Val y) { return cast(sum(product(x, y), {0}, false), x.dtype()); }
void addbmm(Op& op) { add_product<batches_summed>(op, "batch1", "batch2"); }

void dot(Op& op, const char* other) {
  Val x = one_dtype(op.val("self"), op.val(other));
  op.result(0, cast(sum(computed(x) * computed(op.val(other)), {0}, false), x.dtype()));
}
void dot_rule(Op& op) { dot(op, "tensor"); }
void vdot(Op& op) { dot(op, "other"); }

void linear(Op& op) {
  Val x = one_dtype(op.val("input"), op.val("weight")), w = op.val("weight"), bias = op.optional("bias");
  if (x.dim() < 1 || w.dim() != 2) decline("not a matrix");
  if (bias) one_dtype(x, bias);
  Dims sizes = x.sizes();
  int64_t k = sizes.back();
  sizes.back() = w.size(0);
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) rows *= sizes[i];
  Val y = product(computed(reshape(x, {rows, k})), computed(transpose(w, 0, 1)));
  if (bias) y = y + computed(bias);
  op.result(0, cast(reshape(y, sizes), x.dtype()));
}

void einsum_rule(Op& op) {
  std::vector<Val> operands = op.vals("tensors");
  if (operands.size() != 2 || operands[0].dtype() != operands[1].dtype()) decline("not two operands of one dtype");
  if (operands[0].dtype() == Dtype::b8) decline("operands are bools");
  op.result(0, einsum(op.text("equation"), operands[0], operands[1]));
}

constexpr Row kRows[] = {
    {"aten::mm", mm_rule},   {"aten::bmm", bmm_rule}, {"aten::addmm", addmm},   {"aten::baddbmm", baddbmm},
    {"aten::mv", mv},        {"aten::addmv", addmv},  {"aten::addr", addr},     {"aten::addbmm", addbmm},
    {"aten::dot", dot_rule}, {"aten::vdot", vdot},    {"aten::linear", linear}, {"aten::einsum", einsum_rule},
};

}  // namespace

std::span<const Row> matrix_rules() { return kRows; }

}  // namespace precast::passes
