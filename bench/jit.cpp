#include "jit.h"

#include <precast/compile.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "models/digits.h"
#include "models/gpt.h"
#include "models/lstm.h"
#include "models/resnet.h"
#include "timing.h"

namespace precast::bench {
namespace {

using demo::Clock;
using demo::seconds_since;
using demo::Tensors;

/// One step of a program: `f` stands for the model.
template <class M>
struct Row {
  std::string name;
  std::shared_ptr<M> model;
  Tensors inputs;
  bool training;
};

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

/// Calls `step` n times; seconds of each.
template <class F>
std::vector<double> calls(int n, F&& step) {
  std::vector<double> times;
  for (int i = 0; i < n; ++i) {
    const auto start = Clock::now();
    step();
    times.push_back(seconds_since(start));
  }
  return times;
}

double total(const std::vector<double>& times, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += times[static_cast<size_t>(i)];
  return sum;
}

at::Tensor first(const at::Tensor& t) { return t; }
at::Tensor first(const Tensors& list) { return list[0]; }

template <class M>
void bench_row(const Row<M>& row) {
  const auto forward = [](M& m, at::Tensor x) { return m.forward(x); };
  const auto step_of = [&](const auto& f) {
    return [&row, &f] {
      if (!row.training) {
        const torch::NoGradGuard no_grad;
        f(*row.model, row.inputs[0]);
        return;
      }
      row.model->zero_grad();
      first(f(*row.model, row.inputs[0])).square().mean().backward();
    };
  };
  constexpr int kCalls = 100;
  const auto eager = calls(kCalls, step_of(forward));
  reset();
  std::filesystem::remove_all("out/bench/cache");
  const auto f = compile(forward);
  const auto cold = calls(kCalls, step_of(f));
  reset();
  const auto warm = calls(kCalls, step_of(f));
  reset();
  std::filesystem::remove_all("out/bench/cache");
  const auto async_f = compile(forward, {.async = true});
  const auto async = calls(kCalls, step_of(async_f));
  // Steady state: calls take turns.
  std::vector<double> a, b;
  for (int i = 0; i < 30; ++i) {
    a.push_back(calls(1, step_of(forward))[0]);
    b.push_back(calls(1, step_of(f))[0]);
  }
  const double one = median(eager);
  std::printf("%-18s %10.2f %7.2fx", row.name.c_str(), 1e3 * median(a), median(a) / median(b));
  for (const auto* times : {&cold, &warm})
    for (const int n : {1, 10, 100}) std::printf(" %8.2f", total(*times, n) / total(eager, n));
  std::printf(" %10.2f\n", *std::max_element(async.begin(), async.end()) / one);
  std::fflush(stdout);
}

template <class M>
std::shared_ptr<M> seeded(bool training) {
  auto m = demo::seeded<M>();
  m->train(training);
  return m;
}

}  // namespace

void bench_jit(const std::vector<std::string>& wanted) {
  ::setenv("PRECAST_CACHE_DIR", "out/bench/cache", 1);
  std::printf(
      "\ncompile(): the model is compiled, loss and backward run through autograd\n"
      "%-18s %10s %8s %26s %26s %10s\n%-18s %10s %8s %8s %8s %8s %8s %8s %8s %10s\n",
      "", "eager", "steady", "nothing on disk, calls:", "cache on disk, calls:", "async", "", "ms", "ratio", "1", "10",
      "100", "1", "10", "100", "slowest");
  torch::manual_seed(1);
  const auto want = [&](const std::string& name) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  if (want("jit-digits-train"))
    bench_row(
        Row<demo::DigitsNet>{"jit-digits-train", seeded<demo::DigitsNet>(true), {torch::randn({64, 1, 8, 8})}, true});
  if (want("jit-gpt"))
    bench_row(Row<demo::Gpt>{
        "jit-gpt", seeded<demo::Gpt>(false), {torch::randint(demo::kGptWords, {8, demo::kGptTokens})}, false});
  if (want("jit-gpt-train"))
    bench_row(Row<demo::Gpt>{
        "jit-gpt-train", seeded<demo::Gpt>(true), {torch::randint(demo::kGptWords, {8, demo::kGptTokens})}, true});
  if (want("jit-resnet18"))
    bench_row(
        Row<demo::ResNet18>{"jit-resnet18", seeded<demo::ResNet18>(false), {torch::randn({1, 3, 224, 224})}, false});
  if (want("jit-lstm"))
    bench_row(Row<demo::Lstm>{"jit-lstm",
                              seeded<demo::Lstm>(false),
                              {torch::randn({demo::kLstmSteps, demo::kLstmBatch, demo::kLstmWidth})},
                              false});
  std::printf(
      "steady: eager time / compiled time. calls: time to the N-th call / eager's, so below 1 is ahead of eager.\n"
      "async: the slowest single call / eager's median.\n");
}

}  // namespace precast::bench
