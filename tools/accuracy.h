// The emitted f32 functions of one argument, what they should give, and how far off they are.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace accuracy {

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
      {"log10", std::log10, 2.8},
      {"log1p", std::log1p, 1.8},
      {"sin", std::sin, 1.6},
      {"cos", std::cos, 1.6},
      {"tan", std::tan, 1.4},
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
    const int exponent = v == 0 ? -126 : std::max(std::ilogb(v), -126);
    per_ulp = std::ldexp(1.0, 23 - exponent);
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
/// `run(x, y, n)` each.
template <class Run>
std::vector<Worst> sweep(const Function& f, uint64_t first, uint64_t end, uint64_t step,
                         const std::vector<Run>& forms) {
  constexpr size_t kChunk = 1 << 12;
  std::vector<float> x, y(kChunk);
  std::vector<Exact> exact;
  std::vector<Worst> worst(forms.size());
  for (uint64_t bits = first; bits < end;) {
    x.clear(), exact.clear();
    for (; bits < end && x.size() < kChunk; bits += step) {
      x.push_back(from_bits(static_cast<uint32_t>(bits)));
      exact.emplace_back(f.reference(x.back()));
    }
    for (size_t k = 0; k < forms.size(); ++k) {
      forms[k](x.data(), y.data(), static_cast<int64_t>(x.size()), true);
      for (size_t i = 0; i < x.size(); ++i) worst[k].take(ulps(y[i], exact[i]), x[i]);
    }
  }
  return worst;
}

}  // namespace accuracy
