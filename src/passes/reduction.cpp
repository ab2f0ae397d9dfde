// Reductions, with their dims spelled out, and what is made of them: variance, norms, logsumexp.
#include <algorithm>
#include <cmath>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

bool keepdim(Op& op) { return op.given("keepdim") && op.flag("keepdim"); }

// sum and prod: the dtype asked for is applied before reducing; integers count in i64.
Val prepared(Op& op) {
  Val x = op.val("self");
  if (auto d = op.dtype("dtype")) return cast(x, *d);
  return ir::is_float(x.dtype()) ? x : cast(x, Dtype::i64);
}

void sum_rule(Op& op) {
  Val x = prepared(op);
  if (x.dtype() == Dtype::b8) return op.result(0, reduce("any.dims", x, op.dims("dim", x), keepdim(op), Dtype::b8));
  if (!ir::is_float(x.dtype()) && x.dtype() != Dtype::i64) decline("sums in small integers");
  op.result(0, sum(x, op.dims("dim", x), keepdim(op)));
}

void mean_rule(Op& op) {
  Val x = op.val("self");
  Dtype d = op.dtype("dtype").value_or(x.dtype());
  if (!ir::is_float(d)) decline("not defined for integers");
  Val c = cast(cast(x, d), compute_dtype(d));
  op.result(0, cast(mean(c, op.dims("dim", x), keepdim(op)), d));
}

void prod(Op& op) {
  Val x = prepared(op);
  if (x.dtype() == Dtype::b8 || (!ir::is_float(x.dtype()) && x.dtype() != Dtype::i64)) decline("small integers");
  if (op.given("dim")) {
    return op.result(0, reduce_one("prod.dim_int", x, wrap_dim(op.integer("dim"), x.dim()), keepdim(op), x.dtype()));
  }
  op.result(0, reduce_one("prod.dim_int", reshape(x, {x.numel()}), 0, false, x.dtype()));
}

void extremum(Op& op, std::string_view name, size_t out = 0) {
  Val x = op.val("self");
  Dims dims = op.dims("dim", x);
  for (int64_t d : dims)
    if (x.size(d) == 0) decline("an extremum of nothing");
  op.result(out, reduce(name, x, dims, keepdim(op), x.dtype()));
}
void amax(Op& op) { extremum(op, "amax"); }
void amin(Op& op) { extremum(op, "amin"); }
void aminmax(Op& op) {
  extremum(op, "amin", 0);
  extremum(op, "amax", 1);
}

// Values and the first index that holds them, along one dim.
void extremum_with_index(Op& op, std::string_view value, std::string_view index) {
  Val x = op.val("self");
  int64_t d = wrap_dim(op.integer("dim"), x.dim());
  if (x.dim() > 0 && x.size(d) == 0) decline("an extremum of nothing");
  op.result(0, reduce(value, x, {d}, keepdim(op), x.dtype()));
  if (x.dtype() == Dtype::b8) x = cast(x, Dtype::u8);
  op.result(1, reduce_one(index, x, d, keepdim(op), Dtype::i64));
}
void max_dim(Op& op) { extremum_with_index(op, "amax", "argmax"); }
void min_dim(Op& op) { extremum_with_index(op, "amin", "argmin"); }

void arg_extremum(Op& op, std::string_view name) {
  Val x = op.val("self");
  if (x.numel() == 0 || x.dtype() == Dtype::b8) decline("an index in nothing or of a bool");
  if (op.given("dim"))
    return op.result(0, reduce_one(name, x, wrap_dim(op.integer("dim"), x.dim()), keepdim(op), Dtype::i64));
  Val flat = reduce_one(name, reshape(x, {x.numel()}), 0, false, Dtype::i64);
  op.result(0, keepdim(op) ? reshape(flat, Dims(x.sizes().size(), 1)) : flat);
}
void argmax(Op& op) { arg_extremum(op, "argmax"); }
void argmin(Op& op) { arg_extremum(op, "argmin"); }

void truth(Op& op, std::string_view name) {
  Val x = op.val("self");
  if (op.given("dim") && op.ints("dim").empty()) decline("no dims");
  Val b = x.dtype() == Dtype::b8 ? x : ne(x, 0);
  Val r = reduce(name, b, op.dims("dim", x), keepdim(op), Dtype::b8);
  op.result(0, x.dtype() == Dtype::u8 ? cast(r, Dtype::u8) : r);
}
void any(Op& op) { truth(op, "any.dims"); }
void all(Op& op) { truth(op, "all.dims"); }

void count_nonzero(Op& op) {
  Val x = op.val("self");
  op.result(0, sum(x.dtype() == Dtype::b8 ? x : ne(x, 0), op.dims("dim", x), false));
}

// Two passes: the mean first, then squares of what differs from it.
struct Moments {
  Val mean, var;
};
Moments moments(Op& op, bool in_f64 = false) {
  Val x = op.val("self");
  if (!ir::is_float(x.dtype())) decline("not defined for integers");
  Dims dims = op.dims("dim", x);
  double correction = op.given("correction") ? op.real("correction") : 1;
  Size n = 1;
  for (int64_t d : dims) n *= x.size(d);
  const bool whole = correction == std::floor(correction);
  if (n.is_symbolic() && !whole) decline("dynamic size: a correction that is no whole number");
  Val c = cast(x, in_f64 ? Dtype::f64 : compute_dtype(x.dtype()));
  Val m = mean(c, dims, x.dim() > 0), d = c - m;
  Val squares = sum(d * d, dims, keepdim(op));
  if (!keepdim(op)) m = reshape(m, squares.sizes());
  if (n.is_symbolic()) return {m, squares / Number(ir::max(n - static_cast<int64_t>(correction), 0))};
  return {m, squares / std::max(static_cast<double>(n) - correction, 0.0)};
}
void var(Op& op) { op.result(0, cast(moments(op).var, op.val("self").dtype())); }
// The variance may overflow where its root does not.
void std_rule(Op& op) { op.result(0, cast(sqrt(moments(op, true).var), op.val("self").dtype())); }
void mean_second(Op& op, bool root) {
  Moments m = moments(op, root);
  Dtype d = op.val("self").dtype();
  op.result(0, cast(root ? sqrt(m.var) : m.var, d));
  op.result(1, cast(m.mean, d));
}
void var_mean(Op& op) { mean_second(op, false); }
void std_mean(Op& op) { mean_second(op, true); }

Val p_norm(Val x, double p, const Dims& dims, bool keep) {
  if (p == 2) return sqrt(sum(x * x, dims, keep));
  if (p == 1) return sum(abs(x), dims, keep);
  if (p == 0) return sum(cast(ne(x, 0.0), x.dtype()), dims, keep);
  if (std::isinf(p)) {
    for (int64_t d : dims)
      if (x.size(d) == 0) decline("an extremum of nothing");
    return reduce(p > 0 ? "amax" : "amin", abs(x), dims, keep, x.dtype());
  }
  if (std::isnan(p)) decline("the order is NaN");
  return binary_number("pow.Tensor_Scalar", sum(binary_number("pow.Tensor_Scalar", abs(x), p), dims, keep), 1 / p);
}
void norm_of(Op& op, const char* order) {
  Val x = op.val("self");
  Dtype d = op.dtype("dtype").value_or(x.dtype());
  if (!ir::is_float(d)) decline("not defined for integers");
  double p = op.given(order) ? op.real(order) : 2;
  Val c = cast(cast(x, d), compute_dtype(d));
  op.result(0, cast(p_norm(c, p, op.dims("dim", x), keepdim(op)), d));
}
void vector_norm(Op& op) { norm_of(op, "ord"); }
void norm(Op& op) { norm_of(op, "p"); }

// Of the difference of two.
void dist(Op& op) {
  Val x = op.val("self"), y = op.val("other");
  if (x.dtype() != y.dtype()) decline("operands of several dtypes");
  Val d = x - y;
  op.result(0, op.apply("aten::norm.Scalar", {{"self", ir::Ref{d.id}}, {"p", *op.find("p")}}));
}
// The sum of powers that a norm is the root of.
void power_sum(Op& op) {
  Val x = op.val("self");
  Dtype d = op.dtype("dtype").value_or(x.dtype());
  if (!ir::is_float(d)) decline("not defined for integers");
  const double p = op.real("ord");
  Val c = cast(cast(x, d), compute_dtype(d)), term = p == 2   ? c * c
                                                     : p == 1 ? abs(c)
                                                              : binary_number("pow.Tensor_Scalar", abs(c), p);
  if (p == 0 || std::isinf(p) || std::isnan(p)) decline("an order without a sum");
  op.result(0, cast(sum(term, op.dims("dim", c), keepdim(op)), d));
}
void nansum(Op& op) {
  Val x = op.val("self");
  if (ir::is_float(x.dtype())) x = where(isnan(x), 0.0, x);
  std::vector<ir::Arg> args = op.args_with("self", x);
  op.result(0, op.apply(op.given("dim") ? "aten::sum.dim_IntList" : "aten::sum", std::move(args)));
}

void logsumexp(Op& op) {
  Val x = op.val("self");
  if (op.ints("dim").empty()) decline("no dims");
  Dims dims = op.dims("dim", x);
  Dtype d = ir::is_float(x.dtype()) ? x.dtype() : Dtype::f32;
  Val c = cast(x, compute_dtype(d));
  bool keep = keepdim(op);
  if (x.numel() == 0) return op.result(0, cast(log(sum(exp(c), dims, keep)), d));
  // An infinite maximum would give inf - inf.
  Val top = reduce("amax", c, dims, x.dim() > 0, c.dtype());
  top = where(unary("isinf", top), 0.0, top);
  Val s = log(sum(exp(c - top), dims, keep));
  op.result(0, cast(s + reshape(top, s.sizes()), d));
}

void cumulative(Op& op, const char* name) {
  Val x = prepared(op);
  if (x.dtype() == Dtype::b8 || (!ir::is_float(x.dtype()) && x.dtype() != Dtype::i64)) decline("small integers");
  int64_t d = wrap_dim(op.integer("dim"), x.dim());
  if (x.dim() == 0) return op.result(0, x);
  op.result(
      0, op.b.emit(name, {{"self", ir::Ref{x.id}}, {"dim", d}, {"dtype", {}}}, ir::contiguous(x.dtype(), x.sizes())));
}
void cumsum(Op& op) { cumulative(op, "aten::cumsum"); }
void cumprod(Op& op) { cumulative(op, "aten::cumprod"); }

constexpr Row kRows[] = {
    {"aten::sum", sum_rule},
    {"aten::sum.dim_IntList", sum_rule},
    {"aten::mean", mean_rule},
    {"aten::mean.dim", mean_rule},
    {"aten::prod", prod},
    {"aten::prod.dim_int", prod},
    {"aten::amax", amax},
    {"aten::amin", amin},
    {"aten::aminmax", aminmax},
    {"aten::_aminmax", aminmax},
    {"aten::_aminmax.dim", aminmax},
    {"aten::max", amax},
    {"aten::min", amin},
    {"aten::max.dim", max_dim},
    {"aten::min.dim", min_dim},
    {"aten::argmax", argmax},
    {"aten::argmin", argmin},
    {"aten::any", any},
    {"aten::any.dim", any},
    {"aten::any.dims", any},
    {"aten::all", all},
    {"aten::all.dim", all},
    {"aten::all.dims", all},
    {"aten::count_nonzero", count_nonzero},
    {"aten::count_nonzero.dim_IntList", count_nonzero},
    {"aten::var.correction", var},
    {"aten::std.correction", std_rule},
    {"aten::var_mean.correction", var_mean},
    {"aten::std_mean.correction", std_mean},
    {"aten::linalg_vector_norm", vector_norm},
    {"aten::norm.ScalarOpt_dim", norm},
    {"aten::norm.Scalar", norm},
    {"aten::norm.ScalarOpt_dim_dtype", norm},
    {"aten::norm.ScalarOpt_dtype", norm},
    {"aten::linalg__powsum", power_sum},
    {"aten::dist", dist},
    {"aten::nansum", nansum},
    {"aten::_is_all_true", all},
    {"aten::_is_any_true", any},
    {"aten::logsumexp", logsumexp},
    {"aten::cumsum", cumsum},
    {"aten::cumprod", cumprod},
};

}  // namespace

std::span<const Row> reduction_rules() { return kRows; }

}  // namespace precast::passes
