// compile(): results, effects and gradients are eager's, call after call; and what is compiled when.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <precast/compile.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "jit/support.h"
#include "util/files.h"
#include "util/temp_folder.h"

using namespace precast;
using namespace precast::test;

TEST_CASE("compile: the first call is eager's, later ones are compiled") {
  int runs = 0;
  const auto f = compile([&runs](at::Tensor x) { return ++runs, (x * 2 + 1).relu(); });
  const at::Tensor x = torch::randn({5, 7});
  for (int i = 0; i < 4; ++i) CHECK(torch::equal(f(x), (x * 2 + 1).relu()));
  CHECK(runs == 1);
  CHECK(f(torch::randn({5, 8})).size(1) == 8);  // other sizes: recorded anew
  CHECK(runs == 2);
  CHECK(f(torch::randn({5, 9})).size(1) == 9);  // now for all sizes
  CHECK(runs == 2);
  CHECK(torch::equal(f(x), (x * 2 + 1).relu()));
  CHECK(runs == 2);
  contains(f.explain(), "2 variants, 1 recompile");
}

TEST_CASE("compile: sizes that change become dynamic") {
  Mlp net, same;
  {
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < net.parameters().size(); ++i) same.parameters()[i].copy_(net.parameters()[i]);
  }
  int runs = 0;
  const auto f = compile([&runs](Mlp& m, at::Tensor x) { return ++runs, m.forward(x).square().sum(1); });
  for (const int64_t n : {3, 5, 7, 100, 4, 3}) {
    const at::Tensor x = torch::randn({n, 8}, torch::requires_grad()), x2 = x.detach().clone().requires_grad_();
    net.zero_grad(), same.zero_grad();
    const at::Tensor y = f(net, x), y2 = same.forward(x2).square().sum(1);
    CHECK(close(y, y2));
    y.sum().backward(), y2.sum().backward();
    CHECK(close(x.grad(), x2.grad()));
    for (size_t k = 0; k < net.parameters().size(); ++k)
      CHECK(close(net.parameters()[k].grad(), same.parameters()[k].grad()));
  }
  CHECK_MESSAGE(runs == 3, f.explain());  // the recording for all sizes is taken back, and the call made again
  contains(f.explain(), "2 variants, 1 recompile");
  f(net, torch::randn({1, 8}, torch::requires_grad()));  // 0 and 1 are kinds of their own
  CHECK(runs == 4);

  static int open = 0, fixed = 0;
  const auto always = compile([](at::Tensor x) { return ++open, x.softmax(1) * 2; }, {.dynamic = true});
  const auto never = compile([](at::Tensor x) { return ++fixed, x.softmax(1) * 2; }, {.dynamic = false});
  for (const int64_t n : {4, 5, 6, 7}) {
    const at::Tensor x = torch::randn({n, 2 * n});
    CHECK(close(always(x), x.softmax(1) * 2));
    CHECK(close(never(x), x.softmax(1) * 2));
  }
  CHECK_MESSAGE(open == 1, always.explain());
  CHECK(fixed == 4);
  const auto guards = compile([](at::Tensor x) { return x.size(0) > 4 ? x * 2 : x * 3; });
  for (const int64_t n : {4, 5, 6, 7}) CHECK(guards(torch::ones({n}))[0].item<float>() == (n > 4 ? 2 : 3));
  contains(guards.explain(), "sizes are not dynamic: ");
}

TEST_CASE("compile: batch norm in training, dropout, writes") {
  struct Net : torch::nn::Module {
    torch::nn::Conv2d conv{nullptr};
    torch::nn::BatchNorm2d norm{nullptr};
    Net() {
      conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 6, 3).bias(false)));
      norm = register_module("norm", torch::nn::BatchNorm2d(6));
    }
    at::Tensor forward(at::Tensor x) { return torch::dropout(norm(conv(x)).relu(), 0.3, is_training()).mean({2, 3}); }
  };
  Net net, same;
  {
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < net.parameters().size(); ++i) same.parameters()[i].copy_(net.parameters()[i]);
  }
  const auto f = compile(net);
  for (int step = 0; step < 4; ++step) {
    const at::Tensor x = torch::randn({2, 3, 9, 9});
    torch::manual_seed(step);
    const auto a = f(x);
    torch::manual_seed(step);
    const auto b = same.forward(x);
    CHECK(close(a, b));
    net.zero_grad(), same.zero_grad();
    a.square().sum().backward(), b.square().sum().backward();
    for (size_t i = 0; i < net.parameters().size(); ++i)
      CHECK(close(net.parameters()[i].grad(), same.parameters()[i].grad()));
    for (size_t i = 0; i < net.buffers().size(); ++i) CHECK(close(net.buffers()[i], same.buffers()[i]));
  }
  net.eval(), same.eval();
  const at::Tensor x = torch::randn({2, 3, 9, 9});
  for (int i = 0; i < 2; ++i) CHECK(close(f(x), same.forward(x)));
  contains(f.explain(), "2 variants");
  contains(f.explain(), "another mode (train, eval)");
}

TEST_CASE("compile: values read on the host are conditions; each path is a variant") {
  int runs = 0;
  const auto fn = [&runs](at::Tensor x) {
    ++runs;
    const at::Tensor y = x * 3;
    if (y.sum().item<float>() > 0) return y.exp();
    return y.neg() - 1;
  };
  const auto f = compile(fn);
  const at::Tensor up = torch::full({3}, 0.5), down = torch::full({3}, -0.5);
  for (int i = 0; i < 3; ++i) {
    CHECK(close(f(up), (up * 3).exp()));
    CHECK(close(f(down), (down * 3).neg() - 1));
  }
  CHECK(runs == 2);
  const auto whole = compile([](at::Tensor x) { return x * x.sum().item<float>(); }, {.fullgraph = true});
  CHECK_THROWS_WITH_AS(whole(up), doctest::Contains("reads a tensor's value as a number"), CompileError);
}

TEST_CASE("compile: closed-over tensors run eagerly, with one warning; fullgraph refuses") {
  const at::Tensor other = torch::randn({3});
  at::Tensor x = torch::randn({3});
  {
    Warnings warnings;
    const auto f = compile([&](at::Tensor x) { return x + other; });
    for (int i = 0; i < 3; ++i) CHECK(torch::equal(f(x), x + other));
    REQUIRE(warnings.seen.size() == 1);
    contains(warnings.seen[0], "runs eagerly");
    contains(f.explain(), "cut: ");
  }
  const auto whole = compile([&](at::Tensor x) { return x + other; }, {.fullgraph = true});
  CHECK_THROWS_WITH_AS(whole(x), doctest::Contains("cannot be compiled as one graph"), CompileError);
  const auto off = disable([](at::Tensor x) { return x * 2; });
  const auto cut = compile([&](at::Tensor x) { return off(x) + 1; }, {.fullgraph = true});
  CHECK_THROWS_WITH_AS(cut(x), doctest::Contains("disabled"), CompileError);
}

TEST_CASE("compile: captured numbers are looked at; types share what is compiled") {
  static int runs = 0;
  const auto scale = [](double by) { return compile([by](at::Tensor x) { return ++runs, x * by; }); };
  const at::Tensor x = torch::randn({4});
  const auto two = scale(2), three = scale(3);
  for (int i = 0; i < 3; ++i) {
    CHECK(torch::equal(two(x), x * 2));
    CHECK(torch::equal(three(x), x * 3));
  }
  CHECK(runs == 2);
  CHECK(torch::equal(scale(2)(x), x * 2));
  CHECK(runs == 2);
}

TEST_CASE("compile: modules that the function reaches, holders, references, the wrapper") {
  torch::nn::Linear layer(3, 2);
  const at::Tensor x = torch::randn({5, 3});
  const auto reaches = compile([&](at::Tensor x) { return layer(x) * 2; }, layer);
  const auto held = compile(layer);
  const auto wrapped = compile({.fullgraph = true})([](torch::nn::Linear& m, at::Tensor x) { return m(x) + 1; });
  for (int i = 0; i < 3; ++i) {
    CHECK(close(reaches(x), layer(x) * 2));
    CHECK(close(held(x), layer(x)));
    CHECK(close(wrapped(layer, x), layer(x) + 1));
  }
  contains(reaches.explain(), "0 eager calls");
  torch::nn::Linear wide(3, 7);
  CHECK(wrapped(wide, x).size(1) == 7);
  CHECK(close(wrapped(layer, x), layer(x) + 1));
}

TEST_CASE("compile: options, modes and backends") {
  const auto fn = [](at::Tensor x) { return x.sin() + 1; };
  const at::Tensor x = torch::randn({4, 3});
  CHECK_THROWS_WITH_AS(compile(fn, {.options = {{"epilog_fusion", true}}}),
                       doctest::Contains("did you mean 'epilogue_fusion'"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(compile(fn, {.options = {{"epilogue_fusion", true}}}), doctest::Contains("needs 'max_autotune'"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(compile(fn, {.options = {{"triton.cudagraphs", true}}}), doctest::Contains("CUDA"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(compile(fn, {.mode = "fast"}), doctest::Contains("unknown mode 'fast'"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(compile(fn, {.backend = "inductr"}), doctest::Contains("did you mean 'inductor'"),
                       std::invalid_argument);
  CHECK(list_backends() == std::vector<std::string>{"inductor"});
  CHECK(list_backends(std::nullopt) == std::vector<std::string>{"aot_eager", "eager", "inductor"});
  CHECK(get_default_backend() == "inductor");
  for (const char* backend : {"eager", "aot_eager", "inductor"}) {
    const auto f = compile(fn, {.backend = backend});
    for (int i = 0; i < 3; ++i) {
      const at::Tensor a = x.clone().requires_grad_();
      const at::Tensor y = f(a);
      CHECK(close(y, fn(x)));
      y.sum().backward();
      CHECK(close(a.grad(), x.cos()));
    }
  }
  static std::atomic<int> graphs = 0;  // a registered backend outlives the test
  const BackendFunction own = [](const Graph& g, const std::vector<at::Tensor>& examples) -> GraphFunction {
    ++graphs;
    CHECK(examples.size() == g.input_types().size());
    return [g](const std::vector<at::Tensor>& inputs) { return g(inputs); };
  };
  register_backend("mine", own);
  CHECK_THROWS_WITH_AS(register_backend("mine", own), doctest::Contains("already"), std::invalid_argument);
  for (const CompileBackend& backend : {CompileBackend("mine"), CompileBackend(own)}) {
    const auto f = compile(fn, {.backend = backend});
    for (int i = 0; i < 3; ++i) {
      const at::Tensor a = x.clone().requires_grad_();
      f(a).sum().backward();
      CHECK(close(a.grad(), x.cos()));
    }
  }
  CHECK(graphs == 4);  // a forward and a backward of each
  set_default_backend("mine");
  CHECK(get_default_backend() == "mine");
  CHECK(close(compile(fn)(x), fn(x)));
  set_default_backend("inductor");
  const auto off = compile(fn, {.disable = true});
  CHECK(torch::equal(off(x), fn(x)));
}

TEST_CASE("compile: stances and limits") {
  static int runs = 0;
  const auto fn = [](at::Tensor x) { return ++runs, x + 1; };
  const auto f = compile(fn, {.dynamic = false});
  const at::Tensor x = torch::ones({2}), y = torch::ones({3});
  f(x), f(x);
  CHECK(runs == 1);
  {
    const Stance eager("force_eager");
    f(x);
    CHECK(runs == 2);
  }
  {
    const Stance only("eager_on_recompile");
    f(x);
    CHECK(runs == 2);
    f(y), f(y);
    CHECK(runs == 4);
  }
  {
    const Stance fail("fail_on_recompile");
    CHECK_THROWS_WITH_AS(f(y), doctest::Contains("expected f32[2], found f32[3]"), CompileError);
  }
  CHECK_THROWS_AS(Stance("lazy"), std::invalid_argument);
  reset();
  f(x), f(x);
  CHECK(runs == 5);
  set_cache_size_limit(2);
  Warnings warnings;
  for (int n = 4; n < 8; ++n) f(torch::ones({n}));
  CHECK(runs == 9);
  REQUIRE(warnings.seen.size() == 1);
  contains(warnings.seen[0], "the limit of 2 variants");
  set_cache_size_limit(64);
}

TEST_CASE("compile: errors of the function pass through and leave nothing behind") {
  const auto f = compile([](at::Tensor a, at::Tensor b) { return a.mm(b); });
  const at::Tensor a = torch::randn({2, 3});
  CHECK_THROWS_AS(f(a, a), c10::Error);
  CHECK_THROWS_AS(f(a, a), c10::Error);
  CHECK(close(f(a, a.t()), a.mm(a.t())));
  CHECK(close(f(a, a.t()), a.mm(a.t())));
  contains(f.explain(), "1 variant");
  const auto pick = compile([](at::Tensor x, at::Tensor i) { return x.index_select(0, i); });
  const at::Tensor x = torch::randn({4}), i = torch::tensor({1, 3}), bad = torch::tensor({1, 9});
  CHECK(torch::equal(pick(x, i), x.index_select(0, i)));
  CHECK(torch::equal(pick(x, i), x.index_select(0, i)));
  CHECK_THROWS_AS(pick(x, bad), c10::Error);
}

namespace {

/// Calls f, which must agree with `expected` each time, until explain() has the text; a minute at most.
template <class F, class E>
bool call_until(const F& f, const at::Tensor& x, const E& expected, const std::string& text) {
  for (const auto start = std::chrono::steady_clock::now();
       std::chrono::steady_clock::now() - start < std::chrono::minutes(1);) {
    CHECK(close(f(x), expected()));
    if (f.explain().find(text) != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace

TEST_CASE("compile: async calls never wait") {
  int runs = 0;
  const auto f = compile([&runs](at::Tensor x) { return ++runs, x.cos() * 5; }, {.async = true});
  const at::Tensor x = torch::randn({6});
  const auto expected = [&] { return x.cos() * 5; };
  f(x);
  contains(f.explain(), "0 variants, 0 recompiles, 1 eager call");  // a kind that never comes back is not recorded
  CHECK(call_until(f, x, expected, "kernel"));
  const int so_far = runs;
  CHECK(close(f(x), expected()));  // the thread that compiled has also replayed the recorded call
  CHECK(runs == so_far);
  // With gradients a recording is replayed at once.
  const at::Tensor w = torch::randn({6}, torch::requires_grad());
  const auto g = compile([](at::Tensor w) { return (w * w).sum(); }, {.async = true});
  CHECK(call_until(g, w, [&] { return (w * w).sum(); }, "kernel"));
  g(w).backward();
  CHECK(close(w.grad(), 2 * w));
}

// A replay says nothing where what the call saw may have been written meanwhile.
TEST_CASE("compile: the first compiled call of an async function that was not replayed is compared with eager") {
  static double hidden = 1;
  const auto f = compile([](at::Tensor x) { return x * hidden; }, {.async = true});
  const at::Tensor x = [] {
    const c10::InferenceMode nobody_counts_writes;
    return torch::randn({6});
  }();
  f(x), f(x);
  hidden = 2;
  Warnings warnings;
  CHECK(call_until(f, x, [&] { return x * 2; }, "runs eagerly: a compiled call differed from eager"));
  CHECK(torch::equal(f(x), x * 2));
  REQUIRE(!warnings.seen.empty());
  contains(warnings.seen[0], "the first compiled call found a difference from eager");
}

TEST_CASE("compile: async, where a compiled call cannot be taken back, is recorded and replayed") {
  const auto f = compile(
      [](torch::nn::LinearImpl& m, at::Tensor x) {
        const at::AutoGradMode grad(true);
        m.forward(x).sum().backward();
        return x * 2;
      },
      {.async = true});
  torch::nn::Linear m(3, 2);
  const at::Tensor x = torch::randn({4, 3});
  const auto call = [&](const at::Tensor& x) {
    const torch::NoGradGuard no_grad;
    m->zero_grad();
    const at::Tensor y = f(*m, x);
    CHECK(close(m->weight.grad(), x.sum(0).expand({2, 3})));
    return y;
  };
  const auto until = [&](const std::string& text) {
    for (int i = 0; i < 12000 && f.explain().find(text) == std::string::npos; ++i) {
      CHECK(close(call(x), x * 2));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    contains(f.explain(), text);
  };
  until("kernel");
  CHECK(close(call(x), x * 2));
}

TEST_CASE("compile: verify_every finds what guards cannot see") {
  const at::Tensor x = torch::randn({6});
  static double hidden = 1;
  const auto g = compile([](at::Tensor x) { return x * hidden; }, {.verify_every = 2});
  g(x), g(x);
  hidden = 2;
  Warnings warnings;
  g(x), g(x);
  CHECK(torch::equal(g(x), x * 2));
  REQUIRE(!warnings.seen.empty());
  contains(warnings.seen[0], "verify_every");
}

TEST_CASE("compile: reduce-overhead uses the memory of a step again, and autograd knows") {
  const auto f = compile([](at::Tensor x) { return x.exp() + 1; }, {.mode = "reduce-overhead"});
  const at::Tensor x = torch::randn({50});
  f(x);
  cudagraph_mark_step_begin();
  const at::Tensor a = f(x), b = f(x);
  CHECK(a.data_ptr() != b.data_ptr());
  CHECK(close(a, b));
  const void* const memory = a.data_ptr();
  cudagraph_mark_step_begin();
  const at::Tensor c = f(x * 2);
  CHECK(c.data_ptr() == memory);  // what `a` holds is c's now
  CHECK(close(c, (x * 2).exp() + 1));
  CHECK(close(b, x.exp() + 1));
  for (int i = 0; i < 3; ++i) CHECK(close(f(x), x.exp() + 1));  // dropped at once: no memory is added

  const at::Tensor w = torch::randn({50}, torch::requires_grad());
  const at::Tensor late = f(w).square();  // saves the compiled result
  f(w);
  cudagraph_mark_step_begin();
  const at::Tensor y = f(w), z = y.square();
  cudagraph_mark_step_begin();
  f(w);
  CHECK_THROWS_WITH(z.sum().backward(), doctest::Contains("modified by an inplace operation"));
}

TEST_CASE("compile: a trace folder shows what a variant became") {
  const TempFolder folder;
  ::setenv("PRECAST_TRACE_DIR", folder.path().c_str(), 1);
  const auto f = compile([](at::Tensor x) { return x.sin().sum(); }, {.options = {{"trace.graph_diagram", true}}});
  const at::Tensor x = torch::randn({5}, torch::requires_grad());
  Warnings warnings;  // Graphviz may be missing
  f(x), f(x);
  ::unsetenv("PRECAST_TRACE_DIR");
  const auto file = [&](const char* name) { return read_text_file(folder.path() / "0" / name, "trace"); };
  contains(file("recorded.txt"), "aten::sin");
  contains(file("forward.txt"), "aten::sin");
  contains(file("backward.txt"), "aten::cos");
  contains(file("backward.cpp"), "precast_model");
  contains(file("forward.dot"), "label=\"aten::sin\"");
  contains(file("account.txt"), "forward and backward");
  contains(file("account.txt"), "  times: recording 0.");
  contains(file("after pass 00 decompose.txt"), "aten::sin");
  contains(file("forward.loops.txt"), " = sum over i");
  contains(file("forward.loops.txt"), "sin(b0[i");
}

TEST_CASE("compile: threads share one compilation") {
  static std::atomic<int> runs = 0;
  const auto f = compile([](at::Tensor x) { return ++runs, x.exp() + 1; });
  const at::Tensor x = torch::randn({8});
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) wrong += !close(f(x), x.exp() + 1);
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(runs == 1);
}

TEST_CASE("compile: a contiguous tensor with other strides at sizes of 1 is another kind, where sizes are open") {
  const at::Tensor w = torch::randn({3, 1, 1, 1});
  const auto fn = [](at::Tensor x, at::Tensor w) { return at::conv2d(x, w); };
  const auto f = compile(fn, {.backend = "eager"});
  f(torch::randn({4, 1, 1, 2}), w), f(torch::randn({6, 1, 1, 2}), w);  // the first dim is open now
  const at::Tensor last = torch::randn({5, 1, 1, 2}).as_strided({5, 1, 1, 2}, {2, 1, 2, 1});
  for (int i = 0; i < 2; ++i) CHECK(f(last, w).strides() == fn(last, w).strides());
}

namespace {

/// Wide enough for rows that begin whole pages apart; attention, a shared matrix, a residual, a convolution.
struct Wide : torch::nn::Module {
  torch::nn::Linear q{nullptr}, k{nullptr}, up{nullptr}, down{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Conv1d conv{nullptr};
  Wide() {
    q = register_module("q", torch::nn::Linear(32, 1024));
    k = register_module("k", torch::nn::Linear(32, 1024));
    up = register_module("up", torch::nn::Linear(1024, 2048));
    down = register_module("down", torch::nn::Linear(2048, 1024));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({1024})));
    conv = register_module("conv", torch::nn::Conv1d(torch::nn::Conv1dOptions(12, 4, 3).padding(1)));
  }
  at::Tensor forward(at::Tensor x) {  // [3, 12, 32]
    const auto heads = [](const at::Tensor& t) { return t.view({3, 12, 4, 256}).transpose(1, 2); };
    const at::Tensor a = heads(q(x)), b = heads(k(x));
    at::Tensor y =
        torch::softmax(a.matmul(b.transpose(2, 3)) / 16, -1).matmul(b).transpose(1, 2).reshape({3, 12, 1024});
    y = y + down(torch::gelu(up(norm(y))));
    return conv(y).relu().cumsum(2).slice(2, 0, 1024, 7);
  }
};

}  // namespace

TEST_CASE("compile: choices of the compiler change kernels, not results") {
  torch::manual_seed(3);
  Wide net;
  const at::Tensor x = torch::randn({3, 12, 32});
  const at::Tensor expected = net.forward(x);
  expected.square().mean().backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& p : net.parameters()) gradients.push_back(p.grad().clone());
  const std::map<std::string, OptionValue> choices[] = {
      {{"shape_padding", true}}, {{"epilogue_fusion", false}}, {{"max_autotune", true}, {"shape_padding", true}}};
  for (const auto& options : choices) {
    CAPTURE(options.begin()->first);
    const auto f = compile([](Wide& m, at::Tensor x) { return m.forward(x); }, {.options = options});
    f(net, x);
    net.zero_grad();
    const at::Tensor y = f(net, x);
    CHECK(at::allclose(y, expected, 1e-3, 1e-4));
    y.square().mean().backward();
    size_t i = 0;
    for (const at::Tensor& p : net.parameters()) {
      const at::Tensor& g = gradients[i++];
      CHECK((p.grad() - g).abs().max().item<float>() < 1e-4F * g.abs().max().item<float>());
    }
    const bool tuned = options.contains("max_autotune");
    CHECK((f.explain().find("max_autotune: ") != std::string::npos) == tuned);
  }
}

TEST_CASE("compile: without epilogues a product stands alone") {
  const auto fn = [](at::Tensor x, at::Tensor w) { return x.mm(w).relu() * 2; };
  const auto fused = compile(fn), apart = compile(fn, {.options = {{"epilogue_fusion", false}}});
  const at::Tensor x = torch::randn({8, 16}), w = torch::randn({16, 8});
  for (int i = 0; i < 2; ++i) CHECK(close(fused(x, w), apart(x, w)));
  contains(fused.explain(), "1 kernel,");
  contains(apart.explain(), "2 kernels,");
}

TEST_CASE("compile: what max_autotune measured is kept") {
  const TempFolder folder;
  ::setenv("PRECAST_CACHE_DIR", folder.path().c_str(), 1);
  const auto fn = [](at::Tensor x, at::Tensor w) { return x.mm(w).relu() * 2; };
  const at::Tensor x = torch::randn({8, 16}), w = torch::randn({16, 8});
  const auto f = compile(fn, {.options = {{"max_autotune", true}}});
  f(x, w), f(x, w);
  contains(f.explain(), "max_autotune: no epilogues: ");
  contains(f.explain(), "of the time");
  reset();
  f(x, w), f(x, w);
  CHECK(f.explain().find("of the time") == std::string::npos);
  contains(f.explain(), "measured");
  ::setenv("PRECAST_CACHE_DIR", "", 1);
}

TEST_CASE("compile: PRECAST_LOGS tells as it happens; a topic that there is none of is named") {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "stderr";
  ::setenv("PRECAST_LOGS", "recompiles,dynamic,guard", 1);
  Warnings warnings;
  std::fflush(stderr);
  const int before = ::dup(2);
  const int file = ::open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  ::dup2(file, 2);
  const auto f = compile([](at::Tensor x) { return x + 3; });
  f(torch::randn({4, 2})), f(torch::randn({5, 2}));
  std::fflush(stderr);
  ::dup2(before, 2);
  ::close(file), ::close(before);
  ::unsetenv("PRECAST_LOGS");
  const std::string text = read_text_file(path, "log");
  contains(text, "precast [recompiles] ");
  contains(text, "leaf 0: expected f32[4,2], found f32[5,2]");
  contains(text, "precast [dynamic] ");
  contains(text, "leaf 0 dim 0 is open from now on");
  REQUIRE(warnings.seen.size() == 1);
  contains(warnings.seen[0], "PRECAST_LOGS names 'guard', which is no topic; there are recompiles, guards, ");
}
