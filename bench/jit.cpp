#include "jit.h"

#include <precast/compile.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "early_exit.h"
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
namespace fs = std::filesystem;

constexpr const char* kCache = "out/bench/cache";
constexpr size_t kCalls = 100;

using Step = std::function<void()>;
/// A step of a program, with the model as it is or compiled.
struct Row {
  std::string name;
  Step (*make)(const std::string& how);
};

at::Tensor first(const at::Tensor& t) { return t; }
at::Tensor first(const Tensors& list) { return list[0]; }

template <class M>
Step step_of(bool training, const at::Tensor& x, const std::string& how) {
  const auto model = demo::seeded<M>();
  model->train(training);
  const auto with = [=](auto f) -> Step {
    return [=] {
      if (training) {
        model->zero_grad();
        first(f(*model, x)).square().mean().backward();
      } else {
        const torch::NoGradGuard no_grad;
        f(*model, x);
      }
    };
  };
  const auto forward = [](M& m, at::Tensor x) { return m.forward(x); };
  if (how == "eager") return with(forward);
  return with(compile(forward, {.async = how == "async"}));
}

Step digits_step(const std::string& how) {
  const demo::DigitsData data = demo::digits_split().first;
  const auto model = demo::seeded<demo::DigitsNet>();
  const auto optimizer = std::make_shared<torch::optim::SGD>(model->parameters(), 0.05);
  const auto with = [=](auto f) -> Step {
    return [=, at = std::make_shared<int64_t>(0)] {
      const Tensors batch = demo::digits_batch(data, (*at)++);
      optimizer->zero_grad();
      f(*model, batch[0], batch[1]).backward();
      optimizer->step();
    };
  };
  const auto loss = [](demo::DigitsNet& m, at::Tensor x, at::Tensor y) {
    return torch::nn::functional::cross_entropy(m.forward(x), y);
  };
  if (how == "eager") return with(loss);
  return with(compile(loss, {.async = how == "async"}));
}

/// The compiled function sees both ways out, whichever of them is timed.
Step exit_step(bool leaves_early, const std::string& how) {
  const auto net = demo::seeded<EarlyExit>();
  const torch::NoGradGuard no_grad;
  const at::Tensor hard = torch::zeros({8, EarlyExit::kWidth}), easy = torch::randn({8, EarlyExit::kWidth}) * 100;
  const auto with = [=](auto f) -> Step {
    return [=, x = leaves_early ? easy : hard, warm = std::make_shared<int>(0)] {
      const torch::NoGradGuard no_grad;
      f(*net, *warm < 2 && (*warm)++ == 0 ? (leaves_early ? hard : easy) : x);
    };
  };
  const auto forward = [](EarlyExit& m, at::Tensor x) { return m.forward(x); };
  if (how == "eager") return with(forward);
  return with(compile(forward, {.async = how == "async"}));
}

const Row kRows[] = {
    {"jit-digits-train", digits_step},
    {"jit-gpt",
     [](const std::string& how) {
       return step_of<demo::Gpt>(false, torch::randint(demo::kGptWords, {8, demo::kGptTokens}), how);
     }},
    {"jit-gpt-train",
     [](const std::string& how) {
       return step_of<demo::Gpt>(true, torch::randint(demo::kGptWords, {8, demo::kGptTokens}), how);
     }},
    {"jit-resnet18",
     [](const std::string& how) { return step_of<demo::ResNet18>(false, torch::randn({1, 3, 224, 224}), how); }},
    {"jit-lstm",
     [](const std::string& how) {
       return step_of<demo::Lstm>(false, torch::randn({demo::kLstmSteps, demo::kLstmBatch, demo::kLstmWidth}), how);
     }},
    {"jit-exit-early", [](const std::string& how) { return exit_step(true, how); }},
    {"jit-exit-late", [](const std::string& how) { return exit_step(false, how); }},
};

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double seconds_of(const Step& step) {
  const auto start = Clock::now();
  step();
  return seconds_since(start);
}

/// Of a process that does nothing else.
std::vector<double> first_calls_of(const std::string& row, const std::string& how) {
  const std::string command = fs::read_symlink("/proc/self/exe").string() + " --first-calls " + row + " " + how;
  std::vector<double> times;
  FILE* const out = ::popen(command.c_str(), "r");
  for (double t = 0; out && std::fscanf(out, "%lf", &t) == 1;) times.push_back(t);
  if (!out || ::pclose(out) != 0 || times.size() != kCalls) throw std::runtime_error("failed: " + command);
  return times;
}

double total(const std::vector<double>& times, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += times[i];
  return sum;
}

void bench_row(const Row& row) {
  const auto eager = first_calls_of(row.name, "eager");
  fs::remove_all(kCache);
  const auto cold = first_calls_of(row.name, "compiled"), warm = first_calls_of(row.name, "compiled");
  fs::remove_all(kCache);
  const auto async = first_calls_of(row.name, "async");
  const Step plain = row.make("eager"), compiled = row.make("compiled");
  for (int i = 0; i < 4; ++i) plain(), compiled();
  std::vector<double> a, b;  // steady state: calls take turns
  for (const auto begin = Clock::now(); a.size() < 20 || (seconds_since(begin) < 1 && a.size() < 5000);) {
    a.push_back(seconds_of(plain));
    b.push_back(seconds_of(compiled));
  }
  reset();
  std::printf("%-17s %9.3f %6.2fx", row.name.c_str(), 1e3 * median(a), median(a) / median(b));
  for (const auto* times : {&cold, &warm})
    for (const size_t n : {1, 10, 100}) std::printf(" %7.2f", total(*times, n) / total(eager, n));
  std::printf(" %9.1f %9.1f %6.2f\n", 1e3 * *std::ranges::max_element(eager), 1e3 * *std::ranges::max_element(async),
              *std::ranges::max_element(async) / *std::ranges::max_element(eager));
}

/// Microseconds of a call on four tensors that does next to nothing, with this many parameters that it could read.
struct Hit {
  double compiled, loaded;  // through compile(); of the same artifact, loaded and bound
};
Hit hit_us(int parameters) {
  struct Many : torch::nn::Module {
    explicit Many(int n) {
      for (int i = 0; i < n; ++i) register_parameter("p" + std::to_string(i), torch::zeros({2}));
    }
  };
  const auto model = std::make_shared<Many>(parameters);
  const torch::NoGradGuard no_grad;
  const auto fn = [](Many&, at::Tensor a, at::Tensor b, at::Tensor c, at::Tensor d) {
    return a.add_(b), c.add_(d), 0;  // no result to allocate
  };
  const std::array<at::Tensor, 4> t = {torch::zeros({8}), torch::zeros({8}), torch::zeros({8}), torch::zeros({8})};
  const auto loaded = load_from_memory<int(Many&, at::Tensor, at::Tensor, at::Tensor, at::Tensor)>(
                          precompile(fn, *model, t[0], t[1], t[2], t[3]))
                          .bind(*model);
  const auto compiled = compile(fn);
  const auto time = [&](const auto& call) {
    std::vector<double> times;
    for (int i = 0; i < 4; ++i) call();
    for (int i = 0; i < 50; ++i)
      times.push_back(seconds_of([&] {
        for (int k = 0; k < 1000; ++k) call();
      }));
    return 1e3 * median(times);
  };
  return {time([&] { compiled(*model, t[0], t[1], t[2], t[3]); }), time([&] { loaded(t[0], t[1], t[2], t[3]); })};
}

void bench_hits() {
  const Hit none = hit_us(0), many = hit_us(400);
  std::printf(
      "\na call on four tensors: %.2f us compiled, %.2f us as a loaded artifact: guards take %.2f us\n"
      "for each parameter more: %.1f ns compiled, %.1f ns as a loaded artifact: guards take %.1f ns\n",
      none.compiled, none.loaded, none.compiled - none.loaded, 1e3 * (many.compiled - none.compiled) / 400,
      1e3 * (many.loaded - none.loaded) / 400, 1e3 * (many.compiled - none.compiled - many.loaded + none.loaded) / 400);
}

}  // namespace

int first_calls(const std::string& row, const std::string& how) {
  ::setenv("PRECAST_CACHE_DIR", kCache, 1);
  const auto at = std::ranges::find(kRows, row, &Row::name);
  if (at == std::end(kRows)) return 2;
  const Step step = at->make(how);
  for (size_t i = 0; i < kCalls; ++i) std::printf("%.9f\n", seconds_of(step));
  return 0;
}

void bench_jit(const std::vector<std::string>& wanted) {
  ::setenv("PRECAST_CACHE_DIR", kCache, 1);
  std::printf(
      "\ncompile(): the model is compiled, loss and backward run through autograd\n"
      "%-17s %9s %7s %23s %23s %26s\n%-17s %9s %7s %7s %7s %7s %7s %7s %7s %9s %9s %6s\n",
      "", "eager", "steady", "nothing on disk, calls:", "cache on disk, calls:", "slowest call", "", "ms", "", "1",
      "10", "100", "1", "10", "100", "eager ms", "async ms", "");
  for (const Row& row : kRows)
    if (wanted.empty() || std::ranges::find(wanted, row.name) != wanted.end()) bench_row(row);
  std::printf(
      "steady: eager time / compiled time. calls: time to the N-th call / eager's, so below 1 is ahead of eager.\n"
      "slowest call: of the first 100 in a fresh process; async: {.async = true}, with nothing on disk.\n");
  if (wanted.empty() || std::ranges::find(wanted, "jit-hit") != wanted.end()) bench_hits();
}

}  // namespace precast::bench
