#include "machine.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace precast::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr long kRounds = 2'000'000;
constexpr int kChains = 12;  // independent sums: enough to hide the latency of a multiply-add

template <class V>
__attribute__((always_inline)) inline float multiply_add() {
  V sums[kChains], a = V{} + 1.0001f, b = V{} + 0.5f;
  for (int k = 0; k < kChains; ++k) sums[k] = V{} + static_cast<float>(k);  // equal ones would be computed once
  for (long i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) sums[k] = sums[k] * b + a;
    asm volatile("" : "+x"(b));  // in a register, and unknown
  }
  float sum = 0;
  for (const V& s : sums) sum += s[0];
  return sum;
}
using V16 = float __attribute__((vector_size(16)));
using V32 = float __attribute__((vector_size(32)));
using V64 = float __attribute__((vector_size(64)));
#if defined(__x86_64__)
__attribute__((target("avx512f"))) float with_avx512() { return multiply_add<V64>(); }
__attribute__((target("avx2,fma"))) float with_avx2() { return multiply_add<V32>(); }
#endif
float with_baseline() { return multiply_add<V16>(); }

struct Kernel {
  float (*run)();
  int lanes;
};
Kernel widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {with_avx512, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {with_avx2, 8};
#endif
  return {with_baseline, 4};
}

/// Shortest of ten runs on all threads at once, in seconds.
double time_on_threads(int threads, const std::function<void(int)>& work) {
  double best = 1e30;
  for (int round = 0; round < 10; ++round) {
    const auto start = Clock::now();
    std::vector<std::thread> pool;
    for (int i = 0; i < threads; ++i) pool.emplace_back(work, i);
    for (auto& t : pool) t.join();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

Machine measure_machine(int threads) {
  Machine machine{threads, 0, 0};
  const Kernel kernel = widest();
  std::vector<float> sink(threads);
  const double compute = time_on_threads(threads, [&](int i) { sink[i] = kernel.run(); });
  machine.flops = 2.0 * kernel.lanes * kChains * kRounds * threads / compute;

  constexpr size_t kCount = 8'000'000;  // 32 MB an array: more than any cache here
  struct Arrays {
    std::vector<float> a = std::vector<float>(kCount, 1.f), b = a, c = a;
  };
  std::vector<Arrays> arrays(threads);
  constexpr int kRepeats = 4;
  const double memory = time_on_threads(threads, [&](int i) {
    auto& [a, b, c] = arrays[i];
    for (int r = 0; r < kRepeats; ++r)
      for (size_t k = 0; k < kCount; ++k) a[k] = b[k] + 0.5f * c[k];
  });
  machine.bytes = 3.0 * sizeof(float) * kCount * kRepeats * threads / memory;
  return machine;
}

}  // namespace precast::bench
