#include "passes/promote.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace precast::passes {

using ir::Dtype;

void decline(std::string why) { throw Declined{std::move(why)}; }

double Number::real() const {
  return std::visit([](auto v) { return static_cast<double>(v); }, v_);
}

Dtype Number::dtype() const { return is_bool() ? Dtype::b8 : is_double() ? Dtype::f32 : Dtype::i64; }

double rounded(double v, Dtype d) {
  if (d == Dtype::f64 || !std::isfinite(v)) return v;
  auto f = static_cast<double>(static_cast<float>(v));
  if (d == Dtype::f32 || !std::isfinite(f) || f == 0) return f;
  // Half types: keep 11 (f16) or 8 (bf16) bits, fewer below the smallest normal number.
  int bits = d == Dtype::f16 ? 11 : 8, lowest = d == Dtype::f16 ? -13 : -125, exponent = 0;
  std::frexp(f, &exponent);
  int ulp = std::max(exponent, lowest) - bits;
  double r = std::ldexp(std::nearbyint(std::ldexp(f, -ulp)), ulp);
  double limit = d == Dtype::f16 ? 65504.0 : std::ldexp(255.0, 120);
  return std::fabs(r) > limit ? std::copysign(std::numeric_limits<double>::infinity(), r) : r;
}

ir::Attr Number::in(Dtype d) const {
  if (auto* size = std::get_if<ir::Size>(&v_); size && d != Dtype::b8) return *size;
  if (d == Dtype::b8) return real() != 0;
  if (ir::is_float(d)) {
    double v = real(), r = rounded(v, d);
    if (std::isinf(r) && !std::isinf(v)) decline("a number does not fit the dtype");
    return d == Dtype::f32 ? v : r;  // who reads 0.1 beside f32 rounds it; the text stays readable
  }
  int64_t i = 0;
  if (auto* exact = std::get_if<int64_t>(&v_)) {
    i = *exact;
  } else {
    double v = real();
    if (!(std::fabs(v) < 0x1p62)) decline("a number does not fit the dtype");
    i = static_cast<int64_t>(v);
  }
  // Where eager takes a number that does not fit, it wraps.
  if (d == Dtype::u8) return int64_t{static_cast<uint8_t>(i)};
  const int unused = 64 - ir::itemsize(d) * 8;
  return static_cast<int64_t>(static_cast<uint64_t>(i) << unused) >> unused;
}

namespace {

Dtype to_complex(Dtype d) {
  if (d == Dtype::f16 || d == Dtype::bf16) decline("dtype c32 is not lowered");
  return d == Dtype::f64 ? Dtype::c128 : Dtype::c64;
}

}  // namespace

Dtype promote(Dtype a, Dtype b) {
  if (a == b) return a;
  if (ir::is_complex(a) || ir::is_complex(b)) {
    const auto wide = [](Dtype d) { return d == Dtype::c128 || d == Dtype::f64; };
    if (a == Dtype::c32 || b == Dtype::c32) decline("dtype c32 is not lowered");
    return wide(a) || wide(b) ? Dtype::c128 : Dtype::c64;
  }
  for (Dtype d : {a, b})
    if (!ir::is_float(d) && d != Dtype::b8 && !(d >= Dtype::u8 && d <= Dtype::i64))
      decline("dtype " + std::string(ir::name(d)) + " is not lowered");
  if (a == Dtype::b8) return b;
  if (b == Dtype::b8) return a;
  bool fa = ir::is_float(a), fb = ir::is_float(b);
  if (fa != fb) return fa ? a : b;
  if (fa) return a == Dtype::f64 || b == Dtype::f64 ? Dtype::f64 : Dtype::f32;  // two of f16, bf16, f32
  if (a == Dtype::u8 || b == Dtype::u8) {
    Dtype other = a == Dtype::u8 ? b : a;
    return other == Dtype::i8 ? Dtype::i16 : other;
  }
  return std::max(a, b);
}

Promotion& Promotion::add(const ir::Type& t) {
  Dtype& slot = t.sizes.empty() ? zero_ : dim_;
  slot = slot == kNone ? t.dtype : promote(slot, t.dtype);
  return *this;
}

Promotion& Promotion::add_number(Dtype d) {
  wrapped_ = wrapped_ == kNone ? d : promote(wrapped_, d);
  return *this;
}

Dtype Promotion::combine(Dtype higher, Dtype lower) {
  if (higher == kNone) return lower;
  if (lower == kNone || ir::is_complex(higher)) return higher;
  if (ir::is_float(higher)) return ir::is_complex(lower) ? to_complex(higher) : higher;
  if (higher == Dtype::b8 || ir::is_float(lower) || ir::is_complex(lower)) return promote(higher, lower);
  return higher;
}

Dtype Promotion::result() const { return combine(dim_, combine(zero_, wrapped_)); }

}  // namespace precast::passes
