// Writes through indices: scatter in all its forms, and index_* as scatters.
#include <cmath>
#include <limits>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;

Val at_least_1d(Val x) { return x.dim() == 0 ? reshape(x, {1}) : x; }

struct Target {
  Val x, index, source;  // of one rank, at least 1; source may be empty
  int64_t d;
};
Val index_of(Op& op) {
  Val i = op.val("index");
  if (i.dtype() != Dtype::i64 && i.dtype() != Dtype::i32) decline("the index is not an integer");
  return at_least_1d(cast(i, Dtype::i64));
}
Target target(Op& op, const char* source) {
  Val x = op.val("self"), i = index_of(op), s = source ? at_least_1d(op.val(source)) : Val{};
  int64_t d = wrap_dim(op.integer("dim"), x.dim());
  if (s && s.dtype() != x.dtype()) decline("the source is of another dtype");
  x = at_least_1d(x);
  if (i.dim() != x.dim() || (s && s.dim() != x.dim())) decline("operands of other ranks");
  return {x, i, s, d};
}
void give(Op& op, Val made) { op.result(0, reshape(made, op.val("self").sizes())); }

void scatter_src(Op& op) {
  Target t = target(op, "src");
  give(op, scatter(t.x, t.d, t.index, t.source));
}
void scatter_value(Op& op) {
  Target t = target(op, nullptr);
  give(op, scatter(t.x, t.d, t.index, op.number("value")));
}

// ---- reductions

Number identity(const std::string& reduce, Dtype d) {
  if (reduce == "prod" || (d == Dtype::b8 && reduce == "amin")) return 1;
  if (d == Dtype::b8 || (reduce != "amax" && reduce != "amin")) return 0;
  bool most = reduce == "amin";
  if (ir::is_float(d)) return most ? HUGE_VAL : -HUGE_VAL;
  if (d == Dtype::u8) return most ? 255 : 0;
  int bits = 8 * ir::itemsize(d);
  int64_t limit = bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (bits - 1)) - 1;
  return most ? limit : -limit - 1;
}

// Half types add up in f32 and are rounded once. Bools are counted: any of them is a sum and a maximum.
Val combined(Val x, int64_t d, Val index, Val source, const std::string& reduce) {
  if (x.dtype() == Dtype::b8) {
    const auto number = [](Val v) { return cast(v, Dtype::i64); };
    return ne(combined(number(x), d, index, number(source), reduce), 0);
  }
  Dtype c = compute_dtype(x.dtype());
  Val wide = cast(x, c), terms = cast(source, c);
  if (reduce == "sum" || reduce == "mean") return cast(scatter_add(wide, d, index, terms), x.dtype());
  return cast(scatter_reduce(wide, d, index, terms, reduce.c_str()), x.dtype());
}

Val ones(Val x, Dtype d) { return x.b->full(x.sizes(), 1, d); }

Val reduced(const Target& t, const std::string& reduce, bool include_self) {
  if (t.x.dtype() == Dtype::b8 && reduce == "mean") decline("a mean of bools");
  Val x = include_self ? t.x : scatter(t.x, t.d, t.index, identity(reduce, t.x.dtype()));
  Val r = combined(x, t.d, t.index, t.source, reduce);
  if (reduce != "mean") return r;
  Val none = t.x.b->full(t.x.sizes(), include_self ? 1 : 0, t.x.dtype());
  // Of the index's sizes: the source may have more.
  Val n = combined(none, t.d, t.index, ones(t.index, t.x.dtype()), "sum");
  n = where(eq(n, 0), 1, n);
  return ir::is_float(r.dtype()) ? r / n : div_mode(r, n, "floor");
}

void scatter_add_rule(Op& op) {
  Target t = target(op, "src");
  give(op, combined(t.x, t.d, t.index, t.source, "sum"));
}
void scatter_reduce_two(Op& op) { give(op, reduced(target(op, "src"), op.text("reduce"), op.flag("include_self"))); }
std::string long_name(const std::string& reduce) {
  if (reduce == "add") return "sum";
  if (reduce == "multiply") return "prod";
  decline("reduction " + reduce);
}
void scatter_with_reduce(Op& op) { give(op, reduced(target(op, "src"), long_name(op.text("reduce")), true)); }
void scatter_value_with_reduce(Op& op) {
  Target t = target(op, nullptr);
  t.source = op.b.full(t.index.sizes(), op.number("value"), t.x.dtype());
  give(op, reduced(t, long_name(op.text("reduce")), true));
}

// ---- index_*: a 1-D index names whole slices

// The index as scatter has it: one for each element of the slices.
Val spread(Val index, const Dims& sizes, int64_t d) {
  if (index.dim() != 1) decline("the index is not a vector");
  Dims shape(sizes.size(), 1), all = sizes;
  shape[static_cast<size_t>(d)] = all[static_cast<size_t>(d)] = index.numel();
  return expand(reshape(index, shape), all);
}
Target slices(Op& op, const char* source) {
  Val x = op.val("self"), s = source ? at_least_1d(op.val(source)) : Val{}, i = index_of(op);
  int64_t d = wrap_dim(op.integer("dim"), x.dim());
  x = at_least_1d(x);
  if (s && (s.dtype() != x.dtype() || s.dim() != x.dim() || s.size(d) != i.numel()))
    decline("the source is of another rank or dtype");
  return {x, spread(i, s ? s.sizes() : x.sizes(), d), s, d};
}

// Whether eager adds slices along d in vectors.
bool in_vectors(Val x, int64_t d) {
  constexpr int64_t kVector = 16;
  for (int64_t e = 0; e < x.dim(); ++e)
    if (e != d && x.size(e) >= kVector && x.type().strides[static_cast<size_t>(e)] == 1) return true;
  return false;
}
void index_add_rule(Op& op) {
  Target t = slices(op, "source");
  if (t.x.dtype() == Dtype::b8) {
    if (op.number("alpha") == 0.0) return give(op, t.x);
    const auto number = [](Val v) { return cast(v, Dtype::i64); };
    return give(op, ne(index_add(number(t.x), t.d, index_of(op), number(t.source)), 0));
  }
  Number alpha = op.number("alpha");
  Dtype d = t.x.dtype();
  const bool scaled = !(alpha == 1.0), half = compute_dtype(d) != d;
  if (scaled && half) {  // a number counts in the operands' dtype
    const double a = rounded(alpha.real(), d);
    if (int e = 0; std::fabs(std::frexp(a, &e)) != 0.5 && in_vectors(t.x, t.d))
      decline("eager's vectors of half types do not round the scaled source");
    alpha = a;
  }
  if (scaled) t.source = t.source * alpha;
  // Of half types, eager rounds once where it scatters (along an outer or inner dim, without a factor), else after each
  // slice. A dim in the middle is one that does not scatter.
  const bool at_end = t.x.dim() > 1 && (t.d == 0 || t.d == t.x.dim() - 1);
  Dtype c = at_end && !scaled ? compute_dtype(d) : d;
  if (half && at_end && scaled) {
    const auto framed = [](Val v) { return unsqueeze(unsqueeze(v, v.dim()), 0); };
    return give(op, index_add(framed(t.x), t.d + 1, index_of(op), framed(t.source)));
  }
  give(op, cast(index_add(cast(t.x, c), t.d, index_of(op), cast(t.source, c)), d));
}
void index_copy(Op& op) {
  Target t = slices(op, "source");
  give(op, scatter(t.x, t.d, t.index, t.source));
}
void index_reduce(Op& op) { give(op, reduced(slices(op, "source"), op.text("reduce"), op.flag("include_self"))); }
void index_fill(Op& op) {
  Target t = slices(op, nullptr);
  Val i = where(lt(t.index, 0), t.index + t.x.size(t.d), t.index);
  if (op.is_number("value")) return give(op, scatter(t.x, t.d, i, op.number("value")));
  if (op.val("value").dim() != 0) decline("the value has dims");
  give(op, scatter(t.x, t.d, i, expand(cast(op.val("value"), t.x.dtype()), i.sizes())));
}

// ---- masks: the elements of source in their order

// Which element of source each place takes, where the mask holds; 0 elsewhere.
Val places(Val mask) {
  Val flat = cast(reshape(mask, {mask.numel()}), Dtype::i64);
  return reshape(where(eq(flat, 0), 0, cumsum(flat, 0) - 1), mask.sizes());
}
void masked_scatter(Op& op) {
  Val x = op.val("self"), mask = op.val("mask"), source = op.val("source");
  if (mask.dtype() != Dtype::b8 || source.dtype() != x.dtype()) decline("operands of other dtypes");
  auto sizes = broadcast_sizes({&x.type(), &mask.type()});
  if (!sizes) decline("the mask has other sizes");
  if (source.numel() == 0) decline("nothing to take from");
  mask = expand(mask, *sizes);
  op.result(0, where(mask, index(reshape(source, {source.numel()}), {places(mask)}), expand(x, *sizes)));
}
void masked_scatter_backward(Op& op) {
  Val g = op.val("grad_output"), mask = op.val("mask");
  Dims sizes = op.ints("sizes");
  if (mask.dtype() != Dtype::b8) decline("the mask is not bool");
  if (g.dtype() == Dtype::b8)
    return op.result(0, ne(op.apply(op.name(), op.args_with("grad_output", cast(g, Dtype::u8))), 0));
  mask = expand(mask, g.sizes());
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  Val flat = index_put(op.b.full({n}, 0, g.dtype()), {places(mask)}, where(mask, g, 0), true);
  op.result(0, reshape(flat, sizes));
}

constexpr Row kRows[] = {
    {"aten::scatter.src", scatter_src},
    {"aten::scatter.value", scatter_value},
    {"aten::scatter_add", scatter_add_rule},
    {"aten::scatter_reduce.two", scatter_reduce_two},
    {"aten::scatter.reduce", scatter_with_reduce},
    {"aten::scatter.value_reduce", scatter_value_with_reduce},
    {"aten::index_add", index_add_rule},
    {"aten::index_copy", index_copy},
    {"aten::index_reduce", index_reduce},
    {"aten::index_fill.int_Scalar", index_fill},
    {"aten::index_fill.int_Tensor", index_fill},
    {"aten::masked_scatter", masked_scatter},
    {"aten::masked_scatter_backward", masked_scatter_backward},
};

}  // namespace

std::span<const Row> scatter_rules() { return kRows; }

}  // namespace precast::passes
