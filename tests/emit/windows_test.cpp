// Products whose rows, depth and batch run over several variables, as convolutions and their gradients make them.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "emit/gemm.h"
#include "emit/kernels.h"

namespace emit = precast::emit;

namespace {

/// Any product: sizes and strides by variable; A, B and C start at these elements of their arrays.
struct Case {
  std::string what;
  std::vector<int64_t> batch, M, K;
  int64_t N;
  std::vector<int64_t> a_batch, a_m, a_k;
  std::vector<int64_t> b_batch, b_k;
  int64_t b_n;
  int64_t b_start = 0;
};

/// Random numbers that end where memory does: a read behind them is a fault.
class Values {
 public:
  Values(int64_t n, unsigned seed) {
    constexpr size_t kPage = 4096;
    const size_t bytes = n * sizeof(float), pages = (bytes + kPage - 1) / kPage;
    size_ = (pages + 1) * kPage;
    memory_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory_ != MAP_FAILED);
    REQUIRE(mprotect(memory_ + pages * kPage, kPage, PROT_NONE) == 0);
    data_ = reinterpret_cast<float*>(memory_ + pages * kPage - bytes);
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < n; ++i) data_[i] = uniform(engine);
  }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;
  ~Values() { munmap(memory_, size_); }
  const float* data() const { return data_; }
  float operator[](int64_t i) const { return data_[i]; }

 private:
  char* memory_;
  size_t size_;
  float* data_;
};

int64_t count(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return n;
}
/// Where element `i` of the variables stands.
int64_t place(int64_t i, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t at = 0;
  for (size_t v = sizes.size(); v-- > 0; i /= sizes[v]) at += i % sizes[v] * strides[v];
  return at;
}
/// One past the largest index that the strides reach.
int64_t reach(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t n = 0;
  for (size_t v = 0; v < sizes.size(); ++v) n += std::max<int64_t>(strides[v], 0) * (sizes[v] - 1);
  return n;
}

emit::GemmSpec spec_of(const Case& c, const std::string& name) {
  emit::GemmSpec s;
  s.name = name;
  s.params = {{"const f32*", "p0"}, {"const f32*", "p1"}, {"f32*", "p2"}};
  s.batch = precast::ir::sizes(c.batch), s.M = precast::ir::sizes(c.M), s.N = c.N, s.K = precast::ir::sizes(c.K);
  s.a.pointer = "p0", s.b.pointer = "p1 + " + std::to_string(c.b_start);
  s.a.batch_strides = precast::ir::sizes(c.a_batch), s.a.i_strides = precast::ir::sizes(c.a_m),
  s.a.k_strides = precast::ir::sizes(c.a_k);
  s.b.batch_strides = precast::ir::sizes(c.b_batch), s.b.i_strides = {c.b_n}, s.b.k_strides = precast::ir::sizes(c.b_k);
  s.epilogue =
      "store<f32>(p2 + (b * " + std::to_string(count(c.M)) + " + m) * " + std::to_string(c.N) + " + n, acc, len);";
  return s;
}

/// A convolution of a bordered image [n, h, w, c] with weights [o, c, k, k] of a group.
Case convolution(int64_t n, int64_t out, int64_t c, int64_t o, int64_t k, int64_t stride, int64_t dilation = 1,
                 int64_t groups = 1) {
  const int64_t size = (out - 1) * stride + (k - 1) * dilation + 1, all = c * groups, line = size * all;
  return {"convolution",
          {groups},
          {n, out, out},
          {k, k, c},
          o,
          {c},
          {size * line, line * stride, all * stride},
          {line * dilation, all * dilation, 1},
          {o * c * k * k},
          {k, 1, k * k},
          c * k * k};
}
/// The gradient of its input: the kernel is turned around.
Case turned(int64_t n, int64_t out, int64_t c, int64_t o, int64_t k) {
  Case x = convolution(n, out, o, c, k, 1);
  x.what = "turned kernel";
  x.b_k = {-k, -1, c * k * k}, x.b_n = k * k, x.b_batch = {0}, x.b_start = k * k - 1;
  return x;
}
/// The gradient of its weights: rows are taps and channels, the sum runs over the places.
Case weights(int64_t n, int64_t out, int64_t c, int64_t o, int64_t k, int64_t stride) {
  const Case x = convolution(n, out, c, o, k, stride);
  return {"weights", {1}, x.K, x.M, o, {0}, x.a_k, x.a_m, {0}, {out * out * o, out * o, o}, 1};
}

void check(const Case& c, const emit::GemmSpec& s, const Kernels& kernels) {
  CAPTURE(c.what);
  CAPTURE(s.name);
  const int64_t M = count(c.M), K = count(c.K), batch = count(c.batch);
  const Values a(reach(c.batch, c.a_batch) + reach(c.M, c.a_m) + reach(c.K, c.a_k) + 1, 1),
      b(c.b_start + reach(c.batch, c.b_batch) + reach(c.K, c.b_k) + c.b_n * (c.N - 1) + 1, 2);
  std::vector<float> first;
  for (const int threads : {1, 3}) {
    ThreadHost host(threads);
    std::vector<float> out(batch * M * c.N + 16, -77.f);
    std::vector<char> memory(emit::gemm_workspace_bytes(s) + 128, '\x7f');
    char* work = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    kernels.get<void(const precast_host*, char*, const float*, const float*, float*)>("run_" + s.name)(
        &host, work, a.data(), b.data(), out.data());
    REQUIRE(out[batch * M * c.N] == -77.f);
    if (threads == 1) first = out;
    REQUIRE(std::memcmp(first.data(), out.data(), out.size() * sizeof(float)) == 0);
  }
  const double unit = std::numeric_limits<float>::epsilon() * (4 + std::sqrt(static_cast<double>(K)));
  for (int64_t i = 0; i < batch; ++i)
    for (int64_t m = 0; m < M; ++m)
      for (int64_t n = 0; n < c.N; ++n) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < K; ++k) {
          const double x =
              a[place(i, c.batch, c.a_batch) + place(m, c.M, c.a_m) + place(k, c.K, c.a_k)] *
              static_cast<double>(b[c.b_start + place(i, c.batch, c.b_batch) + place(k, c.K, c.b_k) + n * c.b_n]);
          sum += x, size += std::abs(x);
        }
        const double got = first[(i * M + m) * c.N + n];
        if (!(std::abs(got - sum) <= unit * size)) REQUIRE(got == doctest::Approx(sum));
      }
}

}  // namespace

TEST_CASE("products over several variables: windows, their gradients, groups") {
  const std::vector<Case> cases = {
      convolution(2, 7, 40, 37, 3, 1),        // runs of 7 rows: two make a tile
      convolution(1, 7, 64, 256, 3, 1),       // few rows: panels are packed where they are used
      convolution(2, 14, 3, 20, 7, 2),        // short runs along the depth, several at once
      convolution(1, 5, 33, 40, 3, 1, 2),     // dilated: nothing merges
      convolution(3, 20, 8, 70, 1, 1),        // 1x1: everything merges
      convolution(2, 9, 16, 33, 3, 2),        // runs that fit no tile: A is copied
      convolution(1, 12, 520, 33, 2, 1),      // long runs are cut
      convolution(2, 6, 12, 20, 3, 1, 1, 4),  // groups
      convolution(1, 1, 4, 9, 3, 1),          // one row
      turned(2, 7, 19, 24, 3),
      turned(1, 14, 48, 40, 3),
      weights(2, 7, 33, 40, 3, 1),
      weights(1, 14, 3, 64, 5, 2),
      weights(3, 4, 16, 16, 1, 1),
  };
  for (const Section& section : sections()) {
    CAPTURE(section.name);
    std::string text;
    std::vector<emit::GemmSpec> specs;
    for (const Case& c : cases) {
      specs.push_back(spec_of(c, "k" + std::to_string(specs.size())));
      text += emit::gemm_kernel(specs.back()) + "extern \"C\" void run_" + specs.back().name +
              "(const precast_host* h, char* w, const f32* a, const f32* b, f32* c) { " + specs.back().name +
              "(h, w, a, b, c); }\n";
    }
    const Kernels kernels(section, "g++", text);
    CHECK(kernels.log == "");
    for (size_t i = 0; i < cases.size(); ++i) check(cases[i], specs[i], kernels);
  }
}

TEST_CASE("a count over several variables gives each of them") {
  CHECK(emit::digit("m", {12}, 0) == "m");
  CHECK(emit::digit("m", {2, 3, 4}, 0) == "(i64)((u32)m / 12u)");
  CHECK(emit::digit("m", {2, 3, 4}, 1) == "(i64)((u32)m / 4u % 3u)");
  CHECK(emit::digit("m", {2, 3, 4}, 2) == "(i64)((u32)m % 4u)");
  CHECK(emit::digit("m", {1 << 20, 1 << 20}, 1) == "(i64)((u64)m % 1048576u)");
}
