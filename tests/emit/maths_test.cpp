// The emitted f32 functions stay within their stated error, at every width, on every section and compiler.
#include <doctest/doctest.h>

#include <random>

#include "../tools/accuracy.h"
#include "emit/kernels.h"
#include "emit/loop_text.h"

namespace {

using Unary = void(const float*, float*, int64_t, bool);
using Binary = void(const float*, const float*, float*, int64_t, bool);

struct BinaryFunction {
  const char* name;
  double (*reference)(double, double);
  double limit;
};
const BinaryFunction kBinary[] = {
    {"pow", std::pow, 0.51}, {"atan2", std::atan2, 0.51},    {"hypot", std::hypot, 0.51},
    {"fmod", std::fmod, 0},  {"copysign", std::copysign, 0}, {"div", [](double x, double y) { return x / y; }, 0.5},
};

const float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
const float kSpecial[] = {0.0f,        -0.0f,       kInf,    -kInf,    kNan,       1.0f,      -1.0f,   0.5f,
                          -0.5f,       1e-45f,      -1e-45f, 1.2e-38f, 88.72f,     88.73f,    -103.9f, -104.1f,
                          127.999f,    128.0f,      -149.0f, -150.1f,  2.0f,       3.0f,      -2.0f,   -3.0f,
                          2.5f,        0.6f,        1e5f,    100001.f, 8388607.5f, 8388609.f, 3.4e38f, -3.4e38f,
                          3.14159265f, 1.57079633f, 1e30f,   -0.75f};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void check(const Section& section, const std::string& compiler) {
  CAPTURE(section.name);
  CAPTURE(compiler);
  std::string text;
  for (const auto& f : accuracy::functions())
    text += loop_text(std::string("run_") + f.name, {"f32"}, "f32", std::string(f.name) + "(v0)");
  for (const auto& f : kBinary)
    text += loop_text(std::string("run_") + f.name, {"f32", "f32"}, "f32", std::string(f.name) + "(v0, v1)");
  const Kernels kernels(section, compiler, text);
  CHECK(kernels.log == "");

  std::mt19937 engine(3);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> x(std::begin(kSpecial), std::end(kSpecial));
  for (int i = 0; i < 6000; ++i) {
    x.push_back(accuracy::from_bits(engine()));
    x.push_back(normal(engine));
    x.push_back(normal(engine) * 20);
  }
  x.push_back(0.25f);  // a tail
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<float> y(x.size()), one(x.size());
  for (const auto& f : accuracy::functions()) {
    CAPTURE(f.name);
    const auto run = kernels.get<Unary>(std::string("run_") + f.name);
    run(x.data(), y.data(), n, true);
    run(x.data(), one.data(), n, false);
    CHECK(same_bits(y, one));
    accuracy::Worst worst;
    for (size_t i = 0; i < x.size(); ++i) {
      worst.take(accuracy::ulps(y[i], f.reference(x[i])), x[i]);
      if (x[i] == 0 && f.reference(x[i]) == 0) CHECK(std::signbit(y[i]) == std::signbit(f.reference(x[i])));
    }
    CAPTURE(worst.at);
    CHECK(worst.ulp <= f.limit);
  }
  std::vector<float> a, b;
  for (float p : kSpecial)
    for (float q : kSpecial) a.push_back(p), b.push_back(q);
  for (int i = 0; i < 4000; ++i) a.push_back(std::abs(normal(engine))), b.push_back(normal(engine) * 10);
  for (int i = 0; i < 2000; ++i) a.push_back(accuracy::from_bits(engine())), b.push_back(accuracy::from_bits(engine()));
  y.resize(a.size()), one.resize(a.size());
  for (const auto& f : kBinary) {
    CAPTURE(f.name);
    const auto run = kernels.get<Binary>(std::string("run_") + f.name);
    run(a.data(), b.data(), y.data(), static_cast<int64_t>(a.size()), true);
    run(a.data(), b.data(), one.data(), static_cast<int64_t>(a.size()), false);
    CHECK(same_bits(y, one));
    for (size_t i = 0; i < a.size(); ++i) {
      const double exact = f.reference(a[i], b[i]);
      if (accuracy::ulps(y[i], exact) > f.limit || (exact == 0 && std::signbit(exact) != std::signbit(y[i]))) {
        CAPTURE(a[i]);
        CAPTURE(b[i]);
        CAPTURE(y[i]);
        CHECK(y[i] == exact);
        break;
      }
    }
  }
}

}  // namespace

TEST_CASE("vector maths: error, edges, and the same bits at every width") {
  for (const Section& section : sections()) check(section, "g++");
  for (const std::string& compiler : compilers())
    if (compiler != "g++") check(sections().back(), compiler);
}

TEST_CASE("functions without a reference in the standard library") {
  const Kernels kernels(sections().back(), "g++",
                        loop_text("run_erfinv", {"f64"}, "f64", "erfinv(v0)") +
                            loop_text("run_digamma", {"f64"}, "f64", "digamma(v0)") +
                            loop_text("run_lgamma", {"f32"}, "f32", "lgamma(v0)"));
  using Wide = void(const double*, double*, int64_t, bool);
  const std::vector<double> x = {-1, -0.999999, -0.5, -1e-9, 0, 1e-300, 0.3, 0.7, 0.99, 1 - 1e-12, 1, 1.5};
  std::vector<double> y(x.size());
  kernels.get<Wide>("run_erfinv")(x.data(), y.data(), static_cast<int64_t>(x.size()), true);
  for (size_t i = 1; i + 2 < x.size(); ++i) CHECK(std::erf(y[i]) == doctest::Approx(x[i]).epsilon(1e-15));
  CHECK((y[0] == -INFINITY && y[10] == INFINITY && std::isnan(y[11])));

  // psi(1) = -gamma, psi(1/2) = -gamma - 2 ln 2, psi(x + 1) = psi(x) + 1 / x, psi(1 - x) = psi(x) + pi cot(pi x)
  const double gamma = 0.57721566490153286061, pi = 3.14159265358979323846;
  const std::vector<double> p = {1, 0.5, 3.25, 4.25, 0.3, 0.7, 0, -3, 20, 21};
  std::vector<double> q(p.size());
  kernels.get<Wide>("run_digamma")(p.data(), q.data(), static_cast<int64_t>(p.size()), true);
  CHECK(q[0] == doctest::Approx(-gamma).epsilon(1e-14));
  CHECK(q[1] == doctest::Approx(-gamma - 2 * std::log(2.0)).epsilon(1e-14));
  CHECK(q[3] == doctest::Approx(q[2] + 1 / 3.25).epsilon(1e-14));
  CHECK(q[5] == doctest::Approx(q[4] + pi / std::tan(pi * 0.3)).epsilon(1e-13));
  CHECK((q[6] == -INFINITY && std::isnan(q[7])));
  CHECK(q[9] == doctest::Approx(q[8] + 1 / 20.0).epsilon(1e-14));

  const std::vector<float> g = {0.5f, 1, 2, 3.5f, 100, 0, -1, kInf, 4.08500311e36f, 4.08500343e36f};
  std::vector<float> l(g.size());
  kernels.get<Unary>("run_lgamma")(g.data(), l.data(), static_cast<int64_t>(g.size()), true);
  for (size_t i = 0; i < g.size(); ++i) CHECK(l[i] == static_cast<float>(std::lgamma(static_cast<double>(g[i]))));
}
