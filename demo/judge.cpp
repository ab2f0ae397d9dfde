// precast_judge WHAT WORKLOAD ARTIFACT CACHE THREADS: the fresh process of pair.h. Loads a pair that another process
// wrote, compares it with eager, prints one line of JSON. WHAT is call, train or stream.
#include <precast/precast.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/digits.h"
#include "models/silero.h"
#include "models/workload.h"

namespace precast::demo {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using Call = std::function<Tensors(AnyModule&, const Tensors&)>;

/// Integers and bools must be equal.
struct Bounds {
  double relative, absolute;
};
Bounds bounds_of(at::ScalarType type) { return type == at::kDouble ? Bounds{1e-9, 1e-10} : Bounds{1e-4, 1e-5}; }

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Comparison {
  Json line = {{"equal", true}, {"why", ""}, {"difference", 0.0}};

  void fail(const std::string& why) {
    if (line["equal"].get<bool>()) line["why"] = why;
    line["equal"] = false;
  }
  /// Where many layers amplify rounding, eager differs from itself by more than the bounds, with another number of
  /// threads for one: which rectifiers open in one computation only is luck. `exact` is the value in float64, and
  /// `allowed` twice what eager is off by in its worst tensor, as a fraction of the norm.
  struct Spread {
    at::Tensor exact;
    double allowed;
  };
  void compare(const std::string& name, const at::Tensor& eager, const at::Tensor& ours, const Spread& spread = {}) {
    if (eager.defined() != ours.defined()) return fail(name + (ours.defined() ? " is there" : " is not there"));
    if (!eager.defined()) return;
    if (eager.dtype() != ours.dtype() || eager.sizes() != ours.sizes() || eager.strides() != ours.strides())
      return fail(name + " has another dtype, shape or stride");
    if (!eager.is_floating_point()) {
      if (!eager.equal(ours)) fail(name + " differs");
      return;
    }
    if (!eager.numel()) return;
    const double difference = (eager - ours).abs().max().item<double>();
    if (!(difference <= line["difference"].get<double>())) line["difference"] = difference;
    const Bounds bounds = bounds_of(eager.scalar_type());
    if (at::allclose(ours, eager, bounds.relative, bounds.absolute, /*equal_nan=*/true)) return;
    std::string why = name + " differs by up to " + std::to_string(difference);
    if (!spread.exact.defined() || eager.scalar_type() == at::kDouble) return fail(why);
    const double off = distance(ours, spread.exact);
    if (off <= spread.allowed) return;
    std::ostringstream text;
    text << why << "; it is off by " << off << " of the norm from float64, allowed are " << spread.allowed;
    fail(text.str());
  }
  void compare(const std::string& name, const Tensors& eager, const Tensors& ours) {
    if (eager.size() != ours.size()) return fail(name + ": another number of tensors");
    for (size_t i = 0; i < eager.size(); ++i) compare(name + " " + std::to_string(i), eager[i], ours[i]);
  }
  /// `other` (eager with another number of threads) and `exact` (in float64) may be null.
  void compare(const AnyModule& eager, const AnyModule& ours, const AnyModule* other, const AnyModule* exact) {
    const auto a = state_of(eager), b = state_of(ours);
    if (!exact) {
      for (size_t i = 0; i < a.size(); ++i) compare(a[i].first, a[i].second, b[i].second);
      return;
    }
    const auto c = state_of(*other), d = state_of(*exact);
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i)
      for (const at::Tensor& t : {a[i].second, c[i].second})
        if (t.defined() && t.is_floating_point()) worst = std::max(worst, distance(t, d[i].second));
    for (size_t i = 0; i < a.size(); ++i) compare(a[i].first, a[i].second, b[i].second, {d[i].second, 2 * worst});
  }
  /// In norm, as a fraction of `exact`.
  static double distance(const at::Tensor& t, const at::Tensor& exact) {
    return ((t.to(at::kDouble) - exact).norm() / exact.norm().clamp_min(1e-30)).item<double>();
  }
};

template <class Module>
Call load_as(const PairPaths& paths) {
  const auto f = precast::load<Tensors(Module, Tensors)>(paths);
  return [f](AnyModule& any, const Tensors& inputs) { return f(std::get<Module>(any), inputs); };
}
Call load_pair(const PairPaths& paths, const AnyModule& module, Json& line) {
  const auto start = Clock::now();
  Call call = std::holds_alternative<NnModule>(module) ? load_as<NnModule>(paths) : load_as<torch::jit::Module>(paths);
  line["load_ms"] = 1e3 * seconds_since(start);
  return call;
}

/// Medians of interleaved calls, in microseconds; a second or so at most.
void time_calls(const Call& eager, const Call& ours, AnyModule& module, const Tensors& inputs, Json& line) {
  std::vector<double> times[2];
  const auto begin = Clock::now();
  for (int i = 0; i < 200 && (i < 5 || seconds_since(begin) < 1); ++i)
    for (const int which : {0, 1}) {
      const auto start = Clock::now();
      (which ? ours : eager)(module, inputs);
      times[which].push_back(1e6 * seconds_since(start));
    }
  for (auto& t : times) std::nth_element(t.begin(), t.begin() + t.size() / 2, t.end());
  line["eager_us"] = times[0][times[0].size() / 2];
  line["call_us"] = times[1][times[1].size() / 2];
}

Tensors as_double(Tensors tensors) {
  for (auto& t : tensors)
    if (t.is_floating_point()) t = t.to(at::kDouble);
  return tensors;
}

Json judge_call(const Workload& w, const PairPaths& paths) {
  Comparison c;
  AnyModule eager = w.make_module(), artifact = w.make_module();
  const Tensors eager_inputs = w.make_inputs(), inputs = w.make_inputs();
  // How far eager is from itself and from float64. (A TorchScript file keeps its own dtypes.)
  const bool spread = std::holds_alternative<NnModule>(eager);
  AnyModule other = w.make_module(), exact = w.make_module();
  const Tensors other_inputs = w.make_inputs(), exact_inputs = as_double(w.make_inputs());
  if (spread) std::get<NnModule>(exact)->to(at::kDouble);

  const Call ours = load_pair(paths, artifact, c.line);
  for (int call = 0; call < 2; ++call) {  // the second call sees what the first has left behind
    const Tensors a = w.run(eager, eager_inputs), b = ours(artifact, inputs);
    if (spread) {
      const int threads = at::get_num_threads();
      at::set_num_threads(threads == 1 ? 2 : 1);
      w.run(other, other_inputs);
      at::set_num_threads(threads);
      w.run(exact, exact_inputs);
    }
    c.compare("result", a, b);
    c.compare("input", eager_inputs, inputs);
    c.compare(eager, artifact, spread ? &other : nullptr, spread ? &exact : nullptr);
  }
  time_calls(w.run, ours, artifact, inputs, c.line);
  return c.line;
}

Json judge_training(const Workload& w, const PairPaths& paths) {
  constexpr int kCompared = 50, kSteps = 330;  // 22 batches an epoch
  Comparison c;
  AnyModule modules[2] = {w.make_module(), w.make_module()};
  const Call calls[2] = {w.run, load_pair(paths, modules[1], c.line)};
  std::vector<torch::optim::SGD> optimizers;
  for (auto& m : modules)
    optimizers.emplace_back(std::get<NnModule>(m)->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));

  const auto [train, test] = digits_split();
  for (int step = 0; step < kSteps; ++step) {
    float losses[2] = {};
    for (const int which : {0, 1}) {
      if (which == 0 && step >= kCompared) continue;
      optimizers[which].zero_grad();
      losses[which] = calls[which](modules[which], digits_batch(train, step))[0].item<float>();
      optimizers[which].step();
    }
    if (step < kCompared) {
      const double difference = std::abs(losses[0] - losses[1]);
      c.line["difference"] = std::max(c.line["difference"].get<double>(), difference);
      if (!(difference <= 1e-3 * std::abs(losses[0])))
        c.fail("loss of step " + std::to_string(step) + ": " + std::to_string(losses[1]) + ", eager " +
               std::to_string(losses[0]));
    }
  }
  auto& net = *std::get<NnModule>(modules[1]);
  net.eval();
  const auto answers = digits_inference(dynamic_cast<DigitsNet&>(net), {test.images})[0].argmax(1);
  c.line["accuracy"] = answers.eq(test.labels).to(torch::kFloat64).mean().item<double>();
  return c.line;
}

Json judge_stream(const Workload& w, const PairPaths& paths) {
  Comparison c;
  AnyModule module = w.make_module();
  const Call ours = load_pair(paths, module, c.line);
  const auto voices = read_voices();
  const auto eager = silero_stream(voices, [&](const Tensors& in) { return w.run(module, in); });
  const auto streamed = silero_stream(voices, [&](const Tensors& in) { return ours(module, in); });
  c.compare("probabilities", torch::tensor(eager), torch::tensor(streamed));
  const auto expected = speech_segments(eager), found = speech_segments(streamed);
  if (expected != found) c.fail("other speech segments than eager's");
  c.line["segments"] = found.size();
  return c.line;
}

int judge(int argc, char** argv) {
  if (argc != 6) throw std::invalid_argument("usage: precast_judge call|train|stream WORKLOAD ARTIFACT CACHE THREADS");
  const std::string what = argv[1];
  const Workload& w = workload(argv[2]);
  const PairPaths paths{argv[3], argv[4]};
  at::set_num_threads(std::stoi(argv[5]));
  const Json line = what == "train"    ? judge_training(w, paths)
                    : what == "stream" ? judge_stream(w, paths)
                                       : judge_call(w, paths);
  std::cout << line.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace precast::demo

int main(int argc, char** argv) {
  try {
    return precast::demo::judge(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << e.what() << std::endl;
    return 1;
  }
}
