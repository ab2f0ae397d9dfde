#include <stdexcept>

#include "models/digits.h"
#include "models/gpt.h"
#include "models/lstm.h"
#include "models/resnet.h"
#include "models/script.h"
#include "models/silero.h"

namespace precast::demo {
namespace {

template <class M>
std::function<AnyModule()> fresh(bool training) {
  return [training]() -> AnyModule {
    auto m = seeded<M>();
    m->train(training);
    return NnModule(m);
  };
}

/// Random inputs from a fixed seed.
std::function<Tensors()> random(Tensors (*make)()) {
  return [make] {
    torch::manual_seed(1);
    return make();
  };
}

at::Tensor classes(int64_t n, int64_t count) { return torch::randint(n, {count}); }
at::Tensor images(int64_t batch) { return torch::randn({batch, 3, 224, 224}); }
AnyModule resnet_double() {
  const AnyModule any = fresh<ResNet18>(true)();
  std::get<NnModule>(any)->to(at::kDouble);
  return any;
}
at::Tensor sequence() { return torch::randn({kLstmSteps, kLstmBatch, kLstmWidth}); }
Tensors digits_test() { return {digits_split().second.images}; }
Tensors digits_first() { return digits_batch(digits_split().first, 0); }

}  // namespace

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> table = {
      {"digits", "digits, conv + BatchNorm, 360 images", fresh<DigitsNet>(false), digits_test, with(digits_inference)},
      {"digits-train", "the same, training step, batch 64", fresh<DigitsNet>(true), digits_first,
       with(digits_training)},
      {"resnet18-b1", "ResNet-18, batch 1", fresh<ResNet18>(false), random([] { return Tensors{images(1)}; }),
       with(resnet_inference)},
      {"resnet18-b8", "ResNet-18, batch 8", fresh<ResNet18>(false), random([] { return Tensors{images(8)}; }),
       with(resnet_inference)},
      {"resnet18-train", "ResNet-18, training step, batch 8", fresh<ResNet18>(true),
       random([] { return Tensors{images(8), classes(1000, 8)}; }), with(resnet_training)},
      {"resnet18-f64", "the same in float64, batch 4, 64 x 64", resnet_double,
       random([] { return Tensors{torch::randn({4, 3, 64, 64}, at::kDouble), classes(1000, 4)}; }),
       with(resnet_training)},
      {"gpt", "GPT, 4 layers, batch 8", fresh<Gpt>(false),
       random([] { return Tensors{torch::randint(kGptWords, {8, kGptTokens})}; }), with(gpt_inference)},
      {"gpt-train", "the same, training step", fresh<Gpt>(true),
       random([] { return Tensors{torch::randint(kGptWords, {8, kGptTokens + 1})}; }), with(gpt_training)},
      {"lstm", "LSTM, 2 layers, batch 8", fresh<Lstm>(false), random([] { return Tensors{sequence()}; }),
       with(lstm_inference)},
      {"lstm-train", "the same, training step", fresh<Lstm>(true),
       random([] { return Tensors{sequence(), sequence()}; }), with(lstm_training)},
      {"silero", "Silero VAD, one window", load_silero, random(silero_middle), with(silero_window)},
      {"traced", "traced TorchScript file", traced_module, [] { return Tensors{script_input()}; },
       with(script_inference)},
      {"frozen", "frozen TorchScript file", frozen_module, [] { return Tensors{script_input()}; },
       with(script_inference)},
  };
  return table;
}

const Workload& workload(const std::string& name) {
  std::string names;
  for (const auto& w : workloads()) {
    if (w.name == name) return w;
    names += " " + w.name;
  }
  throw std::invalid_argument("no workload '" + name + "'; there are:" + names);
}

std::vector<std::pair<std::string, at::Tensor>> state_of(const AnyModule& any) {
  std::vector<std::pair<std::string, at::Tensor>> state;
  const auto add = [&](const std::string& name, const at::Tensor& t) {
    state.emplace_back(name, t);
    state.emplace_back(name + ".grad", t.grad());
  };
  if (const auto* nn = std::get_if<NnModule>(&any)) {
    for (const auto& item : (*nn)->named_parameters()) add(item.key(), item.value());
    for (const auto& item : (*nn)->named_buffers()) add(item.key(), item.value());
  } else {
    const auto& script = std::get<torch::jit::Module>(any);
    for (const auto& item : script.named_parameters()) add(item.name, item.value);
    for (const auto& item : script.named_buffers()) add(item.name, item.value);
  }
  return state;
}

}  // namespace precast::demo
