// compile(): a call that cannot be recorded is made once all the same, and what it drew and wrote is eager's.
#include <doctest/doctest.h>
#include <precast/compile.h>

#include <limits>
#include <set>
#include <thread>

#include "jit/support.h"

using namespace precast;
using namespace precast::test;

namespace {

at::Tensor random_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

/// Calls f and fn in turns on equal seeds; checks results and the generator after each call.
template <class F, class Fn>
void check_draws(const F& f, const Fn& fn, const std::vector<at::Tensor>& arguments) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  torch::manual_seed(3);
  for (const at::Tensor& x : arguments) {
    const at::Tensor before = random_state();
    const at::Tensor found = f(x), after = random_state();
    generator.set_state(before);
    CHECK(close(found, fn(x)));
    CHECK(torch::equal(after, random_state()));
  }
}

}  // namespace

TEST_CASE("compile: where a condition fails, no random number has been drawn") {
  const at::Tensor up = torch::ones({2}), down = -up;
  const auto early = [](at::Tensor x) {
    const at::Tensor r = torch::rand({2});
    return (x.sum() > 0).item<bool>() ? r + 1 : r - 1;
  };
  const auto on_random = [](at::Tensor x) {
    const at::Tensor r = torch::rand({1});
    return (r > 0.5).item<bool>() ? r + x : torch::dropout(x, 0.5, true);
  };
  for (const char* backend : {"inductor", "aot_eager"}) {
    check_draws(compile(early, {.backend = backend}), early, {up, up, down, down, up, down, down, up});
    check_draws(compile(on_random, {.backend = backend}), on_random, std::vector<at::Tensor>(20, up));
  }
}

TEST_CASE("compile: a call that is refused runs once, to its end") {
  Warnings warnings;
  const at::Tensor other = torch::full({2}, 5.0);
  int runs = 0;
  const auto reads = [&](at::Tensor x, at::Tensor log) {
    ++runs;
    log.add_(1);
    const at::Tensor y = x * 2 + torch::rand({2});
    log.add_(other);  // closed over
    return y + other;
  };
  const auto f = compile(reads);
  const at::Tensor x = torch::ones({2}), log = torch::zeros({2}), expected_log = torch::zeros({2});
  for (int i = 0; i < 3; ++i) {
    torch::manual_seed(i);
    const at::Tensor found = f(x, log), state = random_state();
    CHECK(runs == i + 1);
    torch::manual_seed(i);
    CHECK(torch::equal(found, reads(x, expected_log)));
    --runs;
    CHECK(torch::equal(state, random_state()));
    CHECK(torch::equal(log, expected_log));
  }
  REQUIRE(warnings.seen.size() == 1);
  contains(warnings.seen[0], "closed over");

  const auto raw = compile([](at::Tensor x) {
    x.data_ptr<float>()[0] += 1;
    return x * 2;
  });
  const at::Tensor counted = torch::zeros({2});
  for (int i = 1; i < 4; ++i) {
    raw(counted);
    CHECK(counted[0].item<float>() == i);
  }
  const auto rebinds = compile([](at::Tensor& x) { x = x * 2; });
  at::Tensor bound = torch::ones({2});
  for (int i = 1; i < 4; ++i) {
    rebinds(bound);
    CHECK(bound[0].item<float>() == std::pow(2, i));
  }
  const auto counts = compile([](at::Tensor x, int& n, std::vector<at::Tensor>& log) {
    ++n;
    log.push_back(x * n);
    return x + n;
  });
  int n = 0;
  std::vector<at::Tensor> grows;
  for (int i = 1; i < 4; ++i) {
    CHECK(torch::equal(counts(x, n, grows), x + i));
    CHECK(n == i);
    CHECK(grows.size() == static_cast<size_t>(i));
  }
  const auto loaded = load_from_memory<at::Tensor(at::Tensor)>(precompile([](at::Tensor x) { return x * 4; }, x));
  const auto calls_loaded = compile([&](at::Tensor x, at::Tensor log) { return log.add_(1), loaded(x) + 1; });
  const at::Tensor noted = torch::zeros({1});
  for (int i = 1; i < 4; ++i) {
    CHECK(torch::equal(calls_loaded(x, noted), x * 4 + 1));
    CHECK(noted.item<float>() == i);
  }
  const auto throws = compile([&](at::Tensor x) {
    x.add_(other);
    throw PrecompileError("fn's own");
    return x;
  });
  const at::Tensor added = torch::zeros({2});
  for (int i = 1; i < 4; ++i) {
    CHECK_THROWS_WITH_AS(throws(added), "fn's own", PrecompileError);
    CHECK(torch::equal(added, other * i));
  }
  const auto off = disable([](at::Tensor x) { return x * 2; });
  int calls = 0;
  const auto calls_disabled = compile([&](at::Tensor x) { return ++calls, off(x) + 1; });
  for (int i = 1; i < 4; ++i) {
    CHECK(torch::equal(calls_disabled(x), x * 2 + 1));
    CHECK(calls == i);
  }
}

TEST_CASE("compile: autograd's history is that of one call, refused or not") {
  Warnings warnings;
  const auto fn = [](at::Tensor x, at::Tensor w) { return x.add_(w), x * 2; };
  const auto f = compile(fn);
  for (int i = 0; i < 3; ++i) {
    const at::Tensor w = torch::ones({2}).requires_grad_(), x = torch::zeros({2});
    f(x, w).sum().backward();
    CHECK(torch::equal(w.grad(), torch::full({2}, 2.0)));
    CHECK(torch::equal(x, torch::ones({2})));
  }
}

namespace {

/// Parameters and gradients.
void check_same(const torch::nn::Module& net, const torch::nn::Module& same) {
  const auto found = net.parameters(), expected = same.parameters();
  for (size_t k = 0; k < found.size(); ++k) {
    CHECK(close(found[k], expected[k]));
    const at::Tensor &g = found[k].grad(), &h = expected[k].grad();
    CHECK(g.defined() == h.defined());
    if (g.defined() && h.defined()) CHECK(close(g, h));
  }
}

enum class Before { nothing, none, zeros };  // what becomes of gradients before backward

/// `used` gets gradients, the other one none; `known`: the optimizer has stepped both before.
template <class Optimizer, class Options>
void check_optimizer(torch::nn::Linear Mlp::* used, const Options& options, Before before, bool known) {
  Warnings warnings;
  Mlp net(8), same(8);
  net.b = net.replace_module("b", torch::nn::Linear(8, 8)), same.b = same.replace_module("b", torch::nn::Linear(8, 8));
  copy_state(net, same);
  Optimizer a(net.parameters(), options), b(same.parameters(), options);
  const auto step = [&](Mlp& m, Optimizer* optimizer, at::Tensor x) {
    if (before != Before::nothing) optimizer->zero_grad(before == Before::none);
    const at::Tensor loss = (m.*used)(x).square().mean();
    loss.backward();
    torch::nn::utils::clip_grad_norm_((m.*used)->parameters(), 0.5);
    optimizer->step();
    return loss.detach();
  };
  Optimizer* of = &a;
  for (const auto& [m, optimizer] : {std::pair(&net, &a), std::pair(&same, &b)}) {
    if (!known) continue;
    m->forward(torch::ones({2, 8})).sum().backward();
    optimizer->step();
    optimizer->zero_grad();
  }
  const auto f = compile([&](Mlp& m, at::Tensor x) { return step(m, of, x); });
  for (int i = 0; i < 4; ++i) {
    const at::Tensor x = torch::randn({i == 2 ? 3 : 4, 8});
    CHECK(close(f(net, x), step(same, &b, x)));
    check_same(net, same);
    CHECK(a.state().size() == b.state().size());
  }
}

}  // namespace

TEST_CASE("compile: gradients that the caller keeps are its own after a refusal") {
  Warnings warnings;
  torch::nn::Linear layer(2, 2);
  const at::Tensor flat = torch::ones({6});
  layer->weight.mutable_grad() = flat.slice(0, 0, 4).view({2, 2});
  layer->bias.mutable_grad() = flat.slice(0, 4, 6);
  const auto step = compile([&](torch::nn::Linear& l, at::Tensor x) {
    const at::Tensor kept = l->bias.grad();
    flat.zero_();
    l(x).sum().backward();
    kept.mul_(2);
    return flat.norm();
  });
  for (int i = 0; i < 3; ++i) {
    CHECK(close(step(layer, torch::ones({3, 2})), torch::tensor({36.0 + 2 * 36}).sqrt()[0]));
    CHECK(torch::equal(flat, torch::tensor({3., 3., 3., 3., 6., 6.}, at::kFloat)));
    CHECK(layer->bias.grad().is_alias_of(flat));
  }
}

TEST_CASE("compile: what a backward writes is written when it runs, and as often") {
  Warnings warnings;
  const at::Tensor counter = torch::zeros({1});
  struct Counting : torch::nn::Module {
    at::Tensor seen;
    Counting() { seen = register_buffer("seen", torch::zeros({1})); }
  };
  Counting net;
  const auto into_buffer = compile([](Counting& m, at::Tensor x) {
    const at::Tensor y = x * 2;
    y.register_hook([&m](const at::Tensor&) { m.seen.add_(1); });
    return y * 3;
  });
  const auto into_other = compile([&counter](at::Tensor x) {
    const at::Tensor y = x * 2;
    y.register_hook([&counter](const at::Tensor&) { counter.add_(1); });
    return y * 3;
  });
  for (int i = 0; i < 4; ++i) {
    const at::Tensor x = torch::ones({2}).requires_grad_();
    const at::Tensor y = into_buffer(net, x), z = into_other(x);
    CHECK(net.seen.item<float>() == i);
    CHECK(counter.item<float>() == i);
    (y + z).sum().backward();
    CHECK(torch::equal(x.grad(), torch::full({2}, 12.0)));
    CHECK(net.seen.item<float>() == i + 1);
    CHECK(counter.item<float>() == i + 1);
  }
}

TEST_CASE("compile: an optimizer inside the function steps once a call") {
  using namespace torch::optim;
  for (const Before before : {Before::nothing, Before::none, Before::zeros})
    for (torch::nn::Linear Mlp::* used : {&Mlp::a, &Mlp::b})
      for (const bool known : {false, true}) {
        check_optimizer<SGD>(used, SGDOptions(0.1).momentum(0.9).weight_decay(0.1), before, known);
        check_optimizer<Adam>(used, AdamOptions(0.1).weight_decay(0.1), before, known);
        check_optimizer<AdamW>(used, AdamWOptions(0.1).weight_decay(0.1), before, known);
      }
}

TEST_CASE("compile: what has no gradient is no zero to an optimizer, and zeros are none") {
  Warnings warnings;
  Mlp net(8), same(8);
  copy_state(net, same);
  const torch::optim::SGDOptions options = torch::optim::SGDOptions(0.1).weight_decay(0.1);
  torch::optim::SGD a(net.parameters(), options), b(same.parameters(), options);
  torch::optim::SGD* of = &a;
  const auto step = [](Mlp& m, torch::optim::SGD* optimizer, at::Tensor x) {
    optimizer->zero_grad(false);
    const at::Tensor loss = m.a(x).square().mean();
    loss.backward();
    optimizer->step();
    return loss.detach();
  };
  const auto f = compile([&](Mlp& m, at::Tensor x) { return step(m, of, x); });
  for (int i = 0; i < 9; ++i) {
    const at::Tensor x = torch::randn({4, 8});
    if (i == 3 || i == 6)
      for (Mlp* m : {&net, &same})
        for (const at::Tensor& p : m->parameters()) p.mutable_grad() = i == 3 ? torch::ones_like(p) : at::Tensor();
    CHECK(close(f(net, x), step(same, &b, x)));
    check_same(net, same);
  }
  REQUIRE(warnings.seen.size() == 1);  // with a gradient: zeros depend on the caller
  contains(warnings.seen[0], "filled with zeros");
  contains(f.explain(), "module tensor 2 has no gradient");
  contains(f.explain(), "expected no gradient, found one");
}

TEST_CASE("compile: what another thread draws while a backward is recorded is drawn once, and no reason to refuse") {
  const Warnings warnings;
  std::set<int64_t> seen;
  int draws = 0;
  const auto draw = [&] {
    std::thread([&] {
      seen.insert(torch::randint(std::numeric_limits<int64_t>::max(), {1}, torch::kLong).item<int64_t>());
      ++draws;
    }).join();
  };
  const auto f = compile(
      [&draw](at::Tensor x) {
        const at::Tensor y = x * 2;
        y.register_hook([&draw](const at::Tensor&) { draw(); });
        return y * 3;
      },
      {.fullgraph = true});
  for (int i = 0; i < 3; ++i) {
    f(torch::ones({2 + i}).requires_grad_()).sum().backward();
    draw();
  }
  CHECK(draws >= 5);
  CHECK(seen.size() == static_cast<size_t>(draws));
}

TEST_CASE("compile: fn that asks for a gradient gets eager's answer") {
  Warnings warnings;
  for (const bool zeroes : {false, true}) {
    Mlp net;
    int there = 0;
    const auto f = compile([&there, zeroes](Mlp& m, at::Tensor x) {
      if (zeroes) m.zero_grad(false);
      there = 0;
      for (const at::Tensor& p : m.parameters()) there += p.grad().defined();
      return m.b->bias.grad().defined() ? m.forward(x) * 2 : m.forward(x);
    });
    const torch::NoGradGuard no_grad;
    const at::Tensor x = torch::randn({3, 8});
    for (int i = 0; i < 9; ++i) {
      const bool has = i >= 3 && i < 6;
      for (const at::Tensor& p : net.parameters()) p.mutable_grad() = has ? torch::ones_like(p) : at::Tensor();
      there = -1;
      CHECK(close(f(net, x), net.forward(x) * (has ? 2 : 1)));
      if (there >= 0) CHECK(there == (has ? 4 : 0));
    }
  }
  Mlp net;
  const at::Tensor found = torch::zeros({1});
  const auto f = compile([&found](Mlp& m, at::Tensor x) {
    if (const at::Tensor g = m.a->weight.grad(); g.defined()) found.add_(1);
    return m.forward(x);
  });
  for (int i = 0; i < 4; ++i) f(net, torch::randn({3, 8}));
  CHECK(found.item<float>() == 0);
}

TEST_CASE("compile: real numbers that are read end in eager calls, after few variants") {
  Warnings warnings;
  int runs = 0;
  const auto fn = [&](at::Tensor x) { return ++runs, x * x.sum().item<double>(); };
  const auto f = compile(fn);
  for (int i = 0; i < 12; ++i) {
    const at::Tensor x = torch::randn({3});
    CHECK(close(f(x), x * x.sum().item<double>()));
  }
  CHECK(runs == 12);
  REQUIRE(warnings.seen.size() == 1);
  contains(warnings.seen[0], "compare tensors instead of numbers");
  contains(f.explain(), "1 variant,");
}

TEST_CASE("compile: a size that values decide, read as a number, is a condition") {
  const auto fn = [](at::Tensor x) {
    const at::Tensor at = x.nonzero();
    return torch::full({2}, static_cast<double>(at.size(0)));
  };
  const auto f = compile(fn);
  for (const double fill : {1.0, 0.0, 1.0, 0.0}) {
    const at::Tensor x = torch::full({3}, fill);
    CHECK(torch::equal(f(x), fn(x)));
  }
}

TEST_CASE("compile: errors of ops without results are eager's") {
  const auto invert = compile([](at::Tensor x) { return at::linalg_inv(x); }, {.fullgraph = true});
  const auto factor = compile([](at::Tensor x) { return at::linalg_cholesky(x); }, {.fullgraph = true});
  for (int i = 0; i < 3; ++i) {
    CHECK(close(invert(torch::eye(3) * 2), torch::eye(3) * 0.5));
    CHECK(close(factor(torch::eye(3) * 4), torch::eye(3) * 2));
  }
  CHECK_THROWS_AS(invert(torch::zeros({3, 3})), c10::LinAlgError);
  CHECK_THROWS_AS(factor(-torch::eye(3)), c10::LinAlgError);
}

TEST_CASE("compile: reset within the function, arguments without a form, inference tensors") {
  Warnings warnings;
  const at::Tensor x = torch::ones({2});
  const auto resets = compile([](at::Tensor x) {
    reset();
    return x * 2;
  });
  for (int i = 0; i < 3; ++i) CHECK(torch::equal(resets(x), x * 2));

  const auto large = compile([](at::Tensor x, uint64_t n) { return n > (uint64_t{1} << 63) ? x * 2 : x; });
  for (int i = 0; i < 3; ++i) CHECK(torch::equal(large(x, ~uint64_t{0}), x * 2));
  const auto whole = compile([](at::Tensor x, uint64_t n) { return n ? x * 2 : x; }, {.fullgraph = true});
  CHECK_THROWS_AS(whole(x, ~uint64_t{0}), CompileError);

  const auto writes = compile([](at::Tensor x) { return x.mul_(2), x + 1; });
  for (int i = 0; i < 3; ++i) writes(torch::ones({2}));
  at::Tensor inferred;
  {
    const c10::InferenceMode mode;
    inferred = torch::ones({2});
  }
  CHECK_THROWS_WITH(writes(inferred), doctest::Contains("Inplace update to inference tensor"));
}

TEST_CASE("compile: reasons are those of the nearest variant; errors say where") {
  const at::Tensor x = torch::ones({3});
  const auto f = compile([](at::Tensor x) { return x * 2; });
  f(x), f(x.to(at::kDouble));
  at::globalContext().setDeterministicAlgorithms(true, false);
  f(x);
  at::globalContext().setDeterministicAlgorithms(true, true);
  f(x);
  at::globalContext().setDeterministicAlgorithms(false, false);
  contains(f.explain(), "made because: deterministic algorithms: expected off, found on");
  contains(f.explain(), "deterministic algorithms: expected on, found on (warnings only)");
  contains(f.explain(), "default dtype Float");

  const auto whole = compile([](at::Tensor x) { return x.sum().item<float>() > 0 ? x : -x; }, {.fullgraph = true});
  std::string what;
  try {
    whole(x);
  } catch (const CompileError& e) {
    what = e.what();
  }
  contains(what, "_local_scalar_dense");
  CHECK_MESSAGE((what.find(" at ") != what.npos || what.find(" called by ") != what.npos), what);

  Warnings warnings;
  const int before = get_cache_size_limit();
  set_cache_size_limit(1);
  const auto limited = compile([](at::Tensor x, int64_t n) { return x * n; });
  for (int64_t n = 0; n < 3; ++n) CHECK(torch::equal(limited(x, n), x * n));
  set_cache_size_limit(before);
  contains(limited.explain(), "other calls run eagerly: the limit of 1 variants");
}
