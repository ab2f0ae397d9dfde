// Inverses of the trigonometric and hyperbolic functions, after Hull, Fairgrieve and Tang (1997), who say where which
// formula keeps all digits; special values as Annex G of the C standard has them.
#include <cmath>
#include <numbers>

#include "passes/complex_maths.h"

namespace precast::passes {
namespace {

constexpr double kNaN = __builtin_nan(""), kHalfPi = std::numbers::pi / 2, kQuarterPi = std::numbers::pi / 4;

Val isinf(Val x) { return unary("isinf", x); }
Val is_finite(Val x) { return lt(abs(x), HUGE_VAL); }
Val copysign(Val size, Val sign) { return binary("copysign.Tensor", size, sign); }
Val copysign(double size, Val sign) { return copysign(sign.b->number(size, sign.dtype()), sign); }
Parts turned(Parts z) { return {neg(z.im), z.re}; }
Parts turned_back(Parts z) { return {z.im, neg(z.re)}; }

// Of a number in the first quadrant: the arcs of sine and cosine, whose sum is pi / 2, and how far they lean.
struct Arcs {
  Val sine, cosine, lean;
};
Arcs arcs(Val x, Val y) {
  const double large = x.dtype() == ir::Dtype::f64 ? 1e8 : 1e4;
  Val far = logical_or(gt(x, large), gt(y, large)), inside = lt(x, 1.0);
  Val r = binary("hypot", x + 1.0, y), s = binary("hypot", x - 1.0, y), a = (r + s) * 0.5, b = x / a;
  Val right = r + (x + 1.0), y2 = y * y, gap = s + abs(x - 1.0);
  // a - 1
  Val over = (y2 / right + where(inside, y2 / gap, gap)) * 0.5;
  Val lean = where(lt(a, 1.5), log1p(over + sqrt(over * (a + 1.0))), log(a + sqrt((a - 1.0) * (a + 1.0))));
  Val thin = logical_and(lt(y, 1e-10), lt(x, 0.9));
  lean = where(thin, y / sqrt((1.0 - x) * (1.0 + x)), lean);
  // Near the ends of the cut, by the opposite side of the triangle.
  Val apx = a + x;
  Val side = where(inside, sqrt(apx * (y2 / right + gap) * 0.5), y * sqrt((apx / right + apx / gap) * 0.5));
  side = where(logical_and(eq(y, 0.0), logical_not(inside)), 0.0, side);
  Val steep = gt(b, 0.6417);
  Val sine = where(steep, binary("atan2", x, side), unary("asin", b));
  Val cosine = where(steep, binary("atan2", side, x), unary("acos", b));
  return {where(far, binary("atan2", x, y), sine), where(far, binary("atan2", y, x), cosine),
          where(far, log(binary("hypot", x * 0.5, y * 0.5)) + 2 * std::numbers::ln2, lean)};
}

}  // namespace

Parts asinh(Parts z) {
  const Arcs a = arcs(abs(z.im), abs(z.re));
  Val zero = logical_and(eq(z.re, 0.0), eq(z.im, 0.0));
  Parts r = where(zero, z, {copysign(a.lean, z.re), copysign(a.sine, z.im)});
  Val up = isinf(z.im), along = isinf(z.re), lost = isnan(z.re);
  Parts on_end{z.re, where(logical_or(logical_and(along, is_finite(z.im)), logical_and(lost, eq(z.im, 0.0))),
                           copysign(0.0, z.im), kNaN)};
  r = where(logical_or(along, lost), on_end, r);
  Val turn = where(along, copysign(kQuarterPi, z.im), copysign(kHalfPi, z.im));
  r = where(up, {copysign(HUGE_VAL, z.re), where(lost, kNaN, turn)}, r);
  return where(logical_and(is_finite(z.re), isnan(z.im)), number(z.re, kNaN, kNaN), r);
}

Parts asin(Parts z) {
  Parts r = turned_back(asinh(turned(z)));
  Val lost = logical_or(isnan(z.re), isnan(z.im)), endless = logical_or(isinf(z.re), isinf(z.im));
  Parts special =
      where(eq(z.re, 0.0), z, {z.re.b->number(kNaN, z.re.dtype()), where(endless, copysign(HUGE_VAL, z.im), kNaN)});
  return where(lost, special, r);
}

Parts acos(Parts z) {
  const Arcs a = arcs(abs(z.re), abs(z.im));
  Val left = lt(z.re, 0.0);
  Parts plain{where(left, std::numbers::pi - a.cosine, a.cosine), neg(copysign(a.lean, z.im))};
  Parts s = asin(z), special{where(eq(s.re, kHalfPi), 0.0, kHalfPi - s.re), neg(s.im)};
  Val zero = logical_and(eq(z.re, 0.0), eq(z.im, 0.0));
  return where(logical_or(zero, logical_not(logical_and(is_finite(z.re), is_finite(z.im)))), special, plain);
}

Parts acosh(Parts z) {
  Parts c = acos(z);
  Val below = lt(copysign(1.0, z.im), 0.0);
  Parts r{where(below, c.im, neg(c.im)), where(below, neg(c.re), c.re)};
  Val zero = logical_and(eq(z.re, 0.0), eq(z.im, 0.0));
  r = where(zero, {z.re.b->number(0.0, z.re.dtype()), copysign(kHalfPi, z.im)}, r);
  // Neither is infinite, one is no number.
  Val lost = logical_or(isnan(z.re), isnan(z.im)), endless = logical_or(isinf(z.re), isinf(z.im));
  Parts none = where(eq(z.re, 0.0), number(z.re, kNaN, kHalfPi), number(z.re, kNaN, kNaN));
  r = where(logical_and(lost, logical_not(endless)), none, r);
  r = where(logical_and(endless, isnan(z.im)), number(z.re, HUGE_VAL, kNaN), r);
  return where(logical_and(isinf(z.im), isnan(z.re)), number(z.re, HUGE_VAL, kNaN), r);
}

Parts atanh(Parts z) {
  Val x = abs(z.re), y = abs(z.im);
  const double large = x.dtype() == ir::Dtype::f64 ? 1e150 : 1e18;
  Val far = logical_or(gt(x, large), gt(y, large)), wide = binary("maximum", x, y),
      ratio = binary("minimum", x, y) / wide;
  Val gap = 1.0 - x, y2 = y * y;
  Val plain = log1p(x * 4.0 / (gap * gap + y2)) * 0.25;
  plain = where(logical_and(eq(gap, 0.0), lt(y, 1e-10)), (std::numbers::ln2 - log(y)) * 0.5, plain);  // at a pole
  Val distant = x / wide / wide / (ratio * ratio + 1.0);
  Parts r{copysign(where(far, distant, plain), z.re),
          where(far, copysign(kHalfPi, z.im), binary("atan2", z.im * 2.0, gap * (x + 1.0) - y2) * 0.5)};
  Val zero = logical_and(eq(z.re, 0.0), eq(z.im, 0.0));
  r = where(zero, z, r);
  Val lost = logical_or(isnan(z.re), isnan(z.im)), along = logical_or(isinf(z.re), eq(z.re, 0.0));
  r = where(lost, {where(along, copysign(0.0, z.re), kNaN), z.re.b->number(kNaN, z.re.dtype())}, r);
  r = where(logical_and(isinf(z.re), is_finite(z.im)), {copysign(0.0, z.re), copysign(kHalfPi, z.im)}, r);
  return where(isinf(z.im), {copysign(0.0, z.re), copysign(kHalfPi, z.im)}, r);
}

Parts atan(Parts z) { return turned_back(atanh(turned(z))); }

}  // namespace precast::passes
