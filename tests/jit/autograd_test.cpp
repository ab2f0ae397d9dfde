// compile(): gradients are eager's: which, when, hooks and all.
#include <ATen/autocast_mode.h>
#include <doctest/doctest.h>
#include <precast/compile.h>

#include "jit/support.h"

using namespace precast;
using namespace precast::test;

TEST_CASE("compile: gradients through a compiled module") {
  Mlp net, same;
  {
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < net.parameters().size(); ++i) same.parameters()[i].copy_(net.parameters()[i]);
  }
  const auto f = compile(net);
  torch::optim::SGD fast(net.parameters(), 0.1), slow(same.parameters(), 0.1);
  for (int step = 0; step < 6; ++step) {
    const at::Tensor x = torch::randn({3, 8}), y = torch::randn({3, 4});
    const auto loss = torch::mse_loss(f(x), y), expected = torch::mse_loss(same.forward(x), y);
    CHECK(close(loss, expected));
    fast.zero_grad(), slow.zero_grad();
    loss.backward(), expected.backward();
    for (size_t i = 0; i < net.parameters().size(); ++i)
      CHECK(close(net.parameters()[i].grad(), same.parameters()[i].grad()));
    fast.step(), slow.step();
  }
  contains(f.explain(), "forward and backward");
  contains(f.explain(), "1 variant, 0 recompiles, 0 eager calls");
  torch::NoGradGuard no_grad;  // is a guard
  const at::Tensor x = torch::randn({3, 8});
  CHECK(close(f(x), same.forward(x)));
  CHECK(close(f(x), same.forward(x)));
  contains(f.explain(), "grad mode: expected on, found off");
}

TEST_CASE("compile: arguments that require grad, several results, a result without gradient") {
  const auto fn = [](at::Tensor a, at::Tensor b) {
    return std::tuple((a * b).sum(1), a.sin() * 2, (a > 0), b.detach() + 1);
  };
  const auto f = compile(fn);
  for (int i = 0; i < 3; ++i) {
    const at::Tensor a = torch::randn({4, 5}, torch::requires_grad()), b = torch::randn({5}, torch::requires_grad());
    const at::Tensor a2 = a.detach().clone().requires_grad_(), b2 = b.detach().clone().requires_grad_();
    const auto [p, q, r, s] = f(a, b);
    const auto [p2, q2, r2, s2] = fn(a2, b2);
    CHECK(close(p, p2));
    CHECK(close(q, q2));
    CHECK(torch::equal(r, r2));
    CHECK((p.requires_grad() && q.requires_grad() && !r.requires_grad() && !s.requires_grad()));
    (p.sum() + q.square().sum()).backward();
    (p2.sum() + q2.square().sum()).backward();
    CHECK(close(a.grad(), a2.grad()));
    CHECK(close(b.grad(), b2.grad()));
    if (i == 2) CHECK_THROWS_WITH(p.sum().backward(), doctest::Contains("second time"));
    const auto [u, v, w, z] = f(a, b);
    v.sum().backward();  // the first result has no gradient
    CHECK(close(b.grad(), b2.grad()));
  }
}

TEST_CASE("compile: a gradient penalty through a compiled network") {
  Mlp net, same;
  {
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < net.parameters().size(); ++i) same.parameters()[i].copy_(net.parameters()[i]);
  }
  const auto f = compile([](Mlp& m, at::Tensor x) { return m.b(torch::tanh(m.a(x))); });
  const auto eager = [](Mlp& m, at::Tensor x) { return m.b(torch::tanh(m.a(x))); };
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = torch::randn({3, 8}, torch::requires_grad()), x2 = x.detach().clone().requires_grad_();
    const auto penalty = [](const at::Tensor& y, const at::Tensor& x) {
      return torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0].square().sum() + y.square().sum();
    };
    net.zero_grad(), same.zero_grad();
    penalty(f(net, x), x).backward();
    penalty(eager(same, x2), x2).backward();
    for (size_t k = 0; k < net.parameters().size(); ++k)
      CHECK(close(net.parameters()[k].grad(), same.parameters()[k].grad()));
    CHECK(close(x.grad(), x2.grad()));
  }
}

namespace {

struct Heads : torch::nn::Module {
  torch::nn::Linear trunk{nullptr}, left{nullptr}, right{nullptr};
  Heads() {
    trunk = register_module("trunk", torch::nn::Linear(4, 6));
    left = register_module("left", torch::nn::Linear(6, 3));
    right = register_module("right", torch::nn::Linear(6, 2));
  }
  std::tuple<at::Tensor, at::Tensor> forward(at::Tensor x) {
    const at::Tensor h = torch::tanh(trunk(x));
    return {left(h), right(h)};
  }
};

bool same_gradients(const torch::nn::Module& a, const torch::nn::Module& b) {
  bool same = true;
  for (size_t i = 0; i < a.parameters().size(); ++i) {
    const at::Tensor &p = a.parameters()[i].grad(), &q = b.parameters()[i].grad();
    same = same && p.defined() == q.defined() && (!p.defined() || close(p, q));
  }
  return same;
}

}  // namespace

TEST_CASE("compile: what flows from results without a gradient is undefined, and decays no weights") {
  for (const char* backend : {"inductor", "aot_eager"}) {
    Heads net, same;
    copy_state(net, same);
    const auto f = compile(net, {.fullgraph = true, .backend = backend});
    torch::optim::SGD a(net.parameters(), torch::optim::SGDOptions(0.1).weight_decay(0.1)),
        b(same.parameters(), torch::optim::SGDOptions(0.1).weight_decay(0.1));
    for (int i = 0; i < 6; ++i) {
      const at::Tensor x = torch::randn({5, 4});
      const auto step = [&](auto&& forward, torch::optim::SGD& optimizer) {
        optimizer.zero_grad();
        const auto [left, right] = forward(x);
        (i % 3 == 0 ? left.sum() : i % 3 == 1 ? right.square().sum() : (left.sum() + right.sum())).backward();
      };
      step(f, a);
      step([&](at::Tensor x) { return same.forward(x); }, b);
      CHECK(same_gradients(net, same));
      a.step(), b.step();
    }
    const at::Tensor x = torch::randn({5, 4}).requires_grad_(), other = torch::randn({3}).requires_grad_();
    const auto pair =
        compile([](at::Tensor x, at::Tensor y) { return std::tuple(x * 2, y * 3); }, {.backend = backend});
    for (int i = 0; i < 3; ++i)
      CHECK_THROWS_WITH(torch::autograd::grad({std::get<0>(pair(x, other)).sum()}, {other}),
                        doctest::Contains("appears to not have been used"));
  }
}

TEST_CASE("compile: an undefined gradient takes no infinity along") {
  // The derivative of log at 0 is infinite; times a zero it would be NaN.
  const auto fn = [](at::Tensor x) { return std::tuple(x * 2, torch::log(x)); };
  const auto f = compile(fn);
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = torch::zeros({3}).requires_grad_();
    std::get<0>(f(x)).sum().backward();
    CHECK(torch::equal(x.grad(), torch::full({3}, 2.0)));
  }
}

TEST_CASE("compile: hooks of arguments and parameters run once for each backward") {
  torch::nn::Linear layer(3, 2), same(3, 2);
  copy_state(*layer, *same);
  for (auto& l : {layer, same}) l->weight.register_hook([](at::Tensor g) { return g * 7; });
  const auto f = compile(layer);
  for (int i = 0; i < 3; ++i) {
    const at::Tensor leaf = torch::randn({4, 3}).requires_grad_(), leaf2 = leaf.detach().clone().requires_grad_();
    const at::Tensor x = leaf * 1, x2 = leaf2 * 1;
    for (const at::Tensor& t : {x, x2}) t.register_hook([](at::Tensor g) { return g + 1; });
    f(x).square().sum().backward();
    same(x2).square().sum().backward();
    CHECK(same_gradients(*layer, *same));
    CHECK(close(leaf.grad(), leaf2.grad()));
  }
}

TEST_CASE("compile: hooks meet gradients of gradients, retained gradients and unused results as in eager") {
  const auto penalty = [](const at::Tensor& y, const at::Tensor& x) {
    return torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0].square().sum();
  };
  const auto fn = [](at::Tensor x, at::Tensor w) { return (x * w).square(); };
  const auto f = compile(fn);
  for (int i = 0; i < 3; ++i) {
    std::vector<at::Tensor> gradients;
    for (const bool compiled : {true, false}) {
      const at::Tensor w = torch::full({2}, 3.0).requires_grad_(), z = torch::ones({2}).requires_grad_(), x = z * 2;
      w.register_hook([](at::Tensor g) { return g * 2; });
      x.retain_grad();
      const at::Tensor y = compiled ? f(x, w) : fn(x, w);
      CHECK(!x.grad().defined());
      (penalty(y, x) + y.sum()).backward();
      for (const at::Tensor& t : {w, z, x}) gradients.push_back(t.grad());
    }
    for (size_t k = 0; k < 3; ++k) CHECK(close(gradients[k], gradients[k + 3]));
  }

  const auto two = compile([](at::Tensor x, at::Tensor y) { return std::tuple(x * 2, y * 3); });
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = torch::ones({2}).requires_grad_(), y = torch::ones({2}).requires_grad_();
    const auto [a, b] = two(x, y);
    int called = 0;
    a.register_hook([&](at::Tensor g) { return ++called, g * 2; });
    b.register_hook([&](at::Tensor g) { return g * 5; });
    b.sum().backward();
    CHECK(called == 0);
    CHECK(!x.grad().defined());
    CHECK(torch::equal(y.grad(), torch::full({2}, 15.0)));
  }
}

TEST_CASE("compile: a step that runs its backward itself and returns the loss") {
  Mlp net, same;
  copy_state(net, same);
  const auto step = [](Mlp& m, at::Tensor x) {
    const at::Tensor loss = m.forward(x).square().mean();
    loss.backward();
    return loss;
  };
  const auto f = compile(step, {.fullgraph = true});
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = torch::randn({3, 8});
    const at::Tensor loss = f(net, x);
    CHECK(close(loss, step(same, x)));
    CHECK(same_gradients(net, same));
    CHECK(loss.requires_grad());
    CHECK_THROWS_WITH(loss.backward(), doctest::Contains("backward through the graph a second time"));
  }
}

TEST_CASE("compile: gradients of gradients are those of the call that was made") {
  torch::nn::Linear layer(3, 3);
  const auto fn = [](torch::nn::Linear& l, at::Tensor x, at::Tensor by) { return torch::tanh(l(x)) * by; };
  const auto f = compile(fn);
  const auto penalty = [](const at::Tensor& y, const at::Tensor& x) {
    return torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
  };
  const at::Tensor x = torch::randn({2, 3}).requires_grad_(), by = torch::randn({2, 3});
  for (int i = 0; i < 3; ++i) CHECK(close(penalty(f(layer, x, by), x), penalty(fn(layer, x, by), x)));

  at::Tensor changes = by.clone();
  const at::Tensor y = f(layer, x, changes);
  changes.mul_(2);
  CHECK_THROWS_WITH(penalty(y, x), doctest::Contains("modified by an inplace operation"));

  const at::Tensor z = f(layer, x, by);
  layer->eval();
  CHECK_THROWS_WITH_AS(penalty(z, x), doctest::Contains("another mode (train, eval)"), PrecompileError);
  layer->train();

  at::Tensor half, expected;
  const auto in_half = [&](auto&& call) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor result = call(layer, x, by);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    return penalty(result, x);
  };
  for (int i = 0; i < 3; ++i) half = in_half(f);
  expected = in_half(fn);
  CHECK(at::allclose(half, expected, 2e-2, 2e-2));
}

TEST_CASE("compile: results that share memory and require grad run eagerly; parts of one do not share") {
  Warnings warnings;
  const auto views = compile([](at::Tensor x) {
    const at::Tensor y = x * 2;
    return std::tuple(y, y.view(-1));
  });
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = torch::randn({2, 3}).requires_grad_();
    auto [y, flat] = views(x);
    y.mul_(3);
    flat.sum().backward();
    CHECK(torch::equal(x.grad(), torch::full({2, 3}, 6.0)));
  }
  REQUIRE(warnings.seen.size() == 1);
  contains(warnings.seen[0], "results 0 and 1 require grad and share memory");
  const auto parts = compile(
      [](at::Tensor x) {
        const auto halves = (x * 2).chunk(2, 1);
        return std::tuple(halves[0], halves[1]);
      },
      {.fullgraph = true});
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = torch::randn({2, 4}).requires_grad_();
    const auto [a, b] = parts(x);
    (a.sum() + b.sum() * 3).backward();
    CHECK(torch::equal(x.grad(), torch::cat({torch::full({2, 2}, 2.0), torch::full({2, 2}, 6.0)}, 1)));
  }
}

TEST_CASE("compile: a gradient that accumulates over steps of reduce-overhead is not overwritten") {
  torch::nn::Linear layer(3, 2), same(3, 2);
  copy_state(*layer, *same);
  const auto f = compile(layer, {.mode = "reduce-overhead"});
  for (int i = 0; i < 6; ++i) {
    cudagraph_mark_step_begin();
    const at::Tensor x = torch::randn({4, 3});
    f(x).square().sum().backward();
    same(x).square().sum().backward();
    CHECK(same_gradients(*layer, *same));
  }
}
