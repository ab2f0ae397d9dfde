// References for whole arrays, by glibc's vector functions where there are: within 4 units of the last place of f64,
// some 1e-8 of one of f32. Compiled with -ffast-math, which is how GCC gets to use them; nothing else may be in this
// file.
#include "accuracy_reference.h"

#include <cmath>
#include <cstring>

namespace accuracy {

namespace {

template <class F>
void all(const double* x, double* y, size_t n, F f) {
  for (size_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

struct Row {
  const char* name;
  References many;
};
#define ROW(f) {#f, [](const double* x, double* y, size_t n) { all(x, y, n, [](double v) { return std::f(v); }); }}
constexpr Row kRows[] = {ROW(exp),  ROW(exp2), ROW(expm1), ROW(log),   ROW(log2),  ROW(log10), ROW(log1p),
                         ROW(sin),  ROW(cos),  ROW(tan),   ROW(asin),  ROW(acos),  ROW(atan),  ROW(sinh),
                         ROW(cosh), ROW(tanh), ROW(asinh), ROW(acosh), ROW(atanh), ROW(erf),   ROW(erfc)};
#undef ROW

}  // namespace

References references(const char* name) {
  for (const Row& r : kRows)
    if (std::strcmp(r.name, name) == 0) return r.many;
  return nullptr;
}

}  // namespace accuracy
