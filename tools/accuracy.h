// The emitted f32 functions of one argument, what they should give, and how far off they are.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace accuracy {

/// Logarithmic derivative of the gamma function: upward recurrence, then the asymptotic series (Abramowitz & Stegun
/// 6.3.5, 6.3.18); reflection below zero. ATen's values at the poles.
inline double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0 && x == std::trunc(x)) return std::numeric_limits<double>::quiet_NaN();
  constexpr long double pi = 3.14159265358979323846264338327950288L;
  long double t = x, sum = 0;
  if (x < 0) {
    const long double rest = t - std::trunc(t);
    sum -= pi / std::tan(pi * rest);
    t = 1 - t;
  }
  for (; t < 16; t += 1) sum -= 1 / t;
  if (std::isinf(t)) return static_cast<double>(t);
  const long double w = 1 / (t * t);
  const long double series =
      w * (1 / 12.L - w * (1 / 120.L - w * (1 / 252.L - w * (1 / 240.L - w * (1 / 132.L - w * 691 / 32760.L)))));
  return static_cast<double>(sum + std::log(t) - 0.5L / t - series);
}

/// Inverse error function: Newton's method on erf below one half, on erfc above, where 1 - x is exact in double.
inline double erfinv(double x) {
  const double a = std::abs(x);
  if (!(a < 1)) return a == 1 ? x * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  constexpr double half_root_pi = 0.88622692545275801365;
  const double u = std::sqrt(-std::log1p(-a * a));  // within 15 % of the result (Winitzki's leading term)
  double y = a < 0.5 ? half_root_pi * a : 0.9 * u;
  for (int i = 0; i < 8; ++i) {
    const double miss = a < 0.5 ? std::erf(y) - a : (1 - a) - std::erfc(y);
    const double step = half_root_pi * std::exp(y * y) * miss;
    y -= step / (1 + y * step);  // Halley
    if (std::abs(step) < 1e-13 * y) break;
  }
  return std::copysign(y, x);
}

struct Function {
  const char* name;
  double (*reference)(double);
  double limit;  // ulp, asserted by tests
};

inline const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {"exp", std::exp, 1.1},
      {"exp2", std::exp2, 1.1},
      {"expm1", std::expm1, 1.6},
      {"log", std::log, 1.1},
      {"log2", std::log2, 2.2},
      {"log10", std::log10, 3.1},
      {"log1p", std::log1p, 1.8},
      {"sin", std::sin, 1.6},
      {"cos", std::cos, 1.6},
      {"tan", std::tan, 1.5},
      {"asin", std::asin, 0.51},
      {"acos", std::acos, 0.51},
      {"atan", std::atan, 0.51},
      {"sinh", std::sinh, 0.51},
      {"cosh", std::cosh, 0.51},
      {"tanh", std::tanh, 1.6},
      {"asinh", std::asinh, 0.51},
      {"acosh", std::acosh, 0.51},
      {"atanh", std::atanh, 0.51},
      {"erf", std::erf, 1.4},
      {"erfc", std::erfc, 0.51},
      {"erfinv", erfinv, 0.51},
      {"lgamma", std::lgamma, 0.51},
      {"digamma", digamma, 0.53},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 2.5},
      {"sqrt", std::sqrt, 0.5},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1.5},
      {"reciprocal", [](double x) { return 1 / x; }, 0.5},
  };
  return all;
}

/// What a function should give, with the size of a unit of the last place of f32 there.
struct Exact {
  double value;
  float rounded;
  double per_ulp;  // 1 / ulp

  explicit Exact(double v) : value(v), rounded(static_cast<float>(v)) {
    const auto exponent = static_cast<int64_t>((std::bit_cast<uint64_t>(v) >> 52) & 0x7ff) - 1023;
    per_ulp = std::bit_cast<double>(static_cast<uint64_t>(23 - std::max<int64_t>(exponent, -126) + 1023) << 52);
  }
};

/// Distance of `got` from the exact value in units of the last place of f32 there; 0 when both are NaN or the same
/// infinity, infinite when only one is. Overflow counts from the largest number on.
inline double ulps(float got, const Exact& exact) {
  if (!std::isfinite(got) || !std::isfinite(exact.rounded)) {
    const bool same = (std::isnan(exact.value) && std::isnan(got)) || got == exact.rounded;
    return same ? 0 : std::numeric_limits<double>::infinity();
  }
  return std::abs(static_cast<double>(got) - exact.value) * exact.per_ulp;
}
inline double ulps(float got, double exact) { return ulps(got, Exact(exact)); }

/// As ulps() between ordinary values; not less where one is special. Loops over it become vectors.
inline double distance(float got, double exact) {
  const double magnitude = std::max(std::abs(exact), 0x1p-126);
  const uint64_t exponent = std::bit_cast<uint64_t>(magnitude) & 0x7ff0000000000000;
  const double ulp = std::bit_cast<double>(exponent) * 0x1p-23;
  const double off = std::abs(static_cast<double>(got) - exact) / ulp;
  return off == off ? off : std::numeric_limits<double>::infinity();
}

inline float from_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

struct Worst {
  double ulp = 0;
  float at = 0;
  void take(double candidate, float x) {
    if (candidate > ulp) ulp = candidate, at = x;
  }
  void take(const Worst& other) { take(other.ulp, other.at); }
};

/// The worst of inputs first, first + step, ... (bit patterns) below `end`, for each of several forms of the function,
/// `run(x, y, n)` each; `reference(x, y, n)` gives what they should.
template <class Run, class Reference>
std::vector<Worst> sweep(const Reference& reference, uint64_t first, uint64_t end, uint64_t step,
                         const std::vector<Run>& forms) {
  constexpr size_t kChunk = 1 << 12;
  std::vector<float> x(kChunk), y(kChunk);
  std::vector<double> wide(kChunk), exact(kChunk);
  std::vector<Worst> worst(forms.size());
  for (uint64_t bits = first; bits < end;) {
    size_t n = 0;
    for (; bits < end && n < kChunk; bits += step, ++n) wide[n] = x[n] = from_bits(static_cast<uint32_t>(bits));
    reference(wide.data(), exact.data(), n);
    for (size_t k = 0; k < forms.size(); ++k) {
      forms[k](x.data(), y.data(), static_cast<int64_t>(n), true);
      double most = 0;  // of ordinary values; what is special counts as much
      for (size_t i = 0; i < n; ++i) {
        const double off = distance(y[i], exact[i]);
        most = off <= most ? most : off;
      }
      if (most <= worst[k].ulp) continue;
      for (size_t i = 0; i < n; ++i) worst[k].take(ulps(y[i], exact[i]), x[i]);
    }
  }
  return worst;
}

}  // namespace accuracy
