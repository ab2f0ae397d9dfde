// Loops through time that arrive unrolled: layers that ATen steps op by op, and cells in loops of the user's.
#include "api/agree.h"

using namespace precast::testing;

namespace nn = torch::nn;
using torch::randn;

namespace {

constexpr int64_t kSteps = 6, kBatch = 3, kIn = 5, kUnits = 7;

/// A layer: outputs and last state; in training the loss, and gradients of parameters.
template <class Layer, class Options>
Program layer(const std::string& name, Options options, bool training, torch::Dtype dtype = torch::kFloat) {
  std::vector<int64_t> sizes = {kSteps, kBatch, kIn};
  if (options.batch_first()) std::swap(sizes[0], sizes[1]);
  const auto make = [=] {
    Layer l(options);
    l->to(dtype);
    l->train(training);
    return l;
  };
  return with<Layer>(
      name + (training ? ", training" : ""), make, [=] { return Tensors{randn(sizes, dtype)}; },
      [=](auto& l, const Tensors& x) -> Tensors {
        const torch::AutoGradMode grad(training);
        const auto [y, h] = l.forward(x[0]);
        if (!training) return {y, h};
        const Tensor loss = y.square().mean() + h.sin().sum();
        loss.backward();
        return {loss.detach(), y.detach()};
      });
}

/// Two cells above each other, and a linear layer that reads every step.
template <class Cell, bool lstm>
struct CellsImpl : nn::Module {
  Cell low{nullptr}, high{nullptr};
  nn::Linear out{nullptr};
  CellsImpl() {
    low = register_module("low", Cell(kIn, kUnits));
    high = register_module("high", Cell(kUnits, kUnits));
    out = register_module("out", nn::Linear(kUnits, 2));
  }
  Tensor forward(const Tensor& x, int64_t time_dim) {
    const Tensor zero = torch::zeros({kBatch, kUnits}, x.options().requires_grad(false));
    auto state = [&] {
      if constexpr (lstm)
        return std::tuple(zero, zero);
      else
        return zero;
    }();
    auto below = state;
    const auto first = [](const auto& s) -> Tensor {
      if constexpr (lstm)
        return std::get<0>(s);
      else
        return s;
    };
    Tensors all;
    for (int64_t t = 0; t < x.size(time_dim); ++t) {
      below = low(x.select(time_dim, t), below);
      state = high(first(below), state);
      all.push_back(out(first(state)));
    }
    return torch::stack(all, time_dim);
  }
};
using LstmCellsImpl = CellsImpl<nn::LSTMCell, true>;
using GruCellsImpl = CellsImpl<nn::GRUCell, false>;
using RnnCellsImpl = CellsImpl<nn::RNNCell, false>;
TORCH_MODULE(LstmCells);
TORCH_MODULE(GruCells);
TORCH_MODULE(RnnCells);

template <class Cells>
Program cells(const std::string& name, int64_t time_dim, bool training, torch::Dtype dtype = torch::kFloat) {
  const auto make = [=] {
    Cells c;
    c->to(dtype);
    return c;
  };
  const auto in = [=] {
    return Tensors{time_dim == 0 ? randn({kSteps, kBatch, kIn}, dtype) : randn({kBatch, kSteps, kIn}, dtype)};
  };
  return with<Cells>(name + (training ? ", training" : ""), make, in, [=](auto& c, const Tensors& x) -> Tensors {
    const torch::AutoGradMode grad(training);
    const Tensor y = c.forward(x[0], time_dim);
    if (!training) return {y};
    const Tensor loss = y.square().mean();
    loss.backward();
    return {loss.detach(), y.detach()};
  });
}

/// A loop that writes its results into a tensor made before, and reads what it wrote; x is computed, so that its parts
/// have gradients.
struct WritesImpl : nn::Module {
  nn::Linear in{nullptr}, step{nullptr};
  WritesImpl() {
    in = register_module("in", nn::Linear(kIn, kUnits));
    step = register_module("step", nn::Linear(kUnits, kUnits));
  }
};
TORCH_MODULE(Writes);
Program writes(bool training) {
  return with<Writes>(
      training ? "writes of steps, training" : "writes of steps", [] { return Writes(); },
      [] { return Tensors{randn({kBatch, kSteps, kIn})}; },
      [=](WritesImpl& m, const Tensors& in) -> Tensors {
        const torch::AutoGradMode grad(training);
        const Tensor x = m.in(in[0]), y = torch::zeros({kBatch, kSteps, kUnits});
        for (int64_t t = 0; t < kSteps; ++t) {
          const Tensor before = t > 0 ? y.select(1, t - 1).clone() : torch::zeros({kBatch, kUnits});
          y.select(1, t).copy_(torch::tanh(x.select(1, t) + m.step(before)));
        }
        if (!training) return {y};
        const Tensor loss = (y * x).mean();
        loss.backward();
        return {loss.detach(), y.detach()};
      });
}

}  // namespace

TEST_CASE("recurrent layers, unrolled") {
  const auto gru = nn::GRUOptions(kIn, kUnits);
  const auto rnn = nn::RNNOptions(kIn, kUnits);
  for (const bool training : {false, true})
    agree_all({
        layer<nn::GRU>("GRU", gru, training),
        layer<nn::GRU>("GRU, two layers, both directions, batch first",
                       nn::GRUOptions(gru).num_layers(2).bidirectional(true).batch_first(true), training),
        layer<nn::GRU>("GRU, f64, without biases", nn::GRUOptions(gru).bias(false), training, torch::kDouble),
        layer<nn::RNN>("RNN, tanh, both directions", nn::RNNOptions(rnn).bidirectional(true), training),
        layer<nn::RNN>("RNN, relu, two layers", nn::RNNOptions(rnn).nonlinearity(torch::kReLU).num_layers(2), training),
    });
}

TEST_CASE("cells in loops") {
  for (const bool training : {false, true})
    agree_all({
        cells<LstmCells>("LSTM cells", 0, training),
        cells<LstmCells>("LSTM cells, batch first, f64", 1, training, torch::kDouble),
        cells<GruCells>("GRU cells, batch first", 1, training),
        cells<RnnCells>("RNN cells", 0, training),
        writes(training),
    });
}
