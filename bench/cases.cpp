#include "cases.h"

namespace precast::bench {
namespace {

using namespace demo;

struct Mlp : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
  Mlp() {
    first = register_module("first", torch::nn::Linear(784, 256));
    second = register_module("second", torch::nn::Linear(256, 256));
    third = register_module("third", torch::nn::Linear(256, 10));
  }
};
Tensors run_mlp(Mlp& net, const Tensors& in) {
  torch::NoGradGuard no_grad;
  return {net.third(torch::relu(net.second(torch::relu(net.first(in[0])))))};
}
Tensors train_mlp(Mlp& net, const Tensors& in) {
  const auto out = net.third(torch::relu(net.second(torch::relu(net.first(in[0])))));
  const auto loss = torch::nn::functional::cross_entropy(out, in[1]);
  loss.backward();
  return {loss.detach()};
}

/// A function of tensors alone.
struct Nothing : torch::nn::Module {};
Tensors pointwise(Nothing&, const Tensors& in) {
  return {torch::tanh(in[0] * 2 + in[1]) * torch::sigmoid(in[1] - in[2]) + in[2]};
}
Tensors softmax_norm(Nothing&, const Tensors& in) {
  const auto residual = in[0] + torch::softmax(in[1], -1);
  return {torch::layer_norm(residual, {in[0].size(1)}, in[2], in[3])};
}

template <class M>
AnyModule fresh() {
  return NnModule(seeded<M>());
}
std::function<Tensors()> random_tensors(std::vector<std::vector<int64_t>> shapes) {
  return [shapes] {
    torch::manual_seed(1);
    Tensors tensors;
    for (const auto& shape : shapes) tensors.push_back(torch::randn(shape));
    return tensors;
  };
}
Workload pointwise_case(const std::string& name, int64_t n) {
  return {name, "tanh(2x + y) * sigmoid(y - z) + z", fresh<Nothing>, random_tensors({{n}, {n}, {n}}), with(pointwise)};
}
Workload mlp_case(int64_t batch) {
  return {"mlp-" + std::to_string(batch), "784-256-256-10 with relu", fresh<Mlp>, random_tensors({{batch, 784}}),
          with(run_mlp)};
}

}  // namespace

const std::vector<Workload>& cases() {
  static const std::vector<Workload> table = {
      pointwise_case("pointwise-1e3", 1000),
      pointwise_case("pointwise-1e5", 100000),
      pointwise_case("pointwise-1e7", 10000000),
      {"softmax-norm", "layer_norm(x + softmax(y)), 4096 x 1024", fresh<Nothing>,
       random_tensors({{4096, 1024}, {4096, 1024}, {1024}, {1024}}), with(softmax_norm)},
      mlp_case(1),
      mlp_case(64),
      mlp_case(1024),
      {"mlp-train-64", "the same, training step", fresh<Mlp>,
       [] {
         torch::manual_seed(1);
         return Tensors{torch::randn({64, 784}), torch::randint(10, {64})};
       },
       with(train_mlp)},
  };
  return table;
}

}  // namespace precast::bench
