// precast_judge WHAT WORKLOAD ARTIFACT CACHE THREADS: the fresh process of pair.h. Loads a pair that another process
// wrote, compares it with eager, prints one line of JSON. WHAT is call, train or stream.
#include <precast/precast.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "comparison.h"
#include "models/digits.h"
#include "models/silero.h"
#include "models/workload.h"
#include "timing.h"

namespace precast::demo {
namespace {

using Json = nlohmann::json;
using Call = std::function<Tensors(AnyModule&, const Tensors&)>;

/// The line of JSON, of which a comparison makes a part.
struct Judgement : Comparison {
  Json line = Json::object();
  Json done() {
    line["equal"] = equal();
    line["why"] = why;
    line["difference"] = difference;
    return line;
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

Tensors as_double(Tensors tensors) {
  for (auto& t : tensors)
    if (t.is_floating_point()) t = t.to(at::kDouble);
  return tensors;
}

Json judge_call(const Workload& w, const PairPaths& paths) {
  Judgement c;
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
      with_other_threads([&] { w.run(other, other_inputs); });
      w.run(exact, exact_inputs);
    }
    c.compare("result", a, b);
    c.compare("input", eager_inputs, inputs);
    if (spread)
      c.compare(state_of(eager), state_of(artifact), state_of(other), state_of(exact));
    else
      c.compare(state_of(eager), state_of(artifact));
  }
  const auto [eager_us, call_us] = time_calls([&] { w.run(artifact, inputs); }, [&] { ours(artifact, inputs); });
  c.line["eager_us"] = eager_us;
  c.line["call_us"] = call_us;
  return c.done();
}

Json judge_training(const Workload& w, const PairPaths& paths) {
  constexpr int kCompared = 50, kSteps = 330;  // 22 batches an epoch
  Judgement c;
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
      c.difference = std::max(c.difference, difference);
      if (!(difference <= 1e-3 * std::abs(losses[0])))
        c.fail("loss of step " + std::to_string(step) + ": " + std::to_string(losses[1]) + ", eager " +
               std::to_string(losses[0]));
    }
  }
  auto& net = *std::get<NnModule>(modules[1]);
  net.eval();
  const auto answers = digits_inference(dynamic_cast<DigitsNet&>(net), {test.images})[0].argmax(1);
  c.line["accuracy"] = answers.eq(test.labels).to(torch::kFloat64).mean().item<double>();
  return c.done();
}

Json judge_stream(const Workload& w, const PairPaths& paths) {
  Judgement c;
  AnyModule module = w.make_module();
  const Call ours = load_pair(paths, module, c.line);
  const auto voices = read_voices();
  const auto eager = silero_stream(voices, [&](const Tensors& in) { return w.run(module, in); });
  const auto streamed = silero_stream(voices, [&](const Tensors& in) { return ours(module, in); });
  c.compare("probabilities", torch::tensor(eager), torch::tensor(streamed));
  const auto expected = speech_segments(eager), found = speech_segments(streamed);
  if (expected != found) c.fail("other speech segments than eager's");
  c.line["segments"] = found.size();
  return c.done();
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
