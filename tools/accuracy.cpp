// Measures the emitted f32 functions against libm in double and prints the table of docs/accuracy.md.
//   precast_accuracy                  all 2^32 inputs of every function (hours)
//   precast_accuracy --only exp,tanh  some functions
//   precast_accuracy --sample 1000    every 1000th input
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <thread>

#include "../tests/emit/kernels.h"
#include "../tests/emit/loop_text.h"
#include "accuracy.h"

namespace {

accuracy::Worst measure(const accuracy::Function& f, const Kernels& kernels, uint64_t step, unsigned threads) {
  const auto run = kernels.get<void(const float*, float*, int64_t, bool)>(std::string("run_") + f.name);
  std::vector<accuracy::Worst> worst(threads);
  std::vector<std::thread> workers;
  const uint64_t all = uint64_t{1} << 32;
  for (unsigned t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      worst[t] = accuracy::sweep(f, all * t / threads, all * (t + 1) / threads, step,
                                 [&](const float* x, float* y, int64_t n) { run(x, y, n, true); });
    });
  for (std::thread& w : workers) w.join();
  for (unsigned t = 1; t < threads; ++t) worst[0].take(worst[t]);
  return worst[0];
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t step = 1;
  unsigned threads = std::thread::hardware_concurrency();
  std::vector<std::string> only;
  CLI::App app("Largest error of emitted f32 functions, in units of the last place");
  app.add_option("--sample", step, "test every n-th input only")->check(CLI::PositiveNumber);
  app.add_option("--threads", threads, "worker threads")->check(CLI::PositiveNumber);
  app.add_option("--only", only, "functions to measure")->delimiter(',');
  CLI11_PARSE(app, argc, argv);

  std::string text;
  std::vector<accuracy::Function> chosen;
  for (const auto& f : accuracy::functions())
    if (only.empty() || std::find(only.begin(), only.end(), f.name) != only.end()) chosen.push_back(f);
  for (const auto& f : chosen)
    text += loop_text(std::string("run_") + f.name, {"f32"}, "f32", std::string(f.name) + "(v0)");

  std::vector<std::unique_ptr<Kernels>> kernels;
  std::printf("| function |");
  for (const Section& s : sections()) {
    kernels.push_back(std::make_unique<Kernels>(s, "g++", text));
    std::printf(" %s | at |", s.name);
  }
  std::printf("\n| --- |");
  for (size_t i = 0; i < kernels.size(); ++i) std::printf(" ---: | ---: |");
  std::printf("\n");
  for (const auto& f : chosen) {
    std::printf("| %s |", f.name);
    for (const auto& k : kernels) {
      const accuracy::Worst w = measure(f, *k, step, threads);
      std::printf(" %.2f | %.9g |", w.ulp, w.at);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}
