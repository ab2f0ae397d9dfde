// Complex values as pairs: their arithmetic, by the plain formulas that eager's kernels use.
#include "passes/complex.h"

#include <algorithm>
#include <complex>
#include <numeric>

namespace precast::passes {

using ir::Dtype;
using ir::Ref;

Dtype part_of(Dtype d) { return d == Dtype::c128 ? Dtype::f64 : d == Dtype::c64 ? Dtype::f32 : d; }
Dtype pair_of(Dtype d) { return d == Dtype::f64 ? Dtype::c128 : Dtype::c64; }

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

Val converted(Val v, Dtype d) {
  if (v.dtype() == d) return v;
  if (ir::is_complex(d)) return joined(cast(parts(v), part_of(d)));
  if (ir::is_complex(v.dtype())) decline("a complex value in a real one");
  return passes::cast(v, d);
}

Val complex_copy(Val v, const Dims& strides) {
  Dims order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](int64_t d) { return strides[static_cast<size_t>(d)]; });
  Parts p = parts(v);
  Val made = joined({permute(p.re, order), permute(p.im, order)});
  ir::Type t{.dtype = made.dtype(), .sizes = v.sizes(), .strides = strides};
  return v.b->view(made, t);
}

namespace {

// Real values of the same bytes: one dim more, for the parts.
ir::Type as_pairs(ir::Type t) {
  if (!ir::is_complex(t.dtype)) return t;
  if (t.conj) decline("a conjugate that is written");
  t.dtype = part_of(t.dtype);
  for (ir::Size& s : t.strides) s *= 2;
  t.sizes.push_back(2);
  t.strides.push_back(1);
  return t;
}

}  // namespace

Val complex_scatter(Val base, Val src, const ir::Size& offset, const Dims& strides) {
  ir::Type window = as_pairs({.dtype = src.dtype(), .sizes = src.sizes(), .strides = strides});
  Val real = base.b->view(base, as_pairs(base.type())), from = base.b->view(src, as_pairs(src.type()));
  if (real.dtype() != from.dtype()) decline("a window of another dtype");
  return base.b->view(scatter_window(real, from, offset, window.strides), base.type());
}

Parts operand(Op& op, const char* arg, Dtype d) {
  if (op.is_number(arg)) return {op.b.number(op.number(arg), d), op.b.number(0.0, d)};
  if (auto* z = std::get_if<std::complex<double>>(op.find(arg)))
    return {op.b.number(z->real(), d), op.b.number(z->imag(), d)};
  return cast(parts(op.val(arg)), d);
}
Dtype part_dtype(Op& op, std::initializer_list<const char*> args) {
  Promotion p;
  for (const char* arg : args) {
    const ir::Attr* a = op.find(arg);
    if (!a) continue;
    if (std::holds_alternative<std::complex<double>>(*a))
      p.add_number(Dtype::c64);
    else if (op.is_number(arg))
      p.add(op.number(arg));
    else
      p.add(op.val(arg).type());
  }
  return part_of(p.result());
}

Parts operator+(Parts x, Parts y) { return {x.re + y.re, x.im + y.im}; }
Parts operator-(Parts x, Parts y) { return {x.re - y.re, x.im - y.im}; }
Parts operator-(Parts x) { return {neg(x.re), neg(x.im)}; }
Parts operator*(Parts x, Parts y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }
Parts operator/(Parts x, Parts y) {
  Val re = abs(y.re), im = abs(y.im), real = binary("ge.Tensor", re, im);
  Val zero = logical_and(eq(re, 0.0), eq(im, 0.0));
  const auto choose = [&](Val a, Val b) { return where(real, a, b); };
  Val ratio = choose(y.im, y.re) / choose(y.re, y.im);
  Val scale = 1.0 / (choose(y.re, y.im) + choose(y.im, y.re) * ratio);
  Parts z{choose(x.re + x.im * ratio, x.re * ratio + x.im) * scale,
          choose(x.im - x.re * ratio, x.im * ratio - x.re) * scale};
  return {where(zero, x.re / re, z.re), where(zero, x.im / im, z.im)};
}
Parts times(Parts x, double n) { return {x.re * n, x.im * n}; }
Parts number(Val like, double re, double im) {
  return {like.b->number(re, like.dtype()), like.b->number(im, like.dtype())};
}
Parts where(Val c, Parts x, Parts y) { return {where(c, x.re, y.re), where(c, x.im, y.im)}; }
Val equal(Parts x, Parts y) { return logical_and(binary("eq.Tensor", x.re, y.re), binary("eq.Tensor", x.im, y.im)); }
Val is_true(Parts x) { return logical_or(ne(x.re, 0), ne(x.im, 0)); }
Val size_of(Parts x) { return binary("hypot", x.re, x.im); }

}  // namespace precast::passes
