// A two-layer LSTM: hidden 256, 64 steps, batch 8.
#pragma once
#include "models/workload.h"

namespace precast::demo {

constexpr int64_t kLstmWidth = 256, kLstmSteps = 64, kLstmBatch = 8;

struct Lstm : torch::nn::Module {
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Linear out{nullptr};

  Lstm() {
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(kLstmWidth, kLstmWidth).num_layers(2)));
    out = register_module("out", torch::nn::Linear(kLstmWidth, kLstmWidth));
  }
  Tensors forward(const at::Tensor& x) {
    const auto [y, state] = lstm->forward(x);
    return {out(y), std::get<0>(state), std::get<1>(state)};
  }
};

inline Tensors lstm_inference(Lstm& net, const Tensors& in) {
  torch::NoGradGuard no_grad;
  return net.forward(in[0]);
}
inline Tensors lstm_training(Lstm& net, const Tensors& in) {
  const auto loss = torch::mse_loss(net.forward(in[0])[0], in[1]);
  loss.backward();
  return {loss.detach()};
}

}  // namespace precast::demo
