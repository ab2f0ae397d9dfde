// compile(): a variant serves the very modules that it was recorded with, as they were.
#include <doctest/doctest.h>
#include <precast/compile.h>

#include "jit/support.h"

using namespace precast;
using namespace precast::test;

namespace {

struct Scale : torch::nn::Module {
  bool twice = false;  // lies in the padding of torch::nn::Module
  double by;
  int calls = 0;
  explicit Scale(double by) : by(by) {}
  at::Tensor forward(at::Tensor x) {
    ++calls;
    return x * (twice ? 2 * by : by);
  }
};

}  // namespace

TEST_CASE("compile: modules of one class are not taken for each other") {
  const at::Tensor x = torch::randn({2, 4});
  torch::nn::Sequential a(torch::nn::Linear(4, 4), torch::nn::ReLU()), b(torch::nn::Linear(4, 4), torch::nn::Tanh());
  const auto f = compile(a), g = compile(b);
  for (int i = 0; i < 3; ++i) {
    CHECK(close(f(x), a->forward(x)));
    CHECK(close(g(x), b->forward(x)));
  }
  contains(g.explain(), "the modules: these are others");
  torch::nn::LayerNorm fine(torch::nn::LayerNormOptions({4}).eps(1e-5)),
      coarse(torch::nn::LayerNormOptions({4}).eps(1));
  const auto both = compile([](torch::nn::LayerNorm& n, at::Tensor x) { return n(x); });
  for (int i = 0; i < 3; ++i) {
    CHECK(close(both(fine, x), fine(x)));
    CHECK(close(both(coarse, x), coarse(x)));
  }
  contains(both.explain(), "2 variants, 1 recompile");  // going back is a hit
}

TEST_CASE("compile: plain members of modules are guards, but not those that the call itself writes") {
  const at::Tensor x = torch::randn({3});
  Scale scale(3);
  const auto f = compile(scale);
  for (int i = 0; i < 4; ++i) CHECK(torch::equal(f(x), x * 3));
  CHECK(scale.calls == 1);  // an effect on the host: in calls that run eagerly only
  scale.by = 5;
  for (int i = 0; i < 3; ++i) CHECK(torch::equal(f(x), x * 5));
  scale.twice = true;
  for (int i = 0; i < 3; ++i) CHECK(torch::equal(f(x), x * 10));
  scale.by = 3, scale.twice = false;
  for (int i = 0; i < 3; ++i) CHECK(torch::equal(f(x), x * 3));
  CHECK(scale.calls == 3);
  contains(f.explain(), "a member of module");
  contains(f.explain(), "3 variants");

  const at::Tensor wide = torch::randn({2, 3});  // more kinds of calls, which count on: no variant minds
  for (int i = 0; i < 3; ++i) CHECK(torch::equal(f(wide), wide * 3));
  for (int i = 0; i < 3; ++i) CHECK(torch::equal(f(x), x * 3));
  CHECK(scale.calls == 4);

  struct Lazy : torch::nn::Module {  // what the call itself has set is a guard all the same
    char steps = 0;
    bool flag = false;
    short by = 0;
    at::Tensor forward(at::Tensor x) {
      if (steps++ == 0) by = 2;
      return x * (flag ? -by : by);
    }
  } lazy;
  const auto by = compile(lazy);
  for (int i = 0; i < 3; ++i) CHECK(torch::equal(by(x), x * 2));
  lazy.by = 9;
  for (int i = 0; i < 3; ++i) CHECK(torch::equal(by(x), x * 9));
  lazy.flag = true;
  for (int i = 0; i < 3; ++i) CHECK(torch::equal(by(x), x * -9));

  torch::nn::Dropout dropout(0.5);
  const auto drop = compile(dropout);
  for (const double p : {0.5, 0.25}) {
    dropout->options.p(p);
    for (int i = 0; i < 3; ++i) {
      torch::manual_seed(i);
      const at::Tensor found = drop(torch::ones({64}));
      torch::manual_seed(i);
      CHECK(torch::equal(found, dropout(torch::ones({64}))));
    }
  }
  torch::nn::Sequential net(torch::nn::Linear(3, 3), torch::nn::BatchNorm1d(3));
  net->eval();
  const auto h = compile(net);
  const at::Tensor rows = torch::randn({4, 3});
  for (int i = 0; i < 3; ++i) CHECK(close(h(rows), net->forward(rows)));
  std::dynamic_pointer_cast<torch::nn::BatchNorm1dImpl>(net->ptr(1))->options.eps(2);
  for (int i = 0; i < 3; ++i) CHECK(close(h(rows), net->forward(rows)));
}

TEST_CASE(
    "compile: a registered tensor that is replaced with its member is no change of members; the member alone is") {
  struct Scale : torch::nn::Module {
    at::Tensor w = register_parameter("w", torch::randn({5})), b = register_buffer("b", torch::randn({5}));
    int* runs;
    explicit Scale(int* r) : runs(r) {}
    at::Tensor forward(at::Tensor x) { return ++*runs, x * w + b; }
    void replace(bool registered) {
      const torch::NoGradGuard no_grad;
      w = torch::randn({5}).requires_grad_();
      if (registered) parameters_["w"] = w;
    }
  };
  const Warnings warnings;
  int runs = 0;
  const auto m = std::make_shared<Scale>(&runs);
  const auto f = compile(m);
  const at::Tensor x = torch::randn({5});
  const auto check = [&] { CHECK(close(f(x), x * m->w + m->b)); };
  for (int i = 0; i < 8; ++i) m->replace(true), check(), check();
  CHECK(runs == 1);
  m->replace(false), check(), check();
  CHECK(runs == 3);  // its tensors are no longer the module's
  m->replace(true), check(), check();
  CHECK(runs == 3);
}

TEST_CASE("compile: modules on one address, one after the other") {
  const at::Tensor x = torch::randn({3});
  const auto f = compile([](Scale& s, at::Tensor x) { return s.forward(x); });
  for (const double by : {2.0, 3.0, 4.0}) {
    Scale scale(by);
    for (int i = 0; i < 3; ++i) CHECK(torch::equal(f(scale, x), x * by));
  }
  for (const double by : {2.0, 3.0, 4.0}) {
    const auto scale = std::make_shared<Scale>(by);
    for (int i = 0; i < 3; ++i) CHECK(torch::equal(f(*scale, x), x * by));
  }
  struct Base : torch::nn::Module {
    virtual at::Tensor forward(at::Tensor x) = 0;
  };
  struct Two : Base {
    at::Tensor forward(at::Tensor x) override { return x * 2; }
  };
  struct Three : Base {
    at::Tensor forward(at::Tensor x) override { return x * 3; }
  };
  const auto of_base = compile([](Base& m, at::Tensor x) { return m.forward(x); });
  std::aligned_union_t<1, Two, Three> memory;
  for (int i = 0; i < 3; ++i) {
    const auto check = [&]<class M>(M* m, double by) {
      for (int k = 0; k < 2; ++k) CHECK(torch::equal(of_base(*static_cast<Base*>(m), x), x * by));
      m->~M();
    };
    check(new (&memory) Two, 2), check(new (&memory) Three, 3);
  }
  auto unique = std::make_unique<Scale>(8);
  const auto of_unique = compile(unique);
  const auto owns = compile(std::make_unique<Scale>(9));
  for (int i = 0; i < 3; ++i) {
    CHECK(torch::equal(of_unique(x), x * 8));
    CHECK(torch::equal(owns(x), x * 9));
  }
  const auto temporary = compile(Scale(7));
  for (int i = 0; i < 3; ++i) CHECK(torch::equal(temporary(x), x * 7));
}

TEST_CASE("compile: variants of models that are gone go, too") {
  const auto f = compile([](Mlp& m, at::Tensor x) { return m.forward(x); });
  const at::Tensor x = torch::randn({2, 8});
  std::vector<std::weak_ptr<Mlp>> gone;
  std::vector<c10::weak_intrusive_ptr<at::TensorImpl>> weights;
  for (int i = 0; i < 70; ++i) {  // more than variants are kept
    const auto net = std::make_shared<Mlp>();
    gone.push_back(net);
    weights.emplace_back(net->a->weight.getIntrusivePtr());
    for (int k = 0; k < 2; ++k) CHECK(close(f(*net, x), net->forward(x)));
  }
  CHECK(std::ranges::count_if(weights, [](const auto& w) { return !w.expired(); }) <= 1);
  contains(f.explain(), "1 variant,");
}

TEST_CASE("compile: a mode that the function leaves is not compiled away") {
  const auto step = [](Mlp& m, at::Tensor x) {
    m.eval();
    return m.forward(x);
  };
  Mlp net;
  Warnings warnings;
  const auto f = compile(step);
  for (int i = 0; i < 4; ++i) {
    net.train();
    f(net, torch::randn({2, 8}));
    CHECK(!net.is_training());
  }
  REQUIRE(warnings.seen.size() == 1);
  contains(warnings.seen[0], "changes the training mode");
  const auto leaves = compile([](at::Tensor x) {
    at::GradMode::set_enabled(false);
    return x * 2;
  });
  for (int i = 0; i < 3; ++i) {
    const at::AutoGradMode on(true);
    leaves(torch::ones({2}));
    CHECK(!at::GradMode::is_enabled());
  }
}
