// Capture, save, load in another process, call: inference and a training step, both backends.
#include "api/support.h"

using namespace precast;
using namespace precast::testing;

namespace {

at::Tensor forward(Mlp& model, const at::Tensor& x) { return model->forward(x); }

at::Tensor train_step(Mlp& model, const at::Tensor& x, const at::Tensor& t) {
  at::Tensor loss = torch::nn::functional::cross_entropy(model->forward(x), t);
  loss.backward();
  return loss.detach();
}

Mlp seeded_model(int seed) {
  torch::manual_seed(seed);
  return Mlp();
}
at::Tensor seeded_input(int seed) {
  torch::manual_seed(seed);
  return torch::randn({5, 4});
}
const at::Tensor& target() {
  static const at::Tensor t = torch::tensor({0, 2, 1, 1, 0}, torch::kLong);
  return t;
}

void check_gradients(Mlp& model, Mlp& expected) {
  auto grads = expected->named_parameters();
  for (auto& p : model->named_parameters()) {
    INFO(p.key());
    REQUIRE(p.value().grad().defined());
    CHECK(close(p.value().grad(), grads[p.key()].grad()));
    CHECK(p.value().grad().strides() == grads[p.key()].grad().strides());
  }
}

}  // namespace

TEST_CASE("child: inference" * doctest::skip()) {
  for (const char* backend : {"eager", "inductor"}) {
    const std::filesystem::path base = child_folder() / backend;
    auto f = load<at::Tensor(Mlp&, at::Tensor)>({base.string() + ".cpp", base.string() + ".cache"});
    Mlp model = seeded_model(7);  // another checkpoint
    at::Tensor x = seeded_input(8), y = f(model, x);
    CHECK(close(y, model->forward(x)));
    CHECK_FALSE(y.requires_grad());
    CHECK(f.backend() == backend);
  }
}

TEST_CASE("an artifact of an inference call runs in a fresh process with another checkpoint") {
  Folder folder;
  for (const char* backend : {"eager", "inductor"}) {
    Mlp model = seeded_model(1);
    at::Tensor x = seeded_input(2), y;
    const at::Tensor expected = model->forward(x);
    capture(forward, folder.pair(backend), {.backend = backend}, [&](auto& cap) { y = cap(model, x); });
    CHECK(torch::equal(y, expected));
  }
  run_in_fresh_process("child: inference", folder.path, 1);
  run_in_fresh_process("child: inference", folder.path, 2);
}

TEST_CASE("child: training" * doctest::skip()) {
  for (const char* backend : {"eager", "inductor"}) {
    INFO(backend);
    const std::filesystem::path base = child_folder() / backend;
    auto step = load<at::Tensor(Mlp&, at::Tensor, at::Tensor)>({base.string() + ".cpp", base.string() + ".cache"});
    Mlp model = seeded_model(7), reference = seeded_model(7);
    torch::optim::SGD sgd(model->parameters(), 0.1), reference_sgd(reference->parameters(), 0.1);
    for (int i = 0; i < 3; ++i) {
      at::Tensor x = seeded_input(100 + i);
      if (i != 1) {  // skip the zeroing once: gradients pile up as in eager
        sgd.zero_grad();
        reference_sgd.zero_grad();
      }
      at::Tensor loss = step(model, x, target()), expected = train_step(reference, x, target());
      CHECK(close(loss, expected));
      check_gradients(model, reference);
      sgd.step();
      reference_sgd.step();
    }
  }
}

TEST_CASE("an artifact of a training step leaves the gradients that eager leaves") {
  Folder folder;
  for (const char* backend : {"eager", "inductor"}) {
    Mlp model = seeded_model(1), reference = seeded_model(1);
    at::Tensor x = seeded_input(2);
    at::Tensor loss, expected = train_step(reference, x, target());
    capture(train_step, folder.pair(backend), {.backend = backend}, [&](auto& cap) { loss = cap(model, x, target()); });
    CHECK(torch::equal(loss, expected));
    check_gradients(model, reference);  // the capturing call's own effects, once
  }
  run_in_fresh_process("child: training", folder.path);
}

TEST_CASE("the functional form gives the pair in memory") {
  Mlp model = seeded_model(1);
  at::Tensor x = seeded_input(2);
  for (const char* backend : {"eager", "inductor"}) {
    const Pair pair = precompile({.backend = backend}, forward, model, x);
    CHECK(pair.code.find("precast") != std::string::npos);
    auto f = load_from_memory<at::Tensor(Mlp&, at::Tensor)>(pair);
    CHECK(close(f(model, x), model->forward(x)));
  }
}

TEST_CASE("in-place writes reach the caller's tensors, and results alias what they alias in eager") {
  const auto fn = [](at::Tensor a, at::Tensor b) {
    a.add_(b);
    return std::make_tuple(a, a.view({-1}), b * 2, b);
  };
  for (const char* backend : {"eager", "inductor"}) {
    INFO(backend);
    const Pair pair = precompile({.backend = backend}, fn, torch::randn({2, 3}), torch::randn({2, 3}));
    auto f = load_from_memory<std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>(at::Tensor, at::Tensor)>(pair);
    at::Tensor a = torch::randn({2, 3}), b = torch::randn({2, 3}), expected = a + b;
    const auto version = a._version();
    auto [same, view, twice, second] = f(a, b);
    CHECK(close(a, expected));
    CHECK(a._version() == version + 1);
    CHECK(same.is_same(a));
    CHECK(second.is_same(b));
    CHECK(view.is_alias_of(a));
    CHECK(view.sizes() == at::IntArrayRef({6}));
    CHECK(close(twice, b * 2));
    view.zero_();
    CHECK(a.abs().sum().item<float>() == 0);
  }
}

TEST_CASE("a tensor returned twice is one object") {
  const auto fn = [](at::Tensor x) {
    at::Tensor y = x + 1;
    return std::vector<at::Tensor>{y, y, y.t(), x + 1};
  };
  for (const char* backend : {"eager", "inductor"}) {
    auto f = load_from_memory<std::vector<at::Tensor>(at::Tensor)>(
        precompile({.backend = backend}, fn, torch::randn({2, 3})));
    at::Tensor x = torch::randn({2, 3});
    auto r = f(x);
    REQUIRE(r.size() == 4);
    CHECK(r[0].is_same(r[1]));
    CHECK(r[2].is_alias_of(r[0]));
    CHECK(torch::equal(r[2], r[0].t()));
    CHECK(torch::equal(r[3], x + 1));
    CHECK_FALSE(r[3].is_alias_of(r[0]));
  }
}
