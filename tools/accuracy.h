// The emitted f32 functions of one argument, what they should give, and how far off they are.
#pragma once
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
      {"log2", std::log2, 2.1},
      {"log10", std::log10, 2.1},
      {"log1p", std::log1p, 1.8},
      {"sin", std::sin, 1.6},
      {"cos", std::cos, 1.6},
      {"tan", std::tan, 1.0},
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
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 2.3},
      {"sqrt", std::sqrt, 0.5},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1.5},
      {"reciprocal", [](double x) { return 1 / x; }, 0.5},
  };
  return all;
}

/// Distance of `got` from the exact value in units of the last place of f32 there; 0 when both are NaN or the same
/// infinity, infinite when only one is. Overflow counts from the largest number on.
inline double ulps(float got, double exact) {
  const float rounded = static_cast<float>(exact);
  if (std::isnan(exact) || std::isnan(got) || std::isinf(got) || std::isinf(rounded)) {
    const bool same = (std::isnan(exact) && std::isnan(got)) || got == rounded;
    return same ? 0 : std::numeric_limits<double>::infinity();
  }
  const int exponent = std::max(exact == 0 ? -126 : std::ilogb(exact), -126);
  return std::abs(static_cast<double>(got) - exact) * std::ldexp(1.0, 23 - exponent);
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

/// The worst of inputs first, first + step, ... (bit patterns) below `end`. `run(x, y, n)` is the function under test.
template <class Run>
Worst sweep(const Function& f, uint64_t first, uint64_t end, uint64_t step, Run run) {
  constexpr size_t kChunk = 1 << 14;
  std::vector<float> x, y(kChunk);
  Worst worst;
  for (uint64_t bits = first; bits < end;) {
    x.clear();
    for (; bits < end && x.size() < kChunk; bits += step) x.push_back(from_bits(static_cast<uint32_t>(bits)));
    run(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) worst.take(ulps(y[i], f.reference(x[i])), x[i]);
  }
  return worst;
}

}  // namespace accuracy
