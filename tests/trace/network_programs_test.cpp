// Layers, random ops, autograd and training steps.
#include <ATen/autocast_mode.h>
#include <doctest/doctest.h>

#include "harness.h"

namespace precast::trace::testing {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

namespace {

template <class M, class Make>
Program layer(std::string name, Make make, std::vector<std::vector<int64_t>> shapes,
              std::function<Tensors(M&, const Tensors&)> fn) {
  return on_module<M>(
      std::move(name), make,
      [shapes] {
        Tensors inputs;
        for (auto& s : shapes) inputs.push_back(torch::randn(s));
        return inputs;
      },
      std::move(fn));
}

/// forward, then backward of the sum of squares.
template <class M, class Make>
Program trained(std::string name, Make make, std::vector<std::vector<int64_t>> shapes) {
  return layer<M>(std::move(name), make, std::move(shapes), [](M& m, const Tensors& x) {
    Tensor y = m->forward(x[0]);
    y.pow(2).mean().backward();
    return Tensors{y.detach()};
  });
}

struct ConvNetImpl : nn::Module {
  nn::Conv2d conv{nullptr};
  nn::BatchNorm2d norm{nullptr};
  nn::Linear fc{nullptr};
  nn::Dropout drop{nullptr};
  ConvNetImpl() {
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(3, 4, 3).padding(1)));
    norm = register_module("norm", nn::BatchNorm2d(4));
    drop = register_module("drop", nn::Dropout(0.3));
    fc = register_module("fc", nn::Linear(4 * 4 * 4, 5));
  }
  Tensor forward(Tensor x) {
    x = torch::max_pool2d(torch::relu(norm(conv(x))), 2);
    x.select(1, 0).mul_(0.5);
    return fc(drop(x.flatten(1)));
  }
};
TORCH_MODULE(ConvNet);

struct TwoLayersImpl : nn::Module {
  nn::Linear a{nullptr}, b{nullptr};
  TwoLayersImpl() {
    a = register_module("a", nn::Linear(6, 8));
    b = register_module("b", nn::Linear(8, 3));
  }
  Tensor forward(const Tensor& x) { return b(torch::tanh(a(x))); }
};
TORCH_MODULE(TwoLayers);

Program two_layers(std::string name, std::function<Tensors(TwoLayers&, const Tensors&)> fn) {
  return layer<TwoLayers>(std::move(name), [] { return TwoLayers(); }, {{4, 6}, {4, 3}}, std::move(fn));
}
/// The same with gradients there before the call.
Program two_layers_with_grads(std::string name, std::function<Tensors(TwoLayers&, const Tensors&)> fn) {
  Program p = two_layers(std::move(name), std::move(fn));
  p.make = [make = p.make] {
    State s = make();
    for (auto& q : s.module->parameters()) q.mutable_grad() = torch::randn_like(q);
    return s;
  };
  return p;
}

Tensor loss_of(TwoLayers& m, const Tensors& x) { return torch::mse_loss(m->forward(x[0]), x[1]); }

struct Cube : torch::autograd::Function<Cube> {
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list g) {
    const Tensor x = ctx->get_saved_variables()[0];
    return {g[0] * 3 * x * x};
  }
};

}  // namespace

TEST_CASE("layers, inference with grad mode on") {
  check_all({
      layer<nn::Linear>(
          "linear", [] { return nn::Linear(6, 3); }, {{4, 6}}, [](auto& m, auto& x) { return Tensors{m(x[0])}; }),
      layer<ConvNet>(
          "conv net in training mode", [] { return ConvNet(); }, {{2, 3, 8, 8}},
          [](auto& m, auto& x) { return Tensors{m(x[0])}; }),
      layer<ConvNet>(
          "conv net in eval mode", [] { return ConvNet(); }, {{2, 3, 8, 8}},
          [](auto& m, auto& x) {
            m->eval();
            return Tensors{m(x[0])};
          }),
      layer<nn::LSTM>(
          "lstm", [] { return nn::LSTM(nn::LSTMOptions(6, 5).num_layers(2).batch_first(true)); }, {{3, 4, 6}},
          [](auto& m, auto& x) {
            auto [y, hc] = m(x[0]);
            return Tensors{y, std::get<0>(hc), std::get<1>(hc)};
          }),
      layer<nn::GRU>(
          "gru", [] { return nn::GRU(nn::GRUOptions(6, 5).bidirectional(true)); }, {{4, 3, 6}},
          [](auto& m, auto& x) {
            auto [y, h] = m(x[0]);
            return Tensors{y, h};
          }),
      layer<nn::MultiheadAttention>(
          "multi-head attention", [] { return nn::MultiheadAttention(8, 2); }, {{5, 2, 8}},
          [](auto& m, auto& x) {
            auto [y, w] = m(x[0], x[0], x[0]);
            return Tensors{y, w};
          }),
      layer<nn::TransformerEncoderLayer>(
          "transformer layer",
          [] { return nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16)); },
          {{5, 2, 8}}, [](auto& m, auto& x) { return Tensors{m(x[0])}; }),
      layer<nn::Embedding>(
          "embedding", [] { return nn::Embedding(10, 4); }, {{3}},
          [](auto& m, auto&) { return Tensors{m(torch::tensor({1, 5, 1}))}; }),
      layer<nn::Embedding>(
          "embedding with max_norm", [] { return nn::Embedding(nn::EmbeddingOptions(10, 4).max_norm(1.0)); }, {{3}},
          [](auto& m, auto&) {
            torch::NoGradGuard no_grad;
            return Tensors{m(torch::tensor({1, 5, 1}))};
          }),
      layer<nn::EmbeddingBag>(
          "embedding bag", [] { return nn::EmbeddingBag(10, 4); }, {{3}},
          [](auto& m, auto&) { return Tensors{m(torch::tensor({1, 5, 1, 2}), torch::tensor({0, 2}))}; }),
      layer<nn::ConvTranspose2d>(
          "transposed convolution", [] { return nn::ConvTranspose2d(nn::ConvTranspose2dOptions(3, 2, 3).stride(2)); },
          {{1, 3, 4, 4}}, [](auto& m, auto& x) { return Tensors{m(x[0])}; }),
      layer<nn::InstanceNorm1d>(
          "instance norm with statistics",
          [] { return nn::InstanceNorm1d(nn::InstanceNorm1dOptions(3).affine(true).track_running_stats(true)); },
          {{2, 3, 6}}, [](auto& m, auto& x) { return Tensors{m(x[0])}; }),
      layer<nn::LayerNorm>(
          "layer norm", [] { return nn::LayerNorm(nn::LayerNormOptions({6})); }, {{4, 6}},
          [](auto& m, auto& x) { return Tensors{m(x[0])}; }),
      layer<ConvNet>(
          "channels_last", [] { return ConvNet(); }, {{2, 3, 8, 8}},
          [](auto& m, auto& x) { return Tensors{m->conv(x[0].contiguous(torch::MemoryFormat::ChannelsLast))}; }),
      on_tensors("scaled dot product attention", {{2, 2, 5, 8}, {2, 2, 5, 8}, {2, 2, 5, 8}},
                 [](auto& x) {
                   return Tensors{torch::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, true),
                                  torch::scaled_dot_product_attention(x[0], x[1], x[2])};
                 }),
      two_layers("inference mode",
                 [](auto& m, auto& x) {
                   c10::InferenceMode guard;
                   return Tensors{m->forward(x[0]), torch::softmax(x[0], 1)};
                 }),
      two_layers("no_grad",
                 [](auto& m, auto& x) {
                   torch::NoGradGuard guard;
                   return Tensors{m->forward(x[0])};
                 }),
      two_layers("autocast",
                 [](auto& m, auto& x) {
                   at::autocast::set_autocast_enabled(at::kCPU, true);
                   at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
                   at::autocast::increment_nesting();
                   Tensor y = m->forward(x[0]);
                   if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
                   at::autocast::set_autocast_enabled(at::kCPU, false);
                   y.to(torch::kFloat).sum().backward();
                   return Tensors{y.detach()};
                 }),
      two_layers("anomaly mode",
                 [](auto& m, auto& x) {
                   torch::autograd::DetectAnomalyGuard guard;
                   Tensor loss = loss_of(m, x);
                   loss.backward();
                   return Tensors{loss.detach()};
                 }),
  });
}

TEST_CASE("random ops") {
  check_all({
      on_tensors("all kinds", {{4}},
                 [](auto& x) {
                   Tensor y = torch::rand({3}) + torch::randn({3}).sum();
                   return Tensors{y,
                                  torch::randint(10, {4}),
                                  torch::randperm(5),
                                  torch::bernoulli(torch::full({4}, 0.5)),
                                  torch::normal(0.0, 1.0, {3}),
                                  torch::empty({3}).uniform_(),
                                  x[0] * torch::rand_like(x[0]),
                                  torch::multinomial(torch::ones({4}), 2),
                                  torch::randn({17}, torch::kDouble)};
                 }),
      on_tensors("unused draws still count", {{4}},
                 [](auto& x) {
                   (void)torch::rand({3});
                   return Tensors{x[0] + 1};
                 }),
      on_tensors("dropout in training and in eval", {{8}},
                 [](auto& x) { return Tensors{torch::dropout(x[0], 0.5, true), torch::dropout(x[0], 0.5, false)}; }),
      on_tensors("rrelu and in place draws", {{8}},
                 [](auto& x) {
                   Tensor y = x[0] * 1;
                   y.normal_();
                   y.narrow(0, 0, 3).uniform_(1, 2);
                   return Tensors{torch::rrelu(x[0], 0.1, 0.3, true), y, torch::empty({2}).exponential_()};
                 }),
  });
}

TEST_CASE("backward") {
  check_all({
      trained<nn::Linear>("linear", [] { return nn::Linear(6, 3); }, {{4, 6}}),
      trained<ConvNet>("conv net with batch norm and dropout", [] { return ConvNet(); }, {{2, 3, 8, 8}}),
      trained<TwoLayers>("two layers", [] { return TwoLayers(); }, {{4, 6}}),
      layer<nn::LSTM>(
          "lstm", [] { return nn::LSTM(nn::LSTMOptions(6, 5).num_layers(2)); }, {{4, 3, 6}},
          [](auto& m, auto& x) {
            Tensor y = std::get<0>(m(x[0]));
            y.sum().backward();
            return Tensors{y.detach()};
          }),
      layer<nn::GRU>(
          "gru", [] { return nn::GRU(6, 5); }, {{4, 3, 6}},
          [](auto& m, auto& x) {
            std::get<0>(m(x[0])).pow(2).sum().backward();
            return Tensors{};
          }),
      layer<nn::MultiheadAttention>(
          "multi-head attention", [] { return nn::MultiheadAttention(8, 2); }, {{5, 2, 8}},
          [](auto& m, auto& x) {
            Tensor y = std::get<0>(m(x[0], x[0], x[0]));
            y.pow(2).sum().backward();
            return Tensors{y.detach()};
          }),
      layer<nn::TransformerEncoderLayer>(
          "transformer layer",
          [] { return nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16)); },
          {{5, 2, 8}},
          [](auto& m, auto& x) {
            m(x[0]).pow(2).sum().backward();
            return Tensors{};
          }),
      layer<nn::Embedding>(
          "embedding", [] { return nn::Embedding(10, 4); }, {{3}},
          [](auto& m, auto&) {
            m(torch::tensor({1, 5, 1})).pow(2).sum().backward();
            return Tensors{};
          }),
      two_layers("gradients returned",
                 [](auto& m, auto& x) { return torch::autograd::grad({loss_of(m, x)}, m->parameters()); }),
      two_layers("double backward",
                 [](auto& m, auto& x) {
                   auto g = torch::autograd::grad({loss_of(m, x)}, m->parameters(), {}, true, true);
                   Tensor penalty = torch::zeros({});
                   for (auto& one : g) penalty = penalty + one.pow(2).sum();
                   penalty.backward();
                   return Tensors{penalty.detach()};
                 }),
      two_layers("retain_graph, backward twice",
                 [](auto& m, auto& x) {
                   Tensor loss = loss_of(m, x);
                   loss.backward({}, true);
                   loss.backward();
                   return Tensors{loss.detach()};
                 }),
      two_layers("create_graph",
                 [](auto& m, auto& x) {
                   Tensor loss = loss_of(m, x);
                   loss.backward({}, true, true);
                   return Tensors{loss.detach()};
                 }),
      two_layers("a result that requires grad after backward",
                 [](auto& m, auto& x) {
                   loss_of(m, x).backward();
                   return Tensors{m->forward(x[0])};
                 }),
      two_layers("hooks",
                 [](auto& m, auto& x) {
                   Tensor h = torch::tanh(m->a(x[0]));
                   h.register_hook([](Tensor g) { return g * 2; });
                   h.retain_grad();
                   auto handle = m->b->weight.register_hook([](Tensor g) { return g.clamp(-0.1, 0.1); });
                   torch::mse_loss(m->b(h), x[1]).backward();
                   m->b->weight.remove_hook(handle);
                   return Tensors{h.grad() + 0};
                 }),
      two_layers("custom function",
                 [](auto& m, auto& x) {
                   Tensor y = Cube::apply(m->forward(x[0]));
                   y.sum().backward();
                   return Tensors{y.detach()};
                 }),
      two_layers("custom function that keeps its graph",
                 [](auto& m, auto& x) { return Tensors{Cube::apply(m->forward(x[0]))}; }),
      two_layers("a frozen parameter",
                 [](auto& m, auto& x) {
                   Tensor y = torch::linear(torch::tanh(m->a(x[0])), m->b->weight.detach(), m->b->bias);
                   y.sum().backward();
                   return Tensors{y.detach()};
                 }),
      two_layers("gradient of a view of an input of the graph",
                 [](auto& m, auto& x) {
                   Tensor h = x[0].detach().clone().requires_grad_();
                   m->forward(h).sum().backward();
                   return Tensors{h.grad()};
                 }),
  });
}

TEST_CASE("gradients: accumulate, replace, clear") {
  using Fn = std::function<Tensors(TwoLayers&, const Tensors&)>;
  const std::vector<std::pair<std::string, Fn>> steps = {
      {"plain backward",
       [](auto& m, auto& x) {
         loss_of(m, x).backward();
         return Tensors{};
       }},
      {"zero_grad, backward",
       [](auto& m, auto& x) {
         m->zero_grad();
         loss_of(m, x).backward();
         return Tensors{};
       }},
      {"zero_grad(false), backward",
       [](auto& m, auto& x) {
         m->zero_grad(false);
         loss_of(m, x).backward();
         return Tensors{};
       }},
      {"backward, zero_grad",
       [](auto& m, auto& x) {
         loss_of(m, x).backward();
         m->zero_grad();
         return Tensors{};
       }},
      {"zero_grad only",
       [](auto& m, auto&) {
         m->zero_grad();
         return Tensors{};
       }},
      {"two micro-batches",
       [](auto& m, auto& x) {
         loss_of(m, x).backward();
         (m->forward(x[0] * 2)).sum().backward();
         return Tensors{};
       }},
      {"zero_grad, backward, clip, step",
       [](auto& m, auto& x) {
         m->zero_grad();
         Tensor loss = loss_of(m, x);
         loss.backward();
         torch::NoGradGuard no_grad;
         for (auto& p : m->parameters()) p.mutable_grad().mul_(0.5);
         for (auto& p : m->parameters()) p.sub_(p.grad(), 0.1);
         return Tensors{loss};
       }},
      {"one layer only",
       [](auto& m, auto& x) {
         m->a(x[0]).sum().backward();
         return Tensors{};
       }},
      {"assigned gradient",
       [](auto& m, auto& x) {
         auto g = torch::autograd::grad({loss_of(m, x)}, m->parameters());
         for (size_t i = 0; i < g.size(); ++i) m->parameters()[i].mutable_grad() = g[i] * 2;
         return Tensors{};
       }},
      {"create_graph",
       [](auto& m, auto& x) {
         loss_of(m, x).backward({}, true, true);
         return Tensors{};
       }},
  };
  for (const auto& [name, fn] : steps) {
    Program p = two_layers(name + ", no gradient before", fn),
            q = two_layers_with_grads(name + ", gradients before", fn);
    p.exact = q.exact = name != "two micro-batches";
    check_all({p, q});
  }
}

TEST_CASE("optimizers with fresh state") {
  const auto step = [](auto make) {
    return [make](TwoLayers& m, const Tensors& x) {
      auto optimizer = make(m->parameters());
      optimizer.zero_grad();
      Tensor loss = loss_of(m, x);
      loss.backward();
      optimizer.step();
      return Tensors{loss.detach()};
    };
  };
  namespace optim = torch::optim;
  check_all({
      two_layers("sgd", step([](auto p) { return optim::SGD(p, optim::SGDOptions(0.1)); })),
      two_layers("sgd with momentum",
                 step([](auto p) { return optim::SGD(p, optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.1)); })),
      two_layers("adam", step([](auto p) { return optim::Adam(p, optim::AdamOptions(0.1)); })),
      two_layers("adamw", step([](auto p) { return optim::AdamW(p, optim::AdamWOptions(0.1)); })),
      two_layers("rmsprop", step([](auto p) { return optim::RMSprop(p, optim::RMSpropOptions(0.1)); })),
      two_layers("adagrad", step([](auto p) { return optim::Adagrad(p, optim::AdagradOptions(0.1)); })),
  });
}

TEST_CASE("parameters that are views of one flat buffer") {
  Program p = two_layers("flat", [](auto& m, auto& x) {
    Tensor loss = loss_of(m, x);
    loss.backward();
    torch::NoGradGuard no_grad;
    for (auto& q : m->parameters()) q.mul_(0.9);
    return Tensors{loss};
  });
  p.make = [make = p.make] {
    State s = make();
    int64_t n = 0, at = 0;
    for (auto& q : s.module->parameters()) n += q.numel();
    Tensor flat = torch::empty({n});
    for (auto& q : s.module->parameters()) {
      Tensor part = flat.narrow(0, at, q.numel()).view(q.sizes());
      part.copy_(q.detach());
      q.set_data(part);
      at += q.numel();
    }
    return s;
  };
  check(p);
}

}  // namespace precast::trace::testing
