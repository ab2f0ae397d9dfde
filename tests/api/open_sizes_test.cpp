// Captures with open sizes (mark_unbacked) through the public interface: one artifact, loaded, at many sizes, against
// eager: results, buffers and gradients.
#include <doctest/doctest.h>
#include <precast/precast.h>
#include <torch/torch.h>

#include "api/agree.h"

using namespace precast;
using namespace precast::testing;
namespace nn = torch::nn;

namespace {

struct Open {
  std::string name;
  std::function<World(int64_t n)> make;
  std::function<Tensors(nn::Module&, const Tensors&)> fn;
  std::vector<int64_t> sizes = {0, 1, 2, 7, 100};
  int64_t dim = 0, example = 4;
};

template <class Holder>
Open with(std::string name, std::function<Tensors(int64_t)> in,
          std::function<Tensors(typename Holder::ContainedType&, const Tensors&)> fn) {
  using M = typename Holder::ContainedType;
  return {std::move(name), [in](int64_t n) { return World{Holder().ptr(), in(n)}; },
          [fn](nn::Module& m, const Tensors& x) { return fn(static_cast<M&>(m), x); }};
}

/// Everything a call leaves behind.
std::vector<std::pair<std::string, Tensor>> seen(const World& w, const Tensors& results) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (size_t i = 0; i < results.size(); ++i) all.emplace_back("result " + std::to_string(i), results[i]);
  for (size_t i = 0; i < w.in.size(); ++i) all.emplace_back("argument " + std::to_string(i), w.in[i]);
  for (const auto& b : w.module->named_buffers()) all.emplace_back(b.key(), b.value());
  for (const auto& p : w.module->named_parameters()) {
    all.emplace_back(p.key(), p.value());
    all.emplace_back(p.key() + ".grad", p.value().grad());
  }
  return all;
}

World world(const Open& p, int64_t n) {
  torch::manual_seed(1);
  return p.make(n);
}

void check(const Open& p) {
  CAPTURE(p.name);
  try {
    const World example = world(p, p.example);
    for (const Tensor& t : example.in) mark_unbacked(t, p.dim, {.shape_id = "n"});
    const Pair pair = precompile(LowerOptions{}, p.fn, *example.module, example.in);
    const auto f = load_from_memory<Tensors(nn::Module&, Tensors)>(pair);
    for (const int64_t n : p.sizes) {
      CAPTURE(n);
      const World a = world(p, n), b = world(p, n);
      const auto eager = seen(a, p.fn(*a.module, a.in));
      const auto artifact = seen(b, f(*b.module, b.in));
      REQUIRE(eager.size() == artifact.size());
      for (size_t i = 0; i < eager.size(); ++i) {
        const Tensor x = eager[i].second, y = artifact[i].second;
        CHECK_MESSAGE(x.defined() == y.defined(),
                      p.name << " at " << n << ": " << eager[i].first << " is defined in one");
        if (!x.defined() || !y.defined()) continue;
        CHECK_MESSAGE((x.sizes() == y.sizes() && torch::allclose(x, y, 1e-4, 1e-5, true)),
                      p.name << " at " << n << ": " << eager[i].first << " differs");
      }
    }
  } catch (const std::exception& e) {
    FAIL_CHECK(p.name << ": " << std::string(e.what()).substr(0, 1500));
  }
}

void check_all(const std::vector<Open>& programs) {
  const char* only = getenv("PROGRAM");
  for (const Open& p : programs)
    if (!only || p.name.find(only) != std::string::npos) check(p);
}

struct NetImpl : nn::Module {
  NetImpl()
      : conv(register_module("conv", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)))),
        norm(register_module("norm", nn::BatchNorm2d(8))),
        fc(register_module("fc", nn::Linear(8, 5))) {}
  Tensor forward(Tensor x) {
    x = torch::max_pool2d(torch::relu(norm(conv(x))), 2);
    return fc(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  nn::Linear fc;
};
TORCH_MODULE(Net);

struct GptImpl : nn::Module {
  GptImpl()
      : tokens(register_module("tokens", nn::Embedding(11, 16))),
        ln(register_module("ln", nn::LayerNorm(nn::LayerNormOptions({16})))),
        qkv(register_module("qkv", nn::Linear(16, 48))),
        proj(register_module("proj", nn::Linear(16, 16))),
        up(register_module("up", nn::Linear(16, 32))),
        down(register_module("down", nn::Linear(32, 16))),
        head(register_module("head", nn::Linear(16, 11))) {}
  Tensor forward(Tensor ids) {
    const auto b = ids.sym_size(0), t = ids.sym_size(1);
    auto x = tokens(ids);
    const auto parts = qkv(ln(x)).chunk(3, -1);
    const auto heads = [&](const Tensor& p) { return p.view_symint({b, t, 2, 8}).transpose(1, 2); };
    const auto y = at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {}, 0.0, true);
    x = x + proj(y.transpose(1, 2).contiguous().view_symint({b, t, 16}));
    x = x + down(torch::gelu(up(x)));
    return head(x);
  }
  nn::Embedding tokens;
  nn::LayerNorm ln;
  nn::Linear qkv, proj, up, down, head;
};
TORCH_MODULE(Gpt);

struct WordsImpl : nn::Module {
  WordsImpl() : words(register_module("words", nn::Embedding(9, 6))), fc(register_module("fc", nn::Linear(6, 5))) {}
  Tensor forward(const Tensor& ids) { return fc(words(ids)); }
  nn::Embedding words;
  nn::Linear fc;
};
TORCH_MODULE(Words);

struct RecurrentImpl : nn::Module {
  RecurrentImpl() : lstm(register_module("lstm", nn::LSTM(nn::LSTMOptions(4, 6)))) {}
  Tensor forward(const Tensor& x) { return std::get<0>(lstm(x)); }
  nn::LSTM lstm;
};
TORCH_MODULE(Recurrent);

Tensors step(const Tensor& loss) {
  loss.backward();
  return {loss.detach()};
}

Tensors images(int64_t n) { return {torch::randn({n, 3, 8, 8}), torch::randint(5, {n}, torch::kLong)}; }
Tensors labelled(int64_t n) { return {torch::randint(9, {n}, torch::kLong), torch::randint(5, {n}, torch::kLong)}; }

}  // namespace

TEST_CASE("open sizes: networks, one artifact at many sizes") {
  check_all({
      with<Mlp>(
          "mlp", [](int64_t n) { return Tensors{torch::randn({n, 4})}; },
          [](MlpImpl& m, const Tensors& x) { return Tensors{m.forward(x[0])}; }),
      with<Mlp>(
          "mlp step", [](int64_t n) { return Tensors{torch::randn({n, 4}), torch::randn({n, 3})}; },
          [](MlpImpl& m, const Tensors& x) { return step(torch::mse_loss(m.forward(x[0]), x[1])); }),
      with<Net>("convolutions, evaluated", images,
                [](NetImpl& m, const Tensors& x) {
                  m.eval();
                  return Tensors{m.forward(x[0])};
                }),
      with<Net>("convolutions, a step", images,
                [](NetImpl& m, const Tensors& x) { return step(torch::cross_entropy_loss(m.forward(x[0]), x[1])); }),
      with<Words>("words", labelled, [](WordsImpl& m, const Tensors& x) { return Tensors{m.forward(x[0])}; }),
      with<Words>(
          "words, a step", labelled,
          [](WordsImpl& m, const Tensors& x) { return step(torch::cross_entropy_loss(m.forward(x[0]), x[1])); }),
  });
}

TEST_CASE("open sizes: sequences") {
  Open gpt = with<Gpt>(
      "gpt",
      [](int64_t n) {
        return Tensors{torch::randint(11, {2, n}, torch::kLong), torch::randint(11, {2, n}, torch::kLong)};
      },
      [](GptImpl& m, const Tensors& x) { return Tensors{m.forward(x[0])}; });
  gpt.dim = 1;
  Open trained = gpt;
  trained.name = "gpt, a step";
  trained.fn = [](nn::Module& m, const Tensors& x) {
    const Tensor logits = static_cast<GptImpl&>(m).forward(x[0]);
    return step(torch::cross_entropy_loss(logits.reshape({-1, 11}), x[1].reshape({-1})));
  };
  Open lstm = with<Recurrent>(
      "lstm", [](int64_t n) { return Tensors{torch::randn({n, 2, 4})}; },
      [](RecurrentImpl& m, const Tensors& x) { return Tensors{m.forward(x[0])}; });
  lstm.sizes = {1, 2, 7, 100};  // eager refuses 0
  Open lstm_step = lstm;
  lstm_step.name = "lstm, a step";
  lstm_step.fn = [](nn::Module& m, const Tensors& x) {
    return step(static_cast<RecurrentImpl&>(m).forward(x[0]).pow(2).mean());
  };
  check_all({gpt, trained, lstm, lstm_step});
}

TEST_CASE("open sizes: effects inside a step") {
  Open descent = with<Mlp>(
      "gradient descent", [](int64_t n) { return Tensors{torch::randn({n, 4}), torch::randn({n, 3})}; },
      [](MlpImpl& m, const Tensors& x) {
        torch::optim::SGD sgd(m.parameters(), torch::optim::SGDOptions(0.1));
        sgd.zero_grad();
        const auto loss = torch::mse_loss(m.forward(x[0]), x[1]);
        loss.backward();
        sgd.step();
        return Tensors{loss.detach()};
      });
  descent.sizes = {1, 2, 7, 100};  // the mean of nothing is NaN
  Open written = with<Mlp>(
      "written arguments", [](int64_t n) { return Tensors{torch::randn({n, 4})}; },
      [](MlpImpl& m, const Tensors& x) {
        x[0].mul_(2).narrow(1, 0, 2).add_(1);
        return Tensors{m.forward(x[0]).detach(), x[0].select(1, 1)};
      });
  Open numbers = with<Mlp>(
      "sizes as numbers", [](int64_t n) { return Tensors{torch::randn({n, 4})}; },
      [](MlpImpl& m, const Tensors& x) {
        const auto n = x[0].sym_size(0);
        const auto y = m.forward(x[0]).detach();
        return Tensors{y.sum(0) / n, y * n, at::full_symint({n, 2}, 3.0), y.reshape({-1}) + n};
      });
  check_all({descent, written, numbers});
}

TEST_CASE("open sizes: batch and length at once") {
  Gpt model;
  const auto fn = [](GptImpl& m, const Tensor& ids) { return m.forward(ids).detach(); };
  const Tensor example = torch::randint(11, {3, 5}, torch::kLong);
  mark_unbacked(example, 0);
  mark_unbacked(example, 1, {.max = 64, .hint_override = 32});
  const auto f = load_from_memory<Tensor(GptImpl&, Tensor)>(precompile(LowerOptions{}, fn, *model, example));
  for (const auto& [b, t] : std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {1, 1}, {0, 7}, {4, 0}, {2, 64}, {9, 1}}) {
    const Tensor ids = torch::randint(11, {b, t}, torch::kLong), eager = fn(*model, ids), artifact = f(*model, ids);
    CHECK_MESSAGE((eager.sizes() == artifact.sizes() && close(eager, artifact)), "at " << b << ", " << t);
  }
  contains(message_of([&] { f(*model, torch::randint(11, {2, 65}, torch::kLong)); }), "64");
}

TEST_CASE("open sizes: sizes that depend on data are those of the capture's rule, or refused") {
  const Tensor x = torch::ones({4, 6});
  mark_unbacked(x, 0);
  const auto fn = [](const Tensor& t) { return t.masked_select(t > 0) * 2; };
  const auto f = load_from_memory<Tensor(Tensor)>(precompile(LowerOptions{}, fn, x));
  CHECK(close(f(torch::ones({7, 6})), fn(torch::ones({7, 6}))));
  Tensor other = torch::ones({7, 6});
  other[2][3] = -1;
  contains(message_of([&] { f(other); }), "masked_select");
}

TEST_CASE("open sizes: by the eager backend") {
  const Tensor x = torch::randn({4, 6});
  mark_unbacked(x, 0);
  const auto twice = [](const Tensor& t) { return t * 2; };
  CHECK_THROWS_WITH_AS(precompile(LowerOptions{.backend = "eager"}, twice, x),
                       doctest::Contains("backend=\"eager\" does not implement"), NotImplementedError);
}

TEST_CASE("open sizes: calls are checked") {
  const Tensor x = torch::randn({4, 6}), y = torch::randn({4, 6});
  mark_unbacked(x, 0, {.min = 1, .max = 50});
  mark_unbacked(y, 0);
  const auto fn = [](const Tensor& a, const Tensor& b) { return a * 2 + b; };
  const auto f = load_from_memory<Tensor(Tensor, Tensor)>(precompile(LowerOptions{}, fn, x, y));
  CHECK(close(f(x, y), fn(x, y)));
  const Tensor many = torch::randn({50, 6});
  CHECK(close(f(many, many), fn(many, many)));
  contains(message_of([&] { f(many, y); }), "argument 1");
  contains(message_of([&] { f(torch::randn({51, 6}), torch::randn({51, 6})); }), "50");
  contains(message_of([&] { f(torch::randn({0, 6}), torch::randn({0, 6})); }), "1");
  contains(message_of([&] { f(torch::randn({4, 7}), y); }), "7");
}
