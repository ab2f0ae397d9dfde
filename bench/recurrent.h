// Recurrent layers that ATen steps through time op by op, and loops over cells as users write them.
#pragma once
#include "models/workload.h"

namespace precast::bench {

constexpr int64_t kWidth = 192, kSteps = 64, kBatch = 8;

template <class Layer, class Options>
struct Recurrent : torch::nn::Module {
  Layer layer{nullptr};
  Recurrent() { layer = register_module("layer", Layer(Options(kWidth, kWidth).bidirectional(true))); }
  at::Tensor forward(const at::Tensor& x) { return std::get<0>(layer(x)); }
};
using Gru = Recurrent<torch::nn::GRU, torch::nn::GRUOptions>;
using Rnn = Recurrent<torch::nn::RNN, torch::nn::RNNOptions>;

/// Two cells above each other, stepped together.
struct LstmCells : torch::nn::Module {
  torch::nn::LSTMCell low{nullptr}, high{nullptr};
  LstmCells() {
    low = register_module("low", torch::nn::LSTMCell(kWidth, kWidth));
    high = register_module("high", torch::nn::LSTMCell(kWidth, kWidth));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor zero = torch::zeros({x.size(1), kWidth});
    auto a = std::tuple(zero, zero), b = a;
    demo::Tensors out;
    for (int64_t t = 0; t < x.size(0); ++t) {
      a = low(x[t], a);
      b = high(std::get<0>(a), b);
      out.push_back(std::get<0>(b));
    }
    return torch::stack(out);
  }
};

template <class M>
demo::Tensors step_through(M& net, const demo::Tensors& in) {
  torch::NoGradGuard no_grad;
  return {net.forward(in[0])};
}
template <class M>
demo::Tensors train_through(M& net, const demo::Tensors& in) {
  const auto loss = net.forward(in[0]).square().mean();
  loss.backward();
  return {loss.detach()};
}

}  // namespace precast::bench
