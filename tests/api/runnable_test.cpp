// A runnable is called from any thread; bind reads weights where they are, freeze takes a snapshot.
#include <atomic>
#include <thread>

#include "api/support.h"

using namespace precast;
using namespace precast::testing;

namespace {
at::Tensor forward(Mlp& model, const at::Tensor& x) { return model->forward(x); }
}  // namespace

TEST_CASE("runnable: many threads call one, each with a model of its own") {
  for (const char* backend : {"eager", "inductor"}) {
    Mlp example;
    const auto f = load_from_memory<at::Tensor(Mlp&, at::Tensor)>(
        precompile({.backend = backend}, forward, example, torch::randn({2, 4})));
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        torch::NoGradGuard no_grad;
        Mlp model;
        for (int i = 0; i < 50; ++i) {
          at::Tensor x = torch::randn({2, 4});
          right += close(f(model, x), model->forward(x));
        }
      });
    for (auto& t : threads) t.join();
    CHECK(right == 200);
  }
}

TEST_CASE("runnable: nothing is installed; scope and unload do nothing") {
  const auto f = load_from_memory<at::Tensor(at::Tensor)>(
      precompile({.backend = "eager"}, [](at::Tensor x) { return x + 1; }, torch::zeros({2})));
  CHECK_FALSE(f.installed());
  {
    auto scope = f.scope();
  }
  f.unload();
  CHECK(torch::equal(f(torch::zeros({2})), torch::ones({2})));
}

TEST_CASE("bind: structure is checked once, weights are read where they are") {
  for (const char* backend : {"eager", "inductor"}) {
    Mlp model;
    const at::Tensor x = torch::randn({2, 4});
    const auto f = load_from_memory<at::Tensor(Mlp&, at::Tensor)>(precompile({.backend = backend}, forward, model, x));
    const auto live = f.bind(model);
    CHECK(close(live(x), model->forward(x)));
    {
      torch::NoGradGuard no_grad;
      model->fc2->bias.add_(1);
    }
    CHECK(close(live(x), model->forward(x)));
    contains(message_of([&] { live(torch::randn({3, 4})); }), "argument 1");
    contains(message_of([&] { f.bind(); }), "bind: expected 1 modules, found 0");
  }
}

TEST_CASE("freeze: later changes are seen after refresh()") {
  for (const char* backend : {"eager", "inductor"}) {
    Mlp model;
    const at::Tensor x = torch::randn({2, 4});
    const auto fast =
        load_from_memory<at::Tensor(Mlp&, at::Tensor)>(precompile({.backend = backend}, forward, model, x))
            .freeze(model);
    const at::Tensor before = model->forward(x);
    CHECK(close(fast(x), before));
    {
      torch::NoGradGuard no_grad;
      for (auto& p : model->parameters()) p.add_(0.5);
    }
    CHECK(close(fast(x), before));
    fast.refresh();
    CHECK(close(fast(x), model->forward(x)));
    CHECK_FALSE(close(before, model->forward(x)));
  }
}

TEST_CASE("runnable: results may be kept, and large ones are recycled when dropped") {
  const auto f =
      load_from_memory<at::Tensor(at::Tensor)>(precompile([](at::Tensor x) { return x + 1; }, torch::zeros({1 << 19})));
  const at::Tensor x = torch::zeros({1 << 19});
  const at::Tensor kept = f(x), second = f(x + 1);
  CHECK(torch::equal(kept, torch::ones({1 << 19})));
  CHECK(torch::equal(second, torch::full({1 << 19}, 2.f)));
  const void* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    at::Tensor y = f(x + i);
    CHECK(y[5].item<float>() == i + 1);
    if (i == 0)
      first = y.data_ptr();
    else
      CHECK(y.data_ptr() == first);
  }
  at::Tensor grown = f(x);
  grown.resize_({1 << 20});
  CHECK(grown.numel() == 1 << 20);
}
