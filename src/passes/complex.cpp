// Ops on complex values: real ops on their two parts, by the plain formulas that eager's kernels use. Where eager's
// special cases of infinities and NaN are not those of a formula, there is no row.
#include "passes/complex.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>

#include "passes/rules.h"

namespace precast::passes {
namespace {

using ir::Dtype;
using ir::Ref;

Dtype part_of(Dtype d) { return d == Dtype::c128 ? Dtype::f64 : Dtype::f32; }
Dtype pair_of(Dtype d) { return d == Dtype::f64 ? Dtype::c128 : Dtype::c64; }

struct Parts {
  Val re, im;  // of one dtype and one size
};

Parts parts(Val v) {
  ir::Type t = v.type();
  if (!ir::is_complex(t.dtype)) return {v, v.b->full(t.sizes, 0, t.dtype)};
  const bool conj = std::exchange(t.conj, false);
  t.dtype = part_of(t.dtype);
  for (Size& s : t.strides) s *= 2;
  Val re = v.b->view(v, t), im = v.b->view(v, t, ir::itemsize(t.dtype));
  return {re, conj ? neg(im) : im};
}
Parts cast(Parts p, Dtype d) { return {passes::cast(p.re, d), passes::cast(p.im, d)}; }

Val joined(Parts p) {
  Dims sizes = *broadcast_sizes({&p.re.type(), &p.im.type()});
  const auto d = static_cast<int64_t>(sizes.size());
  p = {expand(p.re, sizes), expand(p.im, sizes)};
  Val pairs = in_order(cat({unsqueeze(p.re, d), unsqueeze(p.im, d)}, d));
  return p.re.b->view(pairs, ir::contiguous(pair_of(p.re.dtype()), p.re.sizes()));
}
void give(Op& op, Parts p) { op.result(0, joined(p)); }

// An operand, or a number, in parts of this dtype.
Parts operand(Op& op, const char* arg, Dtype d) {
  if (op.is_number(arg)) return {op.b.number(op.number(arg), d), op.b.number(0.0, d)};
  if (auto* z = std::get_if<std::complex<double>>(op.find(arg)))
    return {op.b.number(z->real(), d), op.b.number(z->imag(), d)};
  return cast(parts(op.val(arg)), d);
}
// What eager computes in: the parts of the result.
Dtype computed(Op& op) {
  if (op.wants(0)) return part_of(op.wanted(0).dtype);
  for (const char* arg : {"self", "other"})
    if (const ir::Attr* a = op.find(arg))
      if (auto* r = std::get_if<Ref>(a)) {
        Dtype d = op.b.type(r->id).dtype, self = op.val("self").dtype();
        if (!ir::is_complex(self)) decline("a complex value in a real one");
        if (part_of(d) != part_of(self) && (d == Dtype::f64 || d == Dtype::c128))
          decline("an operand of a wider dtype");
      }
  return part_of(op.val("self").dtype());
}

// ---- arithmetic

Parts product(Parts x, Parts y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }
// Eager multiplies by alpha as a complex number even if it is 1, which spreads NaN and infinities.
template <int sign>
void add(Op& op) {
  Dtype d = computed(op);
  double alpha = sign * (op.find("alpha") ? op.real("alpha") : 1.0);
  Parts x = operand(op, "self", d), y = operand(op, "other", d);
  Val zero = op.b.number(0.0, d);
  y = {y.re * alpha - y.im * zero, y.re * zero + y.im * alpha};
  give(op, {x.re + y.re, x.im + y.im});
}
void mul(Op& op) {
  Dtype d = computed(op);
  give(op, product(operand(op, "self", d), operand(op, "other", d)));
}
void square(Op& op) {
  Parts x = parts(op.val("self"));
  give(op, product(x, x));
}

void of_both(Op& op, Val f(Val)) {
  Parts x = parts(op.val("self"));
  give(op, {f(x.re), f(x.im)});
}
void neg_rule(Op& op) { of_both(op, neg); }
void conj(Op& op) {
  Parts x = parts(op.val("self"));
  give(op, {x.re, neg(x.im)});
}
void copy_rule(Op& op) {
  Val x = op.val("self");
  Dtype d = op.dtype("dtype").value_or(x.dtype());
  Parts p = parts(x);
  if (!ir::is_complex(d)) return op.result(0, passes::cast(p.re, d));
  if (d != Dtype::c64 && d != Dtype::c128) decline("a complex dtype without parts");
  give(op, cast(p, part_of(d)));
}
void store(Op& op) {  // self.copy_(src)
  Val x = op.val("self");
  Parts p = operand(op, "src", part_of(x.dtype()));
  if (!ir::is_complex(x.dtype())) return op.result(0, expand(passes::cast(p.re, x.dtype()), x.sizes()));
  op.result(0, expand(joined(p), x.sizes()));
}
void make(Op& op) { give(op, {op.val("real"), op.val("imag")}); }

// z / |z|; 0 of 0.
void sgn(Op& op) {
  if (!op.val("self").type().is_contiguous()) decline("eager's special cases depend on the layout");
  Parts x = parts(op.val("self"));
  Val size = binary("hypot", x.re, x.im), none = eq(size, 0.0);
  give(op, {where(none, 0.0, x.re / size), where(none, 0.0, x.im / size)});
}
// With the special cases of C's cexp.
void exp_rule(Op& op) {
  Parts x = parts(op.val("self"));
  Val size = exp(x.re), on_axis = eq(x.im, 0.0), turned = unary("isinf", x.im), bad = logical_or(turned, isnan(x.im));
  Val re = where(on_axis, size, size * unary("cos", x.im)), im = where(on_axis, x.im, size * unary("sin", x.im));
  Val endless = logical_and(bad, eq(x.re, HUGE_VAL)), none = logical_and(bad, eq(x.re, -HUGE_VAL));
  Val zero = where(turned, binary("copysign.Tensor", op.b.full(x.im.sizes(), 0.0, x.im.dtype()), x.im), 0.0);
  re = where(none, 0.0, where(endless, HUGE_VAL, re));
  im = where(none, zero, where(endless, std::nan(""), im));
  give(op, {re, im});
}
void polar(Op& op) {
  Val size = op.val("abs"), turn = op.val("angle");
  give(op, {size * unary("cos", turn), size * unary("sin", turn)});
}

// ---- real results

void abs_rule(Op& op) {
  Parts x = parts(op.val("self"));
  op.result(0, binary("hypot", x.re, x.im));
}
void angle(Op& op) {
  Parts x = parts(op.val("self"));
  op.result(0, binary("atan2", x.im, x.re));
}
template <bool equal>
void compare(Op& op) {
  Dtype d = Dtype::f32;
  for (const char* arg : {"self", "other"})
    if (auto* r = std::get_if<Ref>(op.find(arg)))
      if (Dtype t = op.b.type(r->id).dtype; t == Dtype::c128 || t == Dtype::f64) d = Dtype::f64;
  Parts x = operand(op, "self", d), y = operand(op, "other", d);
  const char* same = equal ? "eq.Tensor" : "ne.Tensor";
  Val re = binary(same, x.re, y.re), im = binary(same, x.im, y.im);
  op.result(0, equal ? logical_and(re, im) : logical_or(re, im));
}

// ---- reductions

template <Val reduce(Val, const Dims&, bool)>
void of_dims(Op& op) {
  if (op.dtype("dtype")) decline("a reduction in another dtype");
  Val x = op.val("self");
  Dims dims = op.dims("dim", x);
  bool keep = op.given("keepdim") && op.flag("keepdim");
  Parts p = parts(x);
  give(op, {reduce(p.re, dims, keep), reduce(p.im, dims, keep)});
}

// ---- matrix products

template <Val multiply(Val, Val)>
void matrix_product(Op& op) {
  Parts x = parts(op.val("self")), y = parts(op.val("mat2"));
  if (x.re.dtype() != y.re.dtype()) decline("operands of several dtypes");
  give(op, {multiply(x.re, y.re) - multiply(x.im, y.im), multiply(x.re, y.im) + multiply(x.im, y.re)});
}

// ---- what moves elements, part by part: the rule for real values on each

void each_part(Op& op) {
  Parts made;
  for (bool imaginary : {false, true}) {
    std::vector<ir::Arg> args = op.args();
    const auto take = [&](Ref& r) {
      if (r.id == ir::kNoValue || !ir::is_complex(op.b.type(r.id).dtype)) return;
      Parts p = parts(op.b.value(r.id));
      r.id = (imaginary ? p.im : p.re).id;
    };
    for (ir::Arg& a : args) {
      if (auto* r = std::get_if<Ref>(&a.value)) take(*r);
      if (auto* list = std::get_if<std::vector<Ref>>(&a.value)) {
        for (Ref r : *list)
          if (r.id != ir::kNoValue && ir::is_float(op.b.type(r.id).dtype)) decline("complex values among real ones");
        for (Ref& r : *list) take(r);
      }
      if (a.name == "dtype") a.value = {};
      if (a.name == "value" || a.name == "other") decline("a number among complex values");
    }
    (imaginary ? made.im : made.re) = op.apply(op.name(), std::move(args));
  }
  if (made.re.dtype() != made.im.dtype()) decline("parts of several dtypes");
  give(op, made);
}
// A number fills the real part.
void masked_fill(Op& op) {
  Val x = op.val("self"), mask = op.val("mask");
  if (mask.dtype() != Dtype::b8) decline("the mask is not bool");
  Parts p = parts(x), v = operand(op, "value", p.re.dtype());
  give(op, {where(mask, v.re, p.re), where(mask, v.im, p.im)});
}
void where_rule(Op& op) {
  Dtype d = computed(op);
  Val c = op.val("condition");
  if (c.dtype() != Dtype::b8) decline("the condition is not bool");
  Parts x = operand(op, "self", d), y = operand(op, "other", d);
  give(op, {where(c, x.re, y.re), where(c, x.im, y.im)});
}
void zeros(Op& op) {
  if (!op.wants(0)) decline("the result has no recorded sizes");
  const ir::Type& t = op.wanted(0);
  Val zero = op.b.full(t.sizes, 0, part_of(t.dtype));
  give(op, {zero, zero});
}
void zero_written(Op& op) {
  Val x = op.val("self"), zero = op.b.full(x.sizes(), 0, part_of(x.dtype()));
  give(op, {zero, zero});
}

constexpr Row kRows[] = {
    {"aten::complex", make},
    {"aten::add.Tensor", add<1>},
    {"aten::add.Scalar", add<1>},
    {"aten::sub.Tensor", add<-1>},
    {"aten::sub.Scalar", add<-1>},
    {"aten::mul.Tensor", mul},
    {"aten::mul.Scalar", mul},
    {"aten::square", square},
    {"aten::exp", exp_rule},
    {"aten::sgn", sgn},
    {"aten::polar", polar},
    {"aten::neg", neg_rule},
    {"aten::conj_physical", conj},
    {"aten::_conj_physical", conj},
    {"aten::resolve_conj", copy_rule},
    {"aten::clone", copy_rule},
    {"aten::_to_copy", copy_rule},
    {"aten::copy", store},
    {"aten::abs", abs_rule},
    {"aten::angle", angle},
    {"aten::eq.Tensor", compare<true>},
    {"aten::eq.Scalar", compare<true>},
    {"aten::ne.Tensor", compare<false>},
    {"aten::ne.Scalar", compare<false>},
    {"aten::sum", of_dims<sum>},
    {"aten::sum.dim_IntList", of_dims<sum>},
    {"aten::mean", of_dims<mean>},
    {"aten::mean.dim", of_dims<mean>},
    {"aten::mm", matrix_product<mm>},
    {"aten::bmm", matrix_product<bmm>},
    {"aten::where.self", where_rule},
    {"aten::masked_fill.Scalar", masked_fill},
    {"aten::masked_fill.Tensor", masked_fill},
    {"aten::zeros", zeros},
    {"aten::zeros_like", zeros},
    {"aten::new_zeros", zeros},
    {"aten::zero", zero_written},
    {"aten::cat", each_part},
    {"aten::stack", each_part},
    {"aten::flip", each_part},
    {"aten::roll", each_part},
    {"aten::repeat", each_part},
    {"aten::gather", each_part},
    {"aten::index_select", each_part},
    {"aten::select_backward", each_part},
    {"aten::slice_backward", each_part},
    {"aten::diagonal_backward", each_part},
    {"aten::tril", each_part},
    {"aten::triu", each_part},
    {"aten::embedding", each_part},
};

}  // namespace

std::span<const Row> complex_rules() { return kRows; }

Val complex_copy(Val v, const Dims& strides) {
  Dims order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](int64_t d) { return strides[static_cast<size_t>(d)]; });
  Parts p = parts(v);
  Val made = joined({permute(p.re, order), permute(p.im, order)});
  ir::Type t{.dtype = made.dtype(), .sizes = v.sizes(), .strides = strides};
  return v.b->view(made, t);
}

}  // namespace precast::passes
