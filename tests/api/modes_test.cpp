// Grad, inference and autocast modes around a capture and around a call: what is computed, and that they stay as they
// were.
#include <ATen/autocast_mode.h>

#include "support.h"

using namespace precast;
using namespace precast::testing;

namespace {

struct Autocast {
  Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

struct Modes {
  bool grad = at::GradMode::is_enabled(), inference = c10::InferenceMode::is_enabled(),
       autocast = at::autocast::is_autocast_enabled(at::kCPU);
  bool operator==(const Modes&) const = default;
};

/// Calls f in each mode; it must leave the modes as they are.
template <class F>
void in_all_modes(F f) {
  const auto in = [&](const char* name) {
    INFO(name);
    const Modes before;
    f();
    CHECK(Modes() == before);
  };
  in("as usual");
  {
    torch::NoGradGuard guard;
    in("without grad");
  }
  {
    c10::InferenceMode guard;
    in("inference mode");
  }
  {
    Autocast guard;
    in("autocast");
  }
}

at::Tensor forward(Mlp& model, at::Tensor x) { return model->forward(x); }
at::Tensor train(Mlp& model, at::Tensor x) {
  model->zero_grad();
  at::Tensor loss = model->forward(x).pow(2).mean();
  loss.backward();
  return loss.detach();
}

}  // namespace

TEST_CASE("modes: a call computes what was captured, in any mode") {
  for (const char* backend : {"eager", "inductor"}) {
    INFO(backend);
    Mlp model;
    const at::Tensor x = torch::randn({2, 4}), expected = model->forward(x).detach();
    const auto f = load_from_memory<at::Tensor(Mlp&, at::Tensor)>(precompile({.backend = backend}, forward, model, x));
    in_all_modes([&] { CHECK(close(f(model, x), expected)); });
    const at::Tensor loss = train(model, x), gradient = model->fc1->weight.grad().clone();
    const auto g = load_from_memory<at::Tensor(Mlp&, at::Tensor)>(precompile({.backend = backend}, train, model, x));
    in_all_modes([&] {
      model->fc1->weight.mutable_grad().zero_();
      CHECK(close(g(model, x), loss));
      CHECK(close(model->fc1->weight.grad(), gradient));
    });
  }
}

TEST_CASE("modes: a capture records with grad enabled, in any mode but inference mode") {
  for (const char* backend : {"eager", "inductor"}) {
    INFO(backend);
    Mlp model;
    const at::Tensor x = torch::randn({2, 4}), loss = train(model, x), gradient = model->fc1->weight.grad().clone();
    in_all_modes([&] {
      bool grad = false;
      const auto forward_only = [&](Mlp& m, at::Tensor t) {
        grad = at::GradMode::is_enabled();
        return m->forward(t);
      };
      // Autocast is part of what is captured.
      const at::Tensor expected = model->forward(x).detach();
      const auto f =
          load_from_memory<at::Tensor(Mlp&, at::Tensor)>(precompile({.backend = backend}, forward_only, model, x));
      CHECK(grad);
      const at::Tensor found = f(model, x);
      CHECK((found.scalar_type() == expected.scalar_type()));
      CHECK(torch::allclose(found.to(at::kFloat), expected.to(at::kFloat), 1e-2, 1e-3));
      if (c10::InferenceMode::is_enabled()) {
        CHECK_THROWS_AS(precompile({.backend = backend}, train, model, x), c10::Error);  // as in eager
        return;
      }
      const auto g = load_from_memory<at::Tensor(Mlp&, at::Tensor)>(precompile({.backend = backend}, train, model, x));
      model->zero_grad();
      CHECK(std::abs(g(model, x).to(at::kFloat).item<float>() - loss.item<float>()) < 1e-2);
      CHECK(torch::allclose(model->fc1->weight.grad(), gradient, 1e-1, 1e-1));
    });
  }
}

TEST_CASE("modes: tensors made in inference mode are arguments and parameters like others") {
  for (const char* backend : {"eager", "inductor"}) {
    INFO(backend);
    at::Tensor x, w;
    {
      c10::InferenceMode guard;
      x = torch::randn({2, 4}), w = torch::randn({4});
    }
    const auto fn = [](at::Tensor a, at::Tensor b) { return a * b + 1; };
    const auto f = load_from_memory<at::Tensor(at::Tensor, at::Tensor)>(precompile({.backend = backend}, fn, x, w));
    CHECK(close(f(x, w), x * w + 1));
    c10::InferenceMode guard;
    CHECK(close(f(x, w), x * w + 1));
    const auto write = [](at::Tensor a) { a.add_(1); };
    at::Tensor y = torch::zeros({3});
    load_from_memory<void(at::Tensor)>(precompile({.backend = backend}, write, y))(y);
    CHECK(torch::equal(y, torch::full({3}, 2.0)));
  }
}
