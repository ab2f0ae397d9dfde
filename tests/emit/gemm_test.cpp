#include "emit/gemm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "emit/kernels.h"

namespace emit = precast::emit;
using precast::ir::Dtype;

namespace {

template <class T>
constexpr Dtype kDtype = std::is_same_v<T, double> ? Dtype::f64 : Dtype::f32;
template <class T>
constexpr const char* kName = std::is_same_v<T, double> ? "f64" : "f32";

/// A product of plain operands; `ta` stores A as [K, M], `tb` stores B as [N, K] (weights of a linear layer).
struct Case {
  int64_t batch, M, N, K;
  bool ta, tb, shared_a, shared_b, prepacked;
};

template <class T>
emit::GemmSpec spec_of(const Case& c, const std::string& name) {
  emit::GemmSpec s;
  s.name = name;
  const std::string pointer = std::string("const ") + kName<T> + "*";
  s.params = {{pointer, "p0"}, {pointer, "p1"}, {std::string(kName<T>) + "*", "p2"}};
  s.batch = {c.batch}, s.M = {c.M}, s.N = c.N, s.K = {c.K};
  s.dtype = s.a.dtype = s.b.dtype = kDtype<T>;
  s.a.pointer = "p0", s.b.pointer = "p1";
  s.a.batch_strides = {c.shared_a ? 0 : c.M * c.K}, s.b.batch_strides = {c.shared_b ? 0 : c.K * c.N};
  s.a.i_strides = {c.ta ? 1 : c.K}, s.a.k_strides = {c.ta ? c.M : 1};
  s.b.i_strides = {c.tb ? c.K : 1}, s.b.k_strides = {c.tb ? 1 : c.N};
  s.epilogue = "store<" + std::string(kName<T>) + ">(p2 + (b * " + std::to_string(c.M) + " + m) * " +
               std::to_string(c.N) + " + n, acc, len);";
  return s;
}

template <class T>
using Kernel = void(const precast_host*, char*, const T*, const T*, T*);
template <class T>
using Packer = void(const precast_host*, T*, const T*, const T*, T*);

/// Text of a kernel and an extern "C" way to it.
std::string exported(const emit::GemmSpec& s, const char* type) {
  const std::string t = type, args = "const " + t + "* a, const " + t + "* b, " + t + "* c";
  return emit::gemm_kernel(s) + "extern \"C\" void run_" + s.name + "(const precast_host* h, char* w, " + args +
         ") { " + s.name + "(h, w, a, b, c); }\n";
}
std::string exported_pack(const emit::GemmSpec& s, const char* type) {
  const std::string t = type, args = t + "* to, const " + t + "* a, const " + t + "* b, " + t + "* c";
  return emit::gemm_pack(s) + "extern \"C\" void pack_" + s.name + "(const precast_host* h, " + args + ") { " + s.name +
         "_pack(h, to, a, b, c); }\n";
}

template <class T>
std::vector<T> random_values(size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<T> uniform(-1, 1);
  std::vector<T> v(n);
  for (T& x : v) x = uniform(engine);
  return v;
}

/// Memory as the host gives it: aligned, filled with what must not matter.
struct Workspace {
  explicit Workspace(int64_t bytes) : data(static_cast<char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64))) {
    std::memset(data, 0xff, bytes);
  }
  ~Workspace() { std::free(data); }
  char* data;
};

template <class T>
void check(const Case& c, const emit::GemmSpec& s, const Kernels& kernels) {
  CAPTURE(c.batch);
  CAPTURE(c.M);
  CAPTURE(c.N);
  CAPTURE(c.K);
  CAPTURE(c.ta);
  CAPTURE(c.tb);
  CAPTURE(c.prepacked);
  CAPTURE(c.shared_a);
  CAPTURE(c.shared_b);
  const auto a = random_values<T>((c.shared_a ? 1 : c.batch) * c.M * c.K, 1),
             b = random_values<T>((c.shared_b ? 1 : c.batch) * c.K * c.N, 2);
  const size_t size = c.batch * c.M * c.N, guard = 64;
  std::vector<T> first;
  for (int threads : {1, 3}) {
    ThreadHost host(threads);
    std::vector<T> out(size + guard, T(-77));
    Workspace work(emit::gemm_workspace_bytes(s)), packed(emit::gemm_packed_bytes(s));
    const T* operand = b.data();
    if (c.prepacked) {
      kernels.get<Packer<T>>("pack_" + s.name)(&host, reinterpret_cast<T*>(packed.data), nullptr, b.data(), nullptr);
      operand = reinterpret_cast<const T*>(packed.data);
    }
    kernels.get<Kernel<T>>("run_" + s.name)(&host, work.data, a.data(), operand, out.data());
    for (size_t i = size; i < size + guard; ++i) REQUIRE(out[i] == T(-77));
    if (threads == 1) first = out;
    REQUIRE(std::memcmp(first.data(), out.data(), size * sizeof(T)) == 0);
  }
  const double unit = std::numeric_limits<T>::epsilon() * (4 + std::sqrt(double(c.K)));
  for (int64_t i = 0; i < c.batch; ++i)
    for (int64_t m = 0; m < c.M; ++m)
      for (int64_t n = 0; n < c.N; ++n) {
        double sum = 0, size_sum = 0;
        for (int64_t k = 0; k < c.K; ++k) {
          const double x = a[(c.shared_a ? 0 : i) * c.M * c.K + (c.ta ? k * c.M + m : m * c.K + k)];
          const double y = b[(c.shared_b ? 0 : i) * c.K * c.N + (c.tb ? n * c.K + k : k * c.N + n)];
          sum += x * y, size_sum += std::abs(x * y);
        }
        const double got = first[(i * c.M + m) * c.N + n];
        if (!(std::abs(got - sum) <= unit * size_sum)) {
          CAPTURE(i);
          CAPTURE(m);
          CAPTURE(n);
          REQUIRE(got == doctest::Approx(sum));
        }
      }
}

template <class T>
void check_all(const std::vector<Case>& cases, const Section& section, const std::string& compiler) {
  CAPTURE(section.name);
  CAPTURE(compiler);
  std::string text;
  std::vector<emit::GemmSpec> specs;
  for (const Case& c : cases) {
    emit::GemmSpec s = spec_of<T>(c, "k" + std::to_string(specs.size()));
    if (c.prepacked) {
      text += exported_pack(s, kName<T>);
      s.b.packed = true;
    }
    text += exported(s, kName<T>);
    specs.push_back(s);
  }
  const Kernels kernels(section, compiler, text);
  CHECK(kernels.log == "");
  for (size_t i = 0; i < cases.size(); ++i) check<T>(cases[i], specs[i], kernels);
}

const int64_t kSizes[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 255};

/// Sizes drawn so that each appears as M, as N and as K, in each of the four forms.
std::vector<Case> drawn(int count, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    auto pick = [&] { return kSizes[engine() % std::size(kSizes)]; };
    const bool batched = i % 3 == 0;
    cases.push_back({batched ? 3 : 1, pick(), pick(), pick(), i % 2 != 0, i / 2 % 2 != 0, batched && i % 2 == 0,
                     batched && i % 4 == 3, i % 5 == 4});
  }
  return cases;
}

}  // namespace

TEST_CASE("a product equals the sums in double, for odd sizes, all four forms, batches and any thread count") {
  for (const Section& section : sections()) check_all<float>(drawn(40, 7), section, "g++");
  check_all<double>(drawn(24, 8), sections().back(), "g++");
  for (const std::string& compiler : compilers())
    if (compiler != "g++") check_all<float>(drawn(24, 9), sections().back(), compiler);
}

TEST_CASE("large products: blocks of K, of rows and of columns") {
  std::vector<Case> cases;
  for (bool ta : {false, true})
    for (bool tb : {false, true}) cases.push_back({1, 203, 301, 1601, ta, tb, false, false, false});
  cases.push_back({1, 128, 256, 1024, false, true, false, false, true});
  cases.push_back({2, 200, 1000, 40, false, false, false, true, false});
  check_all<float>(cases, sections().back(), "g++");
}

TEST_CASE("empty products: K = 0 gives zeros, other empty sizes nothing") {
  check_all<float>({{2, 5, 19, 0, false, false, false, false, false},
                    {1, 5, 19, 0, false, true, false, false, true},
                    {1, 3, 4, 0, true, true, false, false, false},
                    {1, 0, 19, 4, false, true, false, false, false},
                    {1, 5, 0, 4, false, true, false, false, false},
                    {0, 5, 7, 4, false, true, false, false, false}},
                   sections().back(), "g++");
}

TEST_CASE("prologues in either direction, half weights, and an epilogue with bias, residual and two outputs") {
  // y = relu(2 a . b + bias) + residual, z = 2 a . b; a is scaled where it is read, b is bf16.
  for (const Section& section : sections())
    for (bool a_along_k : {true, false})
      for (bool b_along_k : {true, false}) {
        const int64_t M = 23, N = 37, K = 41;
        emit::GemmSpec s;
        s.name = "fused";
        s.params = {{"const f32*", "p0"},   {"const bf16*", "p1"}, {"const f32*", "bias"},
                    {"const f32*", "rest"}, {"f32*", "y"},         {"f32*", "z"}};
        s.M = {M}, s.N = N, s.K = {K};
        s.a.fetch = a_along_k ? "return mul(load<f32, W>(p0 + i * 41 + k, len), splat<f32, W>(2));"
                              : "return mul(load_strided<f32, W>(p0 + i * 41 + k, 41, len), splat<f32, W>(2));";
        s.a.along_k = a_along_k;
        s.b.pointer = "p1", s.b.dtype = Dtype::bf16;
        s.b.i_strides = {b_along_k ? K : 1}, s.b.k_strides = {b_along_k ? 1 : N};
        s.epilogue =
            "const auto t = relu(add(acc, load<f32, W>(bias + n, len)));\n"
            "store<f32>(y + m * 37 + n, add(t, load<f32, W>(rest + m * 37 + n, len)), len);\n"
            "store<f32>(z + m * 37 + n, acc, len);";
        const std::string text = emit::gemm_kernel(s) +
                                 "extern \"C\" void run(const precast_host* h, char* w, const f32* a, const bf16* b, "
                                 "const f32* c, const f32* d, f32* y, f32* z) "
                                 "{ fused(h, w, a, b, c, d, y, z); }";
        const Kernels kernels(section, "g++", text);
        CHECK(kernels.log == "");
        const auto a = random_values<float>(M * K, 1), b = random_values<float>(N * K, 2),
                   bias = random_values<float>(N, 3), rest = random_values<float>(M * N, 4);
        std::vector<uint16_t> half(b.size());
        std::vector<float> rounded(b.size());
        for (size_t i = 0; i < b.size(); ++i) {  // keep the upper half of the bits: already a bf16 value
          uint32_t bits;
          std::memcpy(&bits, &b[i], 4);
          half[i] = static_cast<uint16_t>(bits >> 16);
          bits &= 0xffff0000u;
          std::memcpy(&rounded[i], &bits, 4);
        }
        std::vector<float> y(M * N), z(M * N);
        Workspace work(emit::gemm_workspace_bytes(s));
        ThreadHost host(2);
        kernels.get<void(const precast_host*, char*, const float*, const uint16_t*, const float*, const float*, float*,
                         float*)>("run")(&host, work.data, a.data(), half.data(), bias.data(), rest.data(), y.data(),
                                         z.data());
        for (int64_t m = 0; m < M; ++m)
          for (int64_t n = 0; n < N; ++n) {
            double sum = 0;
            for (int64_t k = 0; k < K; ++k) sum += 2.0 * a[m * K + k] * rounded[b_along_k ? n * K + k : k * N + n];
            REQUIRE(z[m * N + n] == doctest::Approx(sum).epsilon(1e-5));
            REQUIRE(y[m * N + n] == doctest::Approx(std::max(0.0, sum + bias[n]) + rest[m * N + n]).epsilon(1e-5));
          }
      }
}

TEST_CASE("NaN and infinity stay in their row or column") {
  std::vector<Case> cases = {
      {1, 13, 21, 19, false, false, false, false, false}, {1, 13, 21, 19, false, true, false, false, false},
      {1, 3, 21, 19, false, true, false, false, false},   {1, 13, 21, 19, true, true, false, false, false},
      {1, 20, 2, 19, false, true, false, false, false},   {1, 2, 21, 19, false, false, false, false, false}};
  std::string text;
  std::vector<emit::GemmSpec> specs;
  for (const Case& c : cases)
    specs.push_back(spec_of<float>(c, "k" + std::to_string(specs.size()))), text += exported(specs.back(), "f32");
  const Kernels kernels(sections().back(), "g++", text);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    CAPTURE(i);
    auto a = random_values<float>(c.M * c.K, 1), b = random_values<float>(c.K * c.N, 2);
    for (float& x : b) x = std::abs(x) + 0.5f;
    const int64_t row = c.M - 1, column = c.N - 1;
    for (int64_t k = 0; k < c.K; ++k) {  // the last row of A holds an infinity, the last column of B a NaN
      a[c.ta ? k * c.M + row : row * c.K + k] = k == 7 ? INFINITY : 1;
      if (k == 5) b[c.tb ? column * c.K + k : k * c.N + column] = NAN;
    }
    Workspace work(emit::gemm_workspace_bytes(specs[i]));
    std::vector<float> out(c.M * c.N);
    ThreadHost host(1);
    kernels.get<Kernel<float>>("run_" + specs[i].name)(&host, work.data, a.data(), b.data(), out.data());
    for (int64_t m = 0; m < c.M; ++m)
      for (int64_t n = 0; n < c.N; ++n) {
        const float x = out[m * c.N + n];
        if (n == column)
          CHECK(std::isnan(x));
        else if (m == row)
          CHECK(x == INFINITY);
        else
          CHECK(std::isfinite(x));
      }
  }
}
