// Where an infinity or a NaN stands, Annex G of the C standard says what a function is; elsewhere it is a formula.
#include "passes/complex_maths.h"

#include <cmath>

namespace precast::passes {
namespace {

constexpr double kNaN = __builtin_nan("");

Val is_finite(Val x) { return lt(abs(x), HUGE_VAL); }
Val isinf(Val x) { return unary("isinf", x); }
Val copysign(Val size, Val sign) { return binary("copysign.Tensor", size, sign); }
Val copysign(double size, Val sign) { return copysign(sign.b->number(size, sign.dtype()), sign); }
Val nan(Val like) { return like.b->number(kNaN, like.dtype()); }
// size * factor, where size = e^x / divisor; in halves, where the size alone would overflow.
Val scaled(Val size, Val x, Val factor, double divisor = 1) {
  Val half = exp(x * 0.5), large = logical_and(eq(size, HUGE_VAL), is_finite(x));
  return where(large, half * (1 / divisor) * factor * half, size * factor);
}
Parts turned(Parts z) { return {neg(z.im), z.re}; }       // i z
Parts turned_back(Parts z) { return {z.im, neg(z.re)}; }  // -i z

// The product of C: infinities that the formula makes NaN of are put back.
Parts c_product(Parts x, Parts y) {
  Parts plain = x * y;
  const auto boxed = [](Parts z) {  // an infinity as a corner of the unit box
    Val any = logical_or(isinf(z.re), isinf(z.im));
    const auto corner = [&](Val v) { return copysign(where(isinf(v), 1.0, v * 0.0), v); };
    const auto tame = [&](Val v) { return where(isnan(v), copysign(0.0, v), v); };
    return std::pair{any, Parts{where(any, tame(corner(z.re)), z.re), where(any, tame(corner(z.im)), z.im)}};
  };
  auto [x_infinite, a] = boxed(x);
  auto [y_infinite, b] = boxed(y);
  const auto tame = [](Val other, Val v) { return where(logical_and(other, isnan(v)), copysign(0.0, v), v); };
  a = {tame(y_infinite, a.re), tame(y_infinite, a.im)};
  b = {tame(x_infinite, b.re), tame(x_infinite, b.im)};
  Parts again = times(a * b, HUGE_VAL);
  Val lost = logical_and(logical_and(isnan(plain.re), isnan(plain.im)), logical_or(x_infinite, y_infinite));
  return where(lost, again, plain);
}

}  // namespace

Parts reciprocal(Parts z) { return number(z.re, 1) / z; }

Parts sqrt(Parts z) {
  // Large numbers are halved twice, so that |z| + |re| does not overflow.
  const double most = z.re.dtype() == ir::Dtype::f64 ? 0x1p1020 : 0x1p124;
  Val large = logical_or(gt(abs(z.re), most), gt(abs(z.im), most));
  const auto halved = [&](Val v) { return where(large, v * 0.0625, v); };
  Parts w{halved(z.re), halved(z.im)};
  Val far = sqrt(size_of(w) * 0.5 + abs(w.re) * 0.5);
  Val near = where(eq(far, 0.0), 0.0, abs(w.im) * 0.5 / far);
  const auto doubled = [&](Val v) { return where(large, v * 4.0, v); };
  far = doubled(far), near = doubled(near);
  Val left = lt(z.re, 0.0);
  Parts plain{where(left, near, far), copysign(where(left, far, near), z.im)};
  Val endless = isinf(z.re), none = logical_or(isnan(z.re), isnan(z.im));
  Val im_nan = isnan(z.im);
  Parts special{where(left, where(im_nan, z.im, z.re.b->number(0.0, z.re.dtype())), z.re),
                where(left, copysign(HUGE_VAL, z.im), where(im_nan, z.im, copysign(0.0, z.im)))};
  Parts r = where(none, Parts{nan(z.re), nan(z.im)}, plain);
  r = where(endless, special, r);
  return where(isinf(z.im), Parts{abs(z.im), z.im}, r);
}

Parts log(Parts z) {
  // Near 1, |z| - 1 is what counts.
  Val a = abs(z.re), b = abs(z.im), wide = binary("maximum", a, b), thin = binary("minimum", a, b);
  Val size = size_of(z), close = logical_and(gt(size, 0.5), lt(size, 2.0));
  Val fine = log1p((wide - 1.0) * (wide + 1.0) + thin * thin) * 0.5;
  return {where(close, fine, log(size)), binary("atan2", z.im, z.re)};
}

// As c10 does: log(u) z / (u - 1) of u = 1 + z rounded.
Parts log1p(Parts z) {
  Parts u{z.re + 1.0, z.im}, v = log(u), back{u.re - 1.0, u.im};
  return where(equal(u, number(z.re, 1)), z, where(equal(back, z), v, v * (z / back)));
}

Parts exp(Parts z) {
  Val size = exp(z.re), on_axis = eq(z.im, 0.0), turns = isinf(z.im), bad = logical_or(turns, isnan(z.im));
  Val re = where(on_axis, size, scaled(size, z.re, unary("cos", z.im)));
  Val im = where(on_axis, z.im, scaled(size, z.re, unary("sin", z.im)));
  Val endless = logical_and(bad, eq(z.re, HUGE_VAL)), none = logical_and(bad, eq(z.re, -HUGE_VAL));
  Val zero = where(turns, copysign(0.0, z.im), 0.0);
  re = where(none, 0.0, where(endless, HUGE_VAL, re));
  im = where(none, zero, where(endless, kNaN, im));
  return {re, im};
}

Parts expm1(Parts z) {
  Val a = unary("sin", z.im * 0.5);
  return {expm1(z.re) * unary("cos", z.im) - a * 2.0 * a, exp(z.re) * unary("sin", z.im)};
}

namespace {

struct Hyperbola {
  Val size, sinh, cosh, sin, cos;  // of |re|, re, re, im, im
  Val wide_sinh(Val factor) const { return scaled(abs(sinh), size, factor, 2) * sign(sinh); }
  Val wide_cosh(Val factor) const { return scaled(cosh, size, factor, 2); }
};
Hyperbola hyperbola(Parts z) {
  return {abs(z.re), unary("sinh", z.re), unary("cosh", z.re), unary("sin", z.im), unary("cos", z.im)};
}

}  // namespace

Parts sinh(Parts z) {
  const Hyperbola h = hyperbola(z);
  Val sh = h.sinh, s = h.sin, c = h.cos;
  Val on_axis = eq(z.im, 0.0), bad = logical_not(is_finite(z.im)), endless = isinf(z.re), none = isnan(z.re);
  Parts r{where(on_axis, sh, where(eq(sh, 0.0), sh * c, h.wide_sinh(c))), where(on_axis, z.im, h.wide_cosh(s))};
  Parts far{where(on_axis, z.re, copysign(HUGE_VAL, c) * sign(z.re)), where(on_axis, z.im, copysign(HUGE_VAL, s))};
  r = where(endless, far, r);
  // The angle is not a number.
  Parts lost{where(endless, abs(z.re), where(eq(z.re, 0.0), z.re, kNaN)), nan(z.im)};
  r = where(bad, lost, r);
  return where(none, Parts{nan(z.re), where(on_axis, z.im, kNaN)}, r);
}

Parts cosh(Parts z) {
  const Hyperbola h = hyperbola(z);
  Val s = h.sin, c = h.cos;
  Val on_axis = eq(z.im, 0.0), bad = logical_not(is_finite(z.im)), endless = isinf(z.re), none = isnan(z.re);
  Parts r{where(on_axis, h.cosh, h.wide_cosh(c)), where(on_axis, z.im * sign(z.re), h.wide_sinh(s))};
  r.im = where(logical_and(eq(z.re, 0.0), is_finite(z.im)), z.re * s, r.im);
  Parts far{where(on_axis, HUGE_VAL, copysign(HUGE_VAL, c)),
            where(on_axis, z.im * sign(z.re), copysign(HUGE_VAL, s) * sign(z.re))};
  r = where(endless, far, r);
  Parts lost{where(endless, HUGE_VAL, nan(z.re)), where(eq(z.re, 0.0), 0.0, nan(z.im))};
  r = where(bad, lost, r);
  return where(none, Parts{nan(z.re), where(on_axis, z.im, kNaN)}, r);
}

Parts tanh(Parts z) {
  const auto [size, sh, ch, s, c] = hyperbola(z);
  const double most = z.re.dtype() == ir::Dtype::f64 ? 177 : 22;  // beyond, sinh and cosh are e^|re| / 2
  Val whole = sh * sh + c * c, far = gt(size, most);
  Parts r{sh * ch / whole, s * c / whole};
  r = where(far, Parts{copysign(1.0, z.re), s * c * 4.0 * exp(size * -2.0)}, r);
  r.im = where(eq(z.im, 0.0), z.im, r.im);
  Val endless = isinf(z.re), bad = logical_not(is_finite(z.im));
  Val turned = logical_and(is_finite(z.im), gt(abs(z.im), 1.0));
  r = where(endless, Parts{copysign(1.0, z.re), where(turned, copysign(0.0, s * c), copysign(0.0, z.im))}, r);
  Val lost = logical_and(logical_not(endless), logical_or(isnan(z.re), bad));
  Parts special{where(eq(z.re, 0.0), z.re, kNaN), where(eq(z.im, 0.0), z.im, kNaN)};
  return where(lost, special, r);
}

Parts sin(Parts z) {
  Parts r = turned_back(sinh(turned(z)));
  r.im = where(logical_and(isinf(z.im), logical_not(is_finite(z.re))), HUGE_VAL, r.im);
  return r;
}
Parts cos(Parts z) { return cosh(turned(z)); }
Parts tan(Parts z) { return turned_back(tanh(turned(z))); }

Parts pow(Parts base, Parts exponent) { return exp(c_product(exponent, log(base))); }

}  // namespace precast::passes
