#include "cases.h"

#include "mobilenet.h"
#include "models/gpt.h"
#include "recurrent.h"

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

struct Small : torch::nn::Module {
  torch::nn::Linear layer{nullptr};
  Small() { layer = register_module("layer", torch::nn::Linear(8, 8)); }
};
Tensors run_small(Small& net, const Tensors& in) {
  torch::NoGradGuard no_grad;
  return {net.layer(in[0])};
}
struct Gpt2Block : GptBlock {
  Gpt2Block() : GptBlock(768, 12) {}
};
Tensors run_gpt2_block(Gpt2Block& block, const Tensors& in) {
  torch::NoGradGuard no_grad;
  return {block.forward(in[0])};
}
Tensors train_gpt2_block(Gpt2Block& block, const Tensors& in) {
  const auto loss = block.forward(in[0]).square().mean();
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
template <class M>
AnyModule inference() {
  const auto m = seeded<M>();
  m->eval();
  return NnModule(m);
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
template <class M>
void add_recurrent(std::vector<Workload>& table, const std::string& name, const std::string& what) {
  const auto inputs = random_tensors({{kSteps, kBatch, kWidth}});
  table.push_back({name, what + ", width 192, 64 steps, batch 8", fresh<M>, inputs, with(step_through<M>)});
  table.push_back({name + "-train", "the same, training step", fresh<M>, inputs, with(train_through<M>)});
}
Workload mlp_case(int64_t batch) {
  return {"mlp-" + std::to_string(batch), "784-256-256-10 with relu", fresh<Mlp>, random_tensors({{batch, 784}}),
          with(run_mlp)};
}

}  // namespace

const std::vector<Workload>& cases() {
  static const std::vector<Workload> table = [] {
    std::vector<Workload> all = {
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
        {"linear-8", "Linear(8, 8), one row", fresh<Small>, random_tensors({{1, 8}}), with(run_small)},
        {"mobilenet-b1", "MobileNetV3-Small, batch 1", inference<MobileNetImpl>, random_tensors({{1, 3, 224, 224}}),
         with(run_mobilenet)},
        {"gpt2-block", "one block of GPT-2, width 768, 2 x 256 tokens", fresh<Gpt2Block>,
         random_tensors({{2, 256, 768}}), with(run_gpt2_block)},
        {"gpt2-block-train", "the same, training step", fresh<Gpt2Block>, random_tensors({{2, 256, 768}}),
         with(train_gpt2_block)},
    };
    add_recurrent<Gru>(all, "gru", "GRU, bidirectional");
    add_recurrent<Rnn>(all, "rnn", "RNN with tanh, bidirectional");
    add_recurrent<LstmCells>(all, "lstm-cells", "a loop over two LSTM cells");
    return all;
  }();
  return table;
}

}  // namespace precast::bench
