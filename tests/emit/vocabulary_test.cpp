// Arithmetic, casts and memory access of emitted kernels against plain scalar rules, at both widths and in tails.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "emit/kernels.h"
#include "emit/loop_text.h"

namespace {

template <class T>
constexpr const char* kName = "";
template <>
constexpr const char* kName<int8_t> = "i8";
template <>
constexpr const char* kName<int16_t> = "i16";
template <>
constexpr const char* kName<int32_t> = "i32";
template <>
constexpr const char* kName<int64_t> = "i64";
template <>
constexpr const char* kName<uint8_t> = "u8";
template <>
constexpr const char* kName<float> = "f32";
template <>
constexpr const char* kName<double> = "f64";

const double kReals[] = {0.0,
                         -0.0,
                         INFINITY,
                         -INFINITY,
                         NAN,
                         1,
                         -1,
                         0.5,
                         -0.5,
                         1.5,
                         2.5,
                         -2.5,
                         6,
                         0.1,
                         0.2,
                         1 / 3.,
                         5.3,
                         -7,
                         3,
                         0.49999997,
                         8388607.5,
                         4503599627370495.5,
                         -0.3,
                         100.75,
                         255.9,
                         300,
                         -1.5,
                         0x1p31,
                         -0x1p31,
                         4294967301.0,
                         9.3e18,
                         1e30,
                         -9.3e18,
                         1e-3,
                         2147483647.0,
                         65535};
const int kIntegers[] = {0, 1, 2, 3, 5, 7, 8, 10, 15, 31, 63, 64, 100, -1, -2, -3, -7};

template <class T>
std::vector<T> interesting() {
  using limits = std::numeric_limits<T>;
  std::vector<T> v;
  if constexpr (std::is_floating_point_v<T>) {
    for (double x : kReals) v.push_back(static_cast<T>(x));
    for (T x : {limits::denorm_min(), -limits::denorm_min(), limits::max(), limits::lowest()}) v.push_back(x);
  } else {
    for (int x : kIntegers) v.push_back(static_cast<T>(x));
    for (T x : {limits::min(), limits::max(), T(limits::min() + 1), T(limits::max() - 1)}) v.push_back(x);
    std::mt19937_64 engine(5);
    for (int i = 0; i < 12; ++i) v.push_back(static_cast<T>(engine()));
  }
  return v;
}

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
  else
    return a == b;
}

void expect_none(const std::string& difference) { CHECK(difference == ""); }

/// Runs `name` at both widths over x (and y) and compares with `expected`.
template <class T, class R>
void compare(const Kernels& kernels, const std::string& name, const std::vector<T>& x, const std::vector<T>& y,
             const std::vector<R>& expected) {
  const int64_t n = static_cast<int64_t>(x.size());
  for (bool lanes : {true, false}) {
    std::vector<R> got(x.size() + 1, R(77));
    if (y.empty())
      kernels.get<void(const T*, R*, int64_t, bool)>(name)(x.data(), got.data(), n, lanes);
    else
      kernels.get<void(const T*, const T*, R*, int64_t, bool)>(name)(x.data(), y.data(), got.data(), n, lanes);
    std::string difference = got.back() == R(77) ? "" : name + " writes past the end";
    for (size_t i = 0; i < x.size() && difference.empty(); ++i)
      if (!same(got[i], expected[i]))
        difference = name + " of " + std::to_string(x[i]) + (y.empty() ? "" : ", " + std::to_string(y[i])) + " is " +
                     std::to_string(got[i]) + ", expected " + std::to_string(expected[i]);
    expect_none(difference);
  }
}

// ---- Rules, one element at a time ----

template <class T>
struct Op {
  const char* name;
  T (*rule)(T, T);
};
template <class T>
T wrap(__int128 v) {
  return static_cast<T>(static_cast<uint64_t>(v));
}

template <class T>
T floor_div(T a, T b) {
  const __int128 x = a, y = b;
  return b == 0 ? T(0) : wrap<T>((x - ((x % y + y) % y)) / y);
}
template <class T>
std::vector<Op<T>> integer_ops() {
  using I = __int128;
  constexpr int bits = 8 * sizeof(T);
  return {
      {"add", [](T a, T b) { return wrap<T>(I(a) + b); }},
      {"sub", [](T a, T b) { return wrap<T>(I(a) - b); }},
      {"mul", [](T a, T b) { return wrap<T>(I(a) * b); }},
      {"maximum", [](T a, T b) { return std::max(a, b); }},
      {"minimum", [](T a, T b) { return std::min(a, b); }},
      {"bitwise_and", [](T a, T b) { return T(a & b); }},
      {"bitwise_or", [](T a, T b) { return T(a | b); }},
      {"bitwise_xor", [](T a, T b) { return T(a ^ b); }},
      {"bitwise_left_shift", [](T a, T b) { return b < 0 || I(b) >= bits ? T(0) : wrap<T>(I(a) << b); }},
      {"bitwise_right_shift", [](T a, T b) { return wrap<T>(I(a) >> (b < 0 || I(b) > bits ? bits : int(b))); }},
      {"div_floor", [](T a, T b) { return wrap<T>(floor_div(a, b)); }},
      {"div_trunc", [](T a, T b) { return b == 0 ? T(0) : wrap<T>(I(a) / b); }},
      {"remainder", [](T a, T b) { return b == 0 ? T(0) : wrap<T>(I(a) - I(floor_div(a, b)) * b); }},
      {"fmod", [](T a, T b) { return b == 0 ? T(0) : wrap<T>(I(a) % b); }},
      {"pow",
       [](T a, T b) {
         if (b < 0) return a == 1 ? T(1) : a == T(-1) ? (b % 2 ? T(-1) : T(1)) : T(0);
         uint64_t r = 1, base = static_cast<uint64_t>(I(a));
         for (I e = b; e > 0; e /= 2, base *= base)
           if (e % 2) r *= base;
         return static_cast<T>(r);
       }},
  };
}
template <class T>
T larger(T a, T b) {
  return a > b ? a : b;
}
template <class T>
std::vector<Op<T>> float_ops() {
  return {
      {"add", [](T a, T b) { return a + b; }},
      {"sub", [](T a, T b) { return a - b; }},
      {"mul", [](T a, T b) { return a * b; }},
      {"div", [](T a, T b) { return a / b; }},
      {"maximum", [](T a, T b) { return std::isnan(a + b) && a != -b ? a + b : larger(a, b); }},
      {"minimum", [](T a, T b) { return std::isnan(a + b) && a != -b ? a + b : -larger(-a, -b); }},
      {"fmax", [](T a, T b) { return std::isnan(a) || a < b ? b : a; }},
      {"fmin", [](T a, T b) { return std::isnan(a) || b < a ? b : a; }},
      {"copysign", [](T a, T b) { return std::copysign(a, b); }},
      {"nextafter", [](T a, T b) { return std::nextafter(a, b); }},
      {"fmod", [](T a, T b) { return std::fmod(a, b); }},
      {"remainder",
       [](T a, T b) {
         const T m = std::fmod(a, b);
         return m != 0 && (b < 0) != (m < 0) ? m + b : m;
       }},
      {"div_trunc", [](T a, T b) { return std::trunc(a / b); }},
      {"div_floor",
       [](T a, T b) {  // the exact quotient decides, not the rounded one
         if (b == 0) return a / b;
         const T m = std::fmod(a, b);
         T q = (a - m) / b;
         if (m != 0 && (b < 0) != (m < 0)) q -= 1;
         if (q == 0) return std::copysign(T(0), a / b);
         const T f = std::floor(q);
         return q - f > T(0.5) ? f + 1 : f;
       }},
  };
}
template <class T>
std::vector<Op<T>> unary_ops() {
  std::vector<Op<T>> ops = {
      {"sign", [](T a, T) { return T((a > 0) - (a < 0)); }},
      {"relu", [](T a, T) { return a < 0 ? T(0) : a; }},
  };
  if constexpr (std::is_floating_point_v<T>) {
    ops.push_back({"neg", [](T a, T) { return -a; }});
    ops.push_back({"abs", [](T a, T) { return std::abs(a); }});
    ops.push_back({"floor", [](T a, T) { return std::floor(a); }});
    ops.push_back({"ceil", [](T a, T) { return std::ceil(a); }});
    ops.push_back({"trunc", [](T a, T) { return std::trunc(a); }});
    ops.push_back({"round", [](T a, T) { return std::nearbyint(a); }});
  } else {
    ops.push_back({"neg", [](T a, T) { return wrap<T>(-__int128(a)); }});
    ops.push_back({"abs", [](T a, T) { return a < 0 ? wrap<T>(-__int128(a)) : a; }});
    ops.push_back({"bitwise_not", [](T a, T) { return T(~a); }});
  }
  return ops;
}
template <class T>
std::vector<Op<T>> binary_ops() {
  if constexpr (std::is_floating_point_v<T>)
    return float_ops<T>();
  else
    return integer_ops<T>();
}
template <class T>
struct Comparison {
  const char* name;
  bool (*rule)(T, T);
};
template <class T>
std::vector<Comparison<T>> comparisons() {
  return {
      {"eq", [](T a, T b) { return a == b; }},
      {"ne", [](T a, T b) { return a != b; }},
      {"lt", [](T a, T b) { return a < b; }},
      {"le", [](T a, T b) { return a <= b; }},
      {"gt", [](T a, T b) { return a > b; }},
      {"ge", [](T a, T b) { return a >= b; }},
      {"logical_and", [](T a, T b) { return a != 0 && b != 0; }},
      {"logical_or", [](T a, T b) { return a != 0 || b != 0; }},
      {"logical_xor", [](T a, T b) { return (a != 0) != (b != 0); }},
      {"select_less", [](T a, T b) { return a < b; }},
  };
}

template <class T>
std::string op_text() {
  const std::string t = kName<T>;
  std::string text;
  for (const auto& op : binary_ops<T>())
    text += loop_text(std::string(op.name) + "_" + t, {t, t}, t, std::string(op.name) + "(v0, v1)");
  for (const auto& op : unary_ops<T>())
    text += loop_text(std::string(op.name) + "_" + t, {t}, t, std::string(op.name) + "(v0)");
  for (const auto& [name, rule] : comparisons<T>())
    text += loop_text(std::string(name) + "_" + t, {t, t}, "b8",
                      std::string(name) == "select_less" ? "eq(select(lt(v0, v1), splat<" + t + ", W>(1), splat<" + t +
                                                               ", W>(0)), splat<" + t + ", W>(1))"
                                                         : std::string(name) + "(v0, v1)");
  return text;
}
template <class T>
void check_ops(const Kernels& kernels) {
  const std::string t = kName<T>;
  std::vector<T> x, y;
  for (T a : interesting<T>())
    for (T b : interesting<T>()) x.push_back(a), y.push_back(b);
  const auto apply = [&](const auto& rule, auto result) {
    std::vector<decltype(result)> r(x.size());
    for (size_t i = 0; i < x.size(); ++i) r[i] = rule(x[i], y[i]);
    return r;
  };
  for (const auto& op : binary_ops<T>())
    compare<T, T>(kernels, std::string(op.name) + "_" + t, x, y, apply(op.rule, T()));
  for (const auto& op : unary_ops<T>())
    compare<T, T>(kernels, std::string(op.name) + "_" + t, x, {}, apply(op.rule, T()));
  for (const auto& [name, rule] : comparisons<T>())
    compare<T, uint8_t>(kernels, std::string(name) + "_" + t, x, y, apply(rule, uint8_t()));
}

/// What x86 makes of a float: the number towards zero, or the least integer of the instruction's width.
template <class To, class From>
To truncated(From x) {
  if constexpr (std::is_floating_point_v<From>) {
    const bool wide = sizeof(To) == 8 || (std::is_same_v<To, uint8_t> && std::is_same_v<From, double>);
    const double limit = wide ? 0x1p63 : 0x1p31, whole = std::trunc(static_cast<double>(x));
    return static_cast<To>(whole >= -limit && whole < limit ? static_cast<int64_t>(whole)
                                                            : static_cast<int64_t>(-limit));
  } else {
    return static_cast<To>(x);
  }
}
template <class From, class To>
void check_cast(const Kernels& kernels) {
  const auto x = interesting<From>();
  std::vector<To> expected;
  for (From v : x)
    if constexpr (std::is_floating_point_v<To>)
      expected.push_back(static_cast<To>(v));
    else
      expected.push_back(truncated<To>(v));
  compare<From, To>(kernels, std::string("cast_") + kName<From> + "_" + kName<To>, x, {}, expected);
}
template <class From>
void check_casts(const Kernels& kernels) {
  check_cast<From, int8_t>(kernels), check_cast<From, int16_t>(kernels), check_cast<From, int32_t>(kernels);
  check_cast<From, int64_t>(kernels), check_cast<From, uint8_t>(kernels), check_cast<From, float>(kernels),
      check_cast<From, double>(kernels);
  const auto x = interesting<From>();
  std::vector<uint8_t> expected;
  for (From v : x) expected.push_back(v != 0);
  compare<From, uint8_t>(kernels, std::string("cast_") + kName<From> + "_b8", x, {}, expected);
}

/// Nearest value with `digits` bits after the leading one and exponents from `least` on; ties to even.
float rounded(float x, int digits, int least, double overflow) {
  if (std::isnan(x) || std::isinf(x) || x == 0) return x;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(x), least) - digits), r = std::nearbyint(x / unit) * unit;
  return std::abs(r) >= overflow ? std::copysign(INFINITY, x) : static_cast<float>(std::copysign(r, x));
}

const Section& best() {
  static const Section section = sections().back();
  return section;
}

}  // namespace

TEST_CASE("arithmetic and comparisons follow ATen's rules for every dtype") {
  for (const std::string& compiler : compilers())
    for (const Section& section :
         compiler == "g++" ? std::vector<Section>{kBaseline, best()} : std::vector<Section>{best()}) {
      CAPTURE(section.name);
      CAPTURE(compiler);
      const Kernels kernels(section, compiler,
                            op_text<int8_t>() + op_text<int16_t>() + op_text<int32_t>() + op_text<int64_t>() +
                                op_text<uint8_t>() + op_text<float>() + op_text<double>(),
                            "-O2");
      CHECK(kernels.log == "");
      check_ops<int8_t>(kernels), check_ops<int16_t>(kernels), check_ops<int32_t>(kernels), check_ops<int64_t>(kernels);
      check_ops<uint8_t>(kernels), check_ops<float>(kernels), check_ops<double>(kernels);
    }
}

TEST_CASE("casts between all dtypes, out of range as x86") {
  const std::vector<std::string> names = {"i8", "i16", "i32", "i64", "u8", "f32", "f64"};
  std::string text;
  for (const auto& from : names)
    for (const std::string to : {"i8", "i16", "i32", "i64", "u8", "f32", "f64", "b8"})
      text += loop_text("cast_" + from + "_" + to, {from}, to, "cast<" + to + ", " + from + ">(v0)");
  for (const Section& section : {kBaseline, best()}) {
    CAPTURE(section.name);
    const Kernels kernels(section, "g++", text);
    check_casts<int8_t>(kernels), check_casts<int16_t>(kernels), check_casts<int32_t>(kernels),
        check_casts<int64_t>(kernels);
    check_casts<uint8_t>(kernels), check_casts<float>(kernels), check_casts<double>(kernels);
  }
}

TEST_CASE("halves: all values of memory widen exactly, f32 rounds to nearest even") {
  const std::string text =
      loop_text("widen_f16", {"f16"}, "f32", "v0") + loop_text("widen_bf16", {"bf16"}, "f32", "v0") +
      loop_text("narrow_f16", {"f32"}, "f16", "v0") + loop_text("narrow_bf16", {"f32"}, "bf16", "v0") +
      loop_text("round_f16", {"f32"}, "f32", "round_to<f16>(v0)") +
      loop_text("round_bf16", {"f32"}, "f32", "round_to<bf16>(v0)") +
      loop_text("floor_f16", {"f16", "f16"}, "f16", "div_floor<f16>(v0, v1)") +
      loop_text("next_bf16", {"bf16", "bf16"}, "bf16", "nextafter<bf16>(v0, v1)");
  for (const Section& section : {kBaseline, best()}) {
    CAPTURE(section.name);
    const Kernels kernels(section, "g++", text);
    std::vector<uint16_t> bits(65536);
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
    std::vector<float> f16, bf16;
    for (uint16_t b : bits) {
      const int exponent = b >> 10 & 31, fraction = b & 1023;
      const float size = exponent == 31
                             ? (fraction ? NAN : INFINITY)
                             : std::ldexp(exponent ? 1024.0f + fraction : fraction, (exponent ? exponent : 1) - 25);
      f16.push_back(b & 0x8000 ? -size : size);
      const uint32_t wide = uint32_t(b) << 16;
      float x;
      std::memcpy(&x, &wide, sizeof x);
      bf16.push_back(x);
    }
    compare<uint16_t, float>(kernels, "widen_f16", bits, {}, f16);
    compare<uint16_t, float>(kernels, "widen_bf16", bits, {}, bf16);

    std::mt19937 engine(11);
    std::vector<float> x = interesting<float>(), to_f16, to_bf16;
    for (float v : {65504.0f, 65519.0f, 65520.0f, 65536.0f, 5.96e-8f, 2.98e-8f, 2.99e-8f, 6.1e-5f, 6.09e-5f,
                    1.00048828125f, 1.00146484375f, 3.39e38f})
      x.push_back(v), x.push_back(-v);
    for (int i = 0; i < 20000; ++i) {
      const uint32_t b = static_cast<uint32_t>(engine());
      float v;
      std::memcpy(&v, &b, sizeof v);
      x.push_back(
          i % 2 ? v
                : std::ldexp(v / std::ldexp(1.0f, std::isfinite(v) && v != 0 ? std::ilogb(v) : 0), int(b % 40) - 25));
    }
    for (float v : x) to_f16.push_back(rounded(v, 10, -14, 65520)), to_bf16.push_back(rounded(v, 7, -126, 0x1p128));
    compare<float, float>(kernels, "round_f16", x, {}, to_f16);
    compare<float, float>(kernels, "round_bf16", x, {}, to_bf16);
    for (const char* name : {"f16", "bf16"}) {  // what a store keeps is what round_to gives
      std::vector<uint16_t> stored(x.size());
      std::vector<float> back(x.size());
      kernels.get<void(const float*, uint16_t*, int64_t, bool)>(std::string("narrow_") + name)(
          x.data(), stored.data(), static_cast<int64_t>(x.size()), true);
      kernels.get<void(const uint16_t*, float*, int64_t, bool)>(std::string("widen_") + name)(
          stored.data(), back.data(), static_cast<int64_t>(x.size()), true);
      const auto& expected = std::string(name) == "f16" ? to_f16 : to_bf16;
      for (size_t i = 0; i < x.size(); ++i) REQUIRE(same(back[i], expected[i]));
    }
    // 65504 // 24.796875 in f16: the quotient 2641.6 rounds to 2642 before floor; bf16 after 1 is 1 + 2^-7.
    compare<uint16_t, uint16_t>(kernels, "floor_f16", {0x7bff}, {0x4e33}, {0x6929});
    compare<uint16_t, uint16_t>(kernels, "next_bf16", {0x3f80, 0x3f80, 0x0000, 0x8000},
                                {0x4000, 0x0000, 0xbf80, 0x3f80}, {0x3f81, 0x3f7f, 0x8001, 0x0001});
  }
}

TEST_CASE("a * b + c is two roundings in kernels, fma() one where the CPU has it") {
  const std::string text = loop_text("separate", {"f32", "f32", "f32"}, "f32", "add(mul(v0, v1), v2)") +
                           loop_text("in_lambda", {"f32", "f32", "f32"}, "f32",
                                     "[](auto a, auto b, auto c) { return a * b + c; }(v0, v1, v2)") +
                           loop_text("fused", {"f32", "f32", "f32"}, "f32", "fma(v0, v1, v2)") +
                           "extern \"C\" f32 scalars(f32 a, f32 b, f32 c) { return a * b + c; }";
  using Ternary = void(const float*, const float*, const float*, float*, int64_t, bool);
  for (const std::string& compiler : compilers()) {
    const Kernels kernels(kAvx2, compiler, text);
    if (std::string(best().name) == "baseline") continue;
    const std::vector<float> a(19, 1 + 0x1p-12f), c(19, -(1 + 0x1p-11f));
    std::vector<float> y(19);
    for (bool lanes : {true, false}) {
      for (const char* name : {"separate", "in_lambda"}) {
        kernels.get<Ternary>(name)(a.data(), a.data(), c.data(), y.data(), 19, lanes);
        for (float v : y) CHECK(v == 0);
      }
      kernels.get<Ternary>("fused")(a.data(), a.data(), c.data(), y.data(), 19, lanes);
      for (float v : y) CHECK(v == 0x1p-24f);
    }
    CHECK(kernels.get<float(float, float, float)>("scalars")(a[0], a[0], c[0]) == 0);
  }
}

TEST_CASE("memory: parts of vectors, strides, indices, numbers") {
  const std::string text = R"(
template <class T> static void parts(const T* x, T* y, int len) { store<T>(y, load<T, LANES>(x, len, 3), len); }
extern "C" void parts_f32(const f32* x, f32* y, int len) { parts(x, y, len); }
extern "C" void parts_f64(const f64* x, f64* y, int len) { parts(x, y, len); }
extern "C" void parts_i8(const i8* x, i8* y, int len) { parts(x, y, len); }
extern "C" f32 filled(const f32* x, int len) { return sum(load<f32, LANES>(x, len, 3)); }
extern "C" void strided(const f32* x, f32* y, int len) { store_strided<f32>(y, 3, load_strided<f32, LANES>(x, -2, len), len); }
extern "C" void at(const f32* x, f32* y, int len) { store<f32>(y, load_at<f32, LANES>(x, iota<i64, LANES>(10, -1), len), len); }
extern "C" void numbers(f32* y) {
  constexpr int W = LANES;
  store<f32>(y, splat<f32, W>(-0.0f));
  store<f32>(y + W, splat<bf16, W>(0.2f));
  store<f32>(y + 2 * W, cast<f32, b8>(splat<b8, W>(true)));
  store<f32>(y + 3 * W, iota<f32, W>(0.5f, 2));
}
extern "C" void folds(const f32* x, f32* y) {
  const auto v = load<f32, LANES>(x);
  y[0] = sum(v), y[1] = prod(v), y[2] = amax(v), y[3] = amin(v), y[4] = any(isnan(v)), y[5] = all(isnan(v));
}
extern "C" int lanes() { return LANES; }
)";
  for (const std::string& compiler : compilers())
    for (const Section& section : {kBaseline, best()}) {
      CAPTURE(section.name);
      CAPTURE(compiler);
      const Kernels kernels(section, compiler, text);
      CHECK(kernels.log == "");
      const int lanes = kernels.get<int()>("lanes")();
      REQUIRE(lanes == section.vector_bytes / 4);
      const auto parts = [&](auto value, const char* name) {
        using T = decltype(value);
        for (int len = 1; len <= lanes; ++len) {
          std::vector<T> x(len), y(lanes + 2, T(-7));  // x ends where the part does
          for (int i = 0; i < len; ++i) x[i] = T(i + 1);
          kernels.get<void(const T*, T*, int)>(name)(x.data(), y.data(), len);
          for (int i = 0; i < lanes + 2; ++i) REQUIRE(y[i] == (i < len ? T(i + 1) : T(-7)));
        }
      };
      parts(float(), "parts_f32"), parts(double(), "parts_f64"), parts(int8_t(), "parts_i8");
      std::vector<float> x(40), y(64, -7.0f);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
      CHECK(kernels.get<float(const float*, int)>("filled")(x.data(), 2) == 1 + 3 * (lanes - 2));
      kernels.get<void(const float*, float*, int)>("strided")(x.data() + 35, y.data(), 3);
      for (int i = 0; i < 64; ++i) CHECK(y[i] == (i == 0 ? 35 : i == 3 ? 33 : i == 6 ? 31 : -7));
      kernels.get<void(const float*, float*, int)>("at")(x.data(), y.data(), 3);
      CHECK((y[0] == 10 && y[1] == 9 && y[2] == 8 && y[3] == 33));
      std::vector<float> numbers(4 * lanes);
      kernels.get<void(float*)>("numbers")(numbers.data());
      for (int i = 0; i < lanes; ++i) {
        CHECK((numbers[i] == 0 && std::signbit(numbers[i])));
        CHECK(numbers[lanes + i] == 0.2001953125f);
        CHECK(numbers[2 * lanes + i] == 1);
        CHECK(numbers[3 * lanes + i] == 0.5f + 2 * i);
      }
      std::vector<float> v(lanes, 2.0f), f(6);
      v[lanes - 1] = -3, v[0] = 5;
      const auto folds = kernels.get<void(const float*, float*)>("folds");
      folds(v.data(), f.data());
      CHECK((f[0] == 2 + 2 * (lanes - 2) && f[1] == -15 * std::ldexp(1.0f, lanes - 2) && f[2] == 5 && f[3] == -3 &&
             f[4] == 0 && f[5] == 0));
      for (int at = 0; at < lanes; ++at) {
        auto w = v;
        w[at] = NAN;
        folds(w.data(), f.data());
        CHECK((std::isnan(f[2]) && std::isnan(f[3]) && f[4] == 1 && f[5] == 0));
      }
    }
}
