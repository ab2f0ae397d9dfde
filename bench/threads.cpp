#include "threads.h"

#include <precast/precast.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <set>
#include <thread>

#include "cases.h"
#include "timing.h"

namespace precast::bench {
namespace {

using demo::AnyModule;
using demo::Clock;
using demo::seconds_since;
using demo::Tensors;
using demo::Workload;
using Call = std::function<void()>;

/// Calls a second of n threads together, each of which has LibTorch's work for itself.
double calls_a_second(const std::vector<Call>& calls, double seconds) {
  std::atomic<bool> stopped = false;
  std::atomic<int64_t> done = 0;
  std::barrier start(static_cast<std::ptrdiff_t>(calls.size()) + 1);
  std::vector<std::thread> threads;
  for (const Call& call : calls)
    threads.emplace_back([&] {
      at::set_num_threads(1);
      torch::NoGradGuard no_grad;
      call();
      start.arrive_and_wait();
      int64_t n = 0;
      for (; !stopped.load(std::memory_order_relaxed); ++n) call();
      done += n;
    });
  start.arrive_and_wait();
  const auto begin = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stopped = true;
  for (std::thread& t : threads) t.join();
  return static_cast<double>(done) / seconds_since(begin);
}

/// One row: the rate with each number of threads, and how it compares with one.
void row(const char* name, const char* what, const std::vector<int>& counts, const std::function<Call(int)>& call_of) {
  constexpr int kRounds = 5;
  std::vector<std::vector<double>> rates(counts.size());
  for (int round = 0; round < kRounds; ++round)  // in turns, so that whatever else the machine does falls on all
    for (size_t i = 0; i < counts.size(); ++i) {
      std::vector<Call> calls;
      for (int t = 0; t < counts[i]; ++t) calls.push_back(call_of(t));
      rates[i].push_back(calls_a_second(calls, 0.2));
    }
  std::printf("%-15s %-9s", name, what);
  double one = 0;
  for (std::vector<double>& r : rates) {
    std::nth_element(r.begin(), r.begin() + kRounds / 2, r.end());
    if (one == 0) one = r[kRounds / 2];
    std::printf(" %12.0f %6.2fx", r[kRounds / 2], r[kRounds / 2] / one);
  }
  std::printf("\n");
}

template <class Module>
void bench_as(const Workload& w, Module module, const std::vector<int>& counts) {
  std::vector<Tensors> inputs;
  for (int t = 0; t < counts.back(); ++t) inputs.push_back(w.make_inputs());
  AnyModule any = module;
  const std::filesystem::path folder = "out/bench";
  const PairPaths pair{folder / (w.name + ".threads.cpp"), folder / (w.name + ".threads.cache")};
  auto capture = precast::capture(
      [&w](Module m, Tensors in) {
        AnyModule module = std::move(m);
        return w.run(module, in);
      },
      pair);
  capture(module, inputs[0]);
  capture.finish();
  const auto f = precast::load<Tensors(Module, Tensors)>(pair);
  const auto bound = f.bind(module);
  const auto at = [&](int t) -> const Tensors& { return inputs[static_cast<size_t>(t)]; };
  row(w.name.c_str(), "eager", counts, [&](int t) { return [&, t] { w.run(any, at(t)); }; });
  row("", "artifact", counts, [&](int t) { return [&, t] { bound(at(t)); }; });
}

}  // namespace

void bench_threads(const std::vector<std::string>& wanted) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const std::set<int> several = {1, 2, std::max(cores, 2)};
  const std::vector<int> counts(several.begin(), several.end());
  const int before = at::get_num_threads();
  bool begun = false;
  for (const Workload& w : cases()) {
    if (w.name != "linear-8" && w.name != "mlp-64") continue;  // the cost of a call, and some work in it
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), w.name) == wanted.end()) continue;
    if (!std::exchange(begun, true)) {
      std::printf("\ncalls a second, of threads that call at once\n%-25s", "");
      for (const int n : counts)
        std::printf(" %12s %7s", (std::to_string(n) + (n == 1 ? " thread" : " threads")).c_str(), "");
      std::printf("\n");
    }
    std::visit([&](auto module) { bench_as(w, std::move(module), counts); }, w.make_module());
  }
  at::set_num_threads(before);
  if (begun)
    std::printf(
        "each thread computes alone (at::set_num_threads(1)), on inputs of its own, with one loaded artifact\n");
}

}  // namespace precast::bench
