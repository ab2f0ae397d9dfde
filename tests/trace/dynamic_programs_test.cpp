// Programs with open sizes, recorded once and run at others, 0 and 1 included.
#include <doctest/doctest.h>

#include "harness.h"
#include "precast/dynamic.h"

using namespace precast::trace::testing;
using precast::mark_unbacked;
namespace nn = torch::nn;

namespace {

std::function<void(const State&)> first_dims(size_t inputs = 1) {
  return [inputs](const State& s) {
    for (size_t i = 0; i < inputs; ++i) mark_unbacked(s.inputs[i], 0, {.shape_id = "n"});
  };
}

using Fn = std::function<Tensors(const Tensors&)>;
/// On one tensor [n, 6].
OpenProgram rows(std::string name, Fn fn) {
  return {std::move(name), [](int64_t n) { return State{{torch::randn({n, 6})}, nullptr, nullptr}; }, first_dims(),
          [fn](State& s) { return fn(s.inputs); }};
}

template <class Module>
OpenProgram on_module(std::string name, std::function<Module()> make, std::function<Tensors(int64_t)> inputs,
                      std::function<Tensors(Module&, const Tensors&)> fn, size_t marked = 1) {
  return {std::move(name),
          [make, inputs](int64_t n) {
            auto holder = std::make_shared<Module>(make());
            return State{inputs(n), holder->ptr(), holder};
          },
          first_dims(marked), [fn](State& s) { return fn(s.as<Module>(), s.inputs); }};
}

}  // namespace

TEST_CASE("open sizes: pointwise, reductions, linear") {
  check_all(std::vector<OpenProgram>{
      rows("relu", [](const Tensors& x) { return Tensors{torch::relu(x[0] * 2 + 1)}; }),
      rows("sums", [](const Tensors& x) { return Tensors{x[0].sum(), x[0].sum(0), x[0].mean(1), x[0].sum(1, true)}; }),
      rows("in place",
           [](const Tensors& x) {
             x[0].mul_(2);
             return Tensors{x[0] + 1};
           }),
      rows("in place on a view",
           [](const Tensors& x) {
             auto y = x[0] * 2;
             y.narrow(1, 1, 3).add_(1);
             return Tensors{y};
           }),
      rows("a size as a number",
           [](const Tensors& x) { return Tensors{x[0].sum(0) / x[0].sym_size(0), x[0] * x[0].sym_size(0)}; }),
      rows("views",
           [](const Tensors& x) {
             return Tensors{x[0].t(), x[0].unsqueeze(1).expand_symint({x[0].sym_size(0), 3, 6}).clone()};
           }),
      rows("reshape",
           [](const Tensors& x) {
             return Tensors{x[0].reshape({-1}) * 2, x[0].view_symint({x[0].sym_size(0) * 2, 3}) + 1};
           }),
      on_module<nn::Linear>(
          "linear", [] { return nn::Linear(6, 4); }, [](int64_t n) { return Tensors{torch::randn({n, 6})}; },
          [](nn::Linear& m, const Tensors& x) { return Tensors{m(x[0])}; }),
      on_module<nn::Linear>(
          "linear step", [] { return nn::Linear(6, 4); }, [](int64_t n) { return Tensors{torch::randn({n, 6})}; },
          [](nn::Linear& m, const Tensors& x) {
            auto loss = torch::relu(m(x[0])).pow(2).sum();
            loss.backward();
            return Tensors{loss.detach()};
          }),
      on_module<nn::Linear>(
          "linear mean step", [] { return nn::Linear(6, 4); },
          [](int64_t n) { return Tensors{torch::randn({n, 6}), torch::randn({n, 4})}; },
          [](nn::Linear& m, const Tensors& x) {
            auto loss = torch::mse_loss(m(x[0]), x[1]);
            loss.backward();
            return Tensors{loss.detach()};
          },
          2),
  });
}

namespace {

/// On tensors made by `inputs`, the first `marked` of which have n rows.
OpenProgram on(std::string name, std::function<Tensors(int64_t)> inputs, Fn fn, size_t marked = 1) {
  return {std::move(name), [inputs](int64_t n) { return State{inputs(n), nullptr, nullptr}; }, first_dims(marked),
          [fn](State& s) { return fn(s.inputs); }};
}

struct ConvNetImpl : nn::Module {
  ConvNetImpl()
      : conv(register_module("conv", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1).stride(2)))),
        norm(register_module("norm", nn::BatchNorm2d(8))),
        fc(register_module("fc", nn::Linear(8, 5))) {}
  Tensor forward(Tensor x) {
    x = torch::relu(norm(conv(x)));
    x = torch::max_pool2d(x, 2);
    x = torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    return fc(x);
  }
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  nn::Linear fc;
};
TORCH_MODULE(ConvNet);

struct BlockImpl : nn::Module {
  BlockImpl()
      : ln1(register_module("ln1", nn::LayerNorm(nn::LayerNormOptions({16})))),
        ln2(register_module("ln2", nn::LayerNorm(nn::LayerNormOptions({16})))),
        qkv(register_module("qkv", nn::Linear(16, 48))),
        proj(register_module("proj", nn::Linear(16, 16))),
        up(register_module("up", nn::Linear(16, 32))),
        down(register_module("down", nn::Linear(32, 16))),
        tokens(register_module("tokens", nn::Embedding(11, 16))),
        head(register_module("head", nn::Linear(16, 11))) {}
  Tensor forward(Tensor ids) {
    auto b = ids.sym_size(0), t = ids.sym_size(1);
    auto x = tokens(ids);
    auto parts = qkv(ln1(x)).chunk(3, -1);
    const auto heads = [&](const Tensor& p) { return p.view_symint({b, t, 2, 8}).transpose(1, 2); };
    auto y = at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {}, 0.0, true);
    y = y.transpose(1, 2).contiguous().view_symint({b, t, 16});
    x = x + proj(y);
    x = x + down(torch::gelu(up(ln2(x))));
    return head(x);
  }
  nn::LayerNorm ln1, ln2;
  nn::Linear qkv, proj, up, down;
  nn::Embedding tokens;
  nn::Linear head;
};
TORCH_MODULE(Block);

Tensors ids(int64_t n) { return {torch::randint(11, {2, n}, torch::kLong), torch::randint(11, {2, n}, torch::kLong)}; }
void mark_lengths(const State& s) {
  for (const Tensor& t : s.inputs) mark_unbacked(t, 1, {.shape_id = "t"});
}

}  // namespace

TEST_CASE("open sizes: networks") {
  std::vector<OpenProgram> programs{
      on_module<ConvNet>(
          "conv eval",
          [] {
            ConvNet m;
            m->eval();
            return m;
          },
          [](int64_t n) { return Tensors{torch::randn({n, 3, 16, 16})}; },
          [](ConvNet& m, const Tensors& x) { return Tensors{m(x[0])}; }),
      on_module<ConvNet>(
          "conv train", [] { return ConvNet(); },
          [](int64_t n) { return Tensors{torch::randn({n, 3, 16, 16}), torch::randint(5, {n}, torch::kLong)}; },
          [](ConvNet& m, const Tensors& x) {
            auto loss = torch::cross_entropy_loss(m(x[0]), x[1]);
            loss.backward();
            return Tensors{loss.detach()};
          },
          2),
      on_module<nn::Embedding>(
          "embedding step", [] { return nn::Embedding(7, 4); },
          [](int64_t n) { return Tensors{torch::randint(7, {n}, torch::kLong)}; },
          [](nn::Embedding& m, const Tensors& x) {
            auto y = m(x[0]).sum();
            y.backward();
            return Tensors{y.detach()};
          }),
      on_module<nn::Conv1d>(
          "conv1d", [] { return nn::Conv1d(nn::Conv1dOptions(3, 4, 3).padding(1)); },
          [](int64_t n) { return Tensors{torch::randn({n, 3, 9})}; },
          [](nn::Conv1d& m, const Tensors& x) { return Tensors{torch::relu(m(x[0]))}; }),
  };
  OpenProgram recurrent = on_module<nn::LSTM>(
      "lstm", [] { return nn::LSTM(nn::LSTMOptions(4, 5)); },
      [](int64_t n) { return Tensors{torch::randn({n, 2, 4})}; },
      [](nn::LSTM& m, const Tensors& x) { return Tensors{std::get<0>(m(x[0]))}; });
  recurrent.sizes = {1, 2, 5, 7, 100};  // eager refuses 0
  programs.push_back(recurrent);
  recurrent.name = "lstm step";
  recurrent.fn = [](State& s) {
    auto y = std::get<0>(s.as<nn::LSTM>()(s.inputs[0])).pow(2).sum();
    y.backward();
    return Tensors{y.detach()};
  };
  programs.push_back(recurrent);
  OpenProgram attention =
      on_module<Block>("gpt", [] { return Block(); }, ids, [](Block& m, const Tensors& x) { return Tensors{m(x[0])}; });
  attention.mark = mark_lengths;
  programs.push_back(attention);
  attention.name = "gpt step";
  attention.fn = [](State& s) {
    auto logits = s.as<Block>()(s.inputs[0]);
    auto loss = torch::cross_entropy_loss(logits.reshape({-1, 11}), s.inputs[1].reshape({-1}));
    loss.backward();
    return Tensors{loss.detach()};
  };
  programs.push_back(attention);
  check_all(programs);
}

TEST_CASE("open sizes: operators") {
  const auto two = [](int64_t n) { return Tensors{torch::randn({n, 6}), torch::randn({n, 6})}; };
  check_all(std::vector<OpenProgram>{
      on(
          "cat", two,
          [](const Tensors& x) {
            return Tensors{torch::cat({x[0], x[1]}, 0), torch::cat({x[0], x[1]}, 1), torch::stack({x[0], x[1]})};
          },
          2),
      on(
          "matmul", two,
          [](const Tensors& x) {
            return Tensors{x[0].matmul(x[1].t()), x[0].t().matmul(x[1]), x[0].mv(torch::ones({6}))};
          },
          2),
      on(
          "bmm", [](int64_t n) { return Tensors{torch::randn({n, 3, 4}), torch::randn({n, 4, 5})}; },
          [](const Tensors& x) {
            return Tensors{torch::bmm(x[0], x[1]), torch::matmul(x[0], x[1]),
                           torch::einsum("bij,bjk->bik", {x[0], x[1]})};
          },
          2),
      rows("slices",
           [](const Tensors& x) {
             return Tensors{x[0].slice(1, 1, 4) * 2, x[0].select(1, 2) + 1, x[0].narrow(1, 0, 2).clone()};
           }),
      rows("softmax", [](const Tensors& x) { return Tensors{x[0].softmax(1), x[0].softmax(0), x[0].log_softmax(1)}; }),
      rows("order",
           [](const Tensors& x) {
             return Tensors{std::get<0>(x[0].sort(1)), std::get<0>(x[0].topk(2, 1)), x[0].argmax(1), x[0].cumsum(0)};
           }),
      rows("pad, flip, roll",
           [](const Tensors& x) {
             return Tensors{torch::constant_pad_nd(x[0], {1, 1, 2, 0}), x[0].flip({0}), x[0].roll(1, 0)};
           }),
      rows("made inside",
           [](const Tensors& x) {
             return Tensors{torch::zeros_like(x[0]), at::arange(c10::Scalar(x[0].sym_size(0))) * 2,
                            at::ones_symint({x[0].sym_size(0), 3}) + 1, torch::empty_like(x[0]).fill_(3)};
           }),
      rows("norm",
           [](const Tensors& x) { return Tensors{torch::layer_norm(x[0], {6}), x[0].norm(2, 1), x[0].var(1)}; }),
      rows("where, masks",
           [](const Tensors& x) {
             return Tensors{torch::where(x[0] > 0, x[0], -x[0]), x[0].masked_fill(x[0] < 0, 0.), x[0].clamp(-1, 1)};
           }),
      rows("repeat",
           [](const Tensors& x) {
             return Tensors{x[0].repeat({2, 1}), x[0].repeat_interleave(2, 0), x[0].tile({1, 2})};
           }),
      rows("split",
           [](const Tensors& x) {
             auto p = x[0].chunk(2, 1);
             auto q = x[0].split(3, 1);
             return Tensors{p[0] + p[1], q[0] * q[1]};
           }),
      rows("types",
           [](const Tensors& x) {
             return Tensors{x[0].to(torch::kDouble), x[0].to(torch::kLong) + 1, x[0].contiguous() * 1};
           }),
      rows("index",
           [](const Tensors& x) {
             return Tensors{x[0].index_select(1, at::arange(2)), x[0].gather(1, x[0].argmax(1, true)),
                            x[0].index({torch::indexing::Slice(), 2})};
           }),
      rows("dropout",
           [](const Tensors& x) { return Tensors{torch::dropout(x[0], 0.5, true), torch::rand_like(x[0])}; }),
      rows("transpose and contiguous",
           [](const Tensors& x) {
             return Tensors{x[0].t().contiguous(), x[0].t().reshape({-1}),
                            x[0].unsqueeze(0).permute({2, 0, 1}).flatten()};
           }),
  });
}
