// One real input: a model, example arguments, and what is done with them. The demo, the tests and the benchmarks run
// the same table of these.
#pragma once
#include <torch/script.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace precast::demo {

using Tensors = std::vector<at::Tensor>;
using NnModule = std::shared_ptr<torch::nn::Module>;
using AnyModule = std::variant<NnModule, torch::jit::Module>;

struct Workload {
  std::string name;  // "resnet18-b8"
  std::string what;  // for people
  /// Equal weights and equal inputs on every call: both are seeded, or read from a file.
  std::function<AnyModule()> make_module;
  std::function<Tensors()> make_inputs;
  /// The function that is captured: inference, or a training step (loss and backward).
  std::function<Tensors(AnyModule&, const Tensors&)> run;
};

const std::vector<Workload>& workloads();
const Workload& workload(const std::string& name);  // throws std::invalid_argument that lists the names

/// Parameters, buffers and gradients under their names: what a call may have changed beside its results.
std::vector<std::pair<std::string, at::Tensor>> state_of(const AnyModule&);

/// Turns a function of one concrete module type into Workload::run.
template <class M>
auto with(Tensors (*fn)(M&, const Tensors&)) {
  return [fn](AnyModule& any, const Tensors& inputs) -> Tensors {
    if constexpr (std::is_same_v<M, torch::jit::Module>)
      return fn(std::get<torch::jit::Module>(any), inputs);
    else
      return fn(dynamic_cast<M&>(*std::get<NnModule>(any)), inputs);
  };
}

/// A fresh module from a fixed seed.
template <class M, class... A>
std::shared_ptr<M> seeded(A&&... a) {
  torch::manual_seed(0);
  return std::make_shared<M>(std::forward<A>(a)...);
}

}  // namespace precast::demo
