// Artifacts for every size, through the public interface: from the text of graphs with symbols, so that nothing of the
// recorder counts here.
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "api/from_text.h"
#include "precast/runtime.h"

using namespace precast;
using namespace precast::testing;

namespace {

const FromText kLinear = {.name = "linear and relu",
                          .graph = R"(symbols: u0 in [0, inf) hint 8
graph(%0: f32[16,24], %1: f32[16], %2: f32[u0,24]) {
  %3: f32[24,16]{1,24} = prim::view(base=%0, offset=0)
  %4: f32[u0,16] = aten::addmm(self=%1, mat1=%2, mat2=%3, beta=1, alpha=1)
  %5: f32[u0,16] = aten::relu(self=%4)
  %6: f32[u0,16] = aten::mul.Tensor(self=%5, other=%4)
  return (%5, %6)
})",
                          .params = {"weight", "bias"}};

// A step of a network with a batch norm: loss, running statistics, gradients of weights, as the recorder writes it.
const FromText kStep = {.name = "a training step",
                        .graph = R"(symbols: u0 in [1, inf) hint 8
graph(%0: f32[16,24], %1: f32[16], %2: f32[16], %3: f32[16], %4: f32[16], %5: f32[u0,24], %6: f32[u0,16]) {
  %7: f32[24,16]{1,24} = prim::view(base=%0, offset=0)
  %8: f32[u0,16] = aten::addmm(self=%1, mat1=%5, mat2=%7, beta=1, alpha=1)
  %9: f32[u0,16], %10: f32[16], %11: f32[16] = aten::native_batch_norm(input=%8, weight=%2, bias=None, running_mean=%3 -> %12: f32[16], running_var=%4 -> %13: f32[16], training=true, momentum=0.1, eps=1e-05)
  %14: f32[u0,16] = aten::relu(self=%9)
  %15: f32[u0,16] = aten::sub.Tensor(self=%14, other=%6, alpha=1)
  %16: f32[u0,16] = aten::mul.Tensor(self=%15, other=%15)
  %17: f32[] = aten::sum(self=%16, dtype=None)
  %18: f32[] = aten::div.Scalar(self=%17, other=16*u0)
  %19: f32[u0,16] = aten::div.Scalar(self=%15, other=8*u0)
  %20: f32[u0,16] = aten::threshold_backward(grad_output=%19, self=%14, threshold=0)
  %21: f32[u0,16], %22: f32[16], %23: f32[16] = aten::native_batch_norm_backward(grad_out=%20, input=%8, weight=%2, running_mean=%3, running_var=%4, save_mean=%10, save_invstd=%11, train=true, eps=1e-05, output_mask=[true, true, true])
  %24: f32[16,u0]{1,16} = prim::view(base=%21, offset=0)
  %25: f32[16,24] = aten::mm(self=%24, mat2=%5)
  %26: f32[16] = aten::sum.dim_IntList(self=%21, dim=[0], keepdim=false, dtype=None)
  return (%18, %25, %26, %22, %12, %13)
})",
                        .params = {"weight", "bias", "scale"},
                        .buffers = {"mean", "var"},
                        .writes = {{3, 4}, {4, 5}},
                        .grads = {{0, 1}, {1, 2}, {2, 3}},
                        .sizes = {{7}, {2}, {3}, {100}, {7}},
                        .relative = 1e-3,
                        .absolute = 1e-4};

}  // namespace

TEST_CASE("dynamic: one artifact at many sizes") { check(kLinear); }

TEST_CASE("dynamic: a training step with running statistics and gradients") { check(kStep); }

TEST_CASE("dynamic: ops of the host run at the sizes of the call") {
  check({.name = "an op of the host between kernels",
         .graph = R"(symbols: u0 in [0, inf) hint 8, u1 in [0, inf) hint 4
graph(%0: f32[u0,u1]) {
  %1: f32[u0,u1] = aten::neg(self=%0)
  %2: f32[u0,u1] = aten::roll(self=%1, shifts=[1], dims=[0])
  %3: f32[u0,u1] = aten::exp(self=%2)
  return (%3)
})",
         .sizes = {{3, 5}, {1, 1}, {0, 2}, {3, 5}, {40, 7}},
         .host_ops = 1});
}

TEST_CASE("dynamic: results that are views of arguments and of each other") {
  const ir::Symbol u0{.id = 0};
  const ir::Size n = ir::Size::symbol(u0);
  const ir::Type row{ir::Dtype::f32, {5}, {1}}, column{ir::Dtype::f32, {n}, {5}};
  using Kind = artifact::Result::Kind;
  const FromText p = {.name = "views",
                      .graph = R"(symbols: u0 in [0, inf) hint 8
graph(%0: f32[u0,5]) {
  %1: f32[u0,5] = aten::neg(self=%0)
  return (%1)
})",
                      .results = {{Kind::source, 0, 0, {}, {}, false},
                                  {Kind::source_view, 0, 20 * n - 20, row, {}, false},
                                  {Kind::output_view, 0, 8, column, {}, false},
                                  {Kind::output, 0, 0, {}, {}, false}}};
  for (const char* backend : {"inductor", "eager"}) {
    const auto f = load_from_memory<Tensors(Model&, Tensors)>(build(p, backend));
    Model none;
    for (const int64_t size : {1, 2, 50}) {
      const at::Tensor x = torch::randn({size, 5});
      const Tensors r = f(none, {x});
      CHECK(r[0].is_same(x));
      CHECK(r[1].is_alias_of(x));
      CHECK(torch::equal(r[1], x[size - 1]));
      CHECK(torch::equal(r[3], -x));
      CHECK(r[2].is_alias_of(r[3]));
      CHECK(torch::equal(r[2], r[3].select(1, 2)));
    }
    contains(message_of([&] { f(none, {torch::randn({0, 5})}); }),
             "20*u0-20 must not be negative, where u0 is argument 1[0] dim 0: found -20");
  }
}

TEST_CASE("dynamic: an argument of any size is written in place") {
  check({.name = "written",
         .graph = R"(symbols: u0 in [0, inf) hint 8
graph(%0: f32[u0,6], %1: f32[6,u0]{1,6}) {
  %2: f32[u0,6] = aten::exp(self=%0)
  %3: f32[6,u0]{1,6} = prim::view(base=%2, offset=0)
  %4: f32[6,u0]{1,6} = aten::add.Tensor(self=%3, other=%1, alpha=1)
  return (%2, %4)
})",
         .writes = {{0, 0}, {1, 1}}});
}

TEST_CASE("dynamic: bind, freeze and refresh") {
  const auto f = load_from_memory<Tensors(Model&, Tensors)>(build(kLinear));
  AtSizes seven = at_sizes(kLinear, {7}, 5), none = at_sizes(kLinear, {0}, 5), many = at_sizes(kLinear, {300}, 5);
  const auto live = f.bind(*seven.model);
  const auto fast = f.freeze(*seven.model);
  // The weights are drawn first, so they are the same for all sizes.
  for (const AtSizes* w : {&seven, &none, &many, &seven}) {
    CHECK(close(live(w->arguments)[1], w->outputs[1]));
    CHECK(close(fast(w->arguments)[1], w->outputs[1]));
  }
  {
    torch::NoGradGuard no_grad;
    seven.model->named_parameters()["bias"].add_(1);
  }
  CHECK(close(fast(many.arguments)[1], many.outputs[1]));
  CHECK_FALSE(close(live(many.arguments)[1], many.outputs[1]));
  fast.refresh();
  CHECK(close(fast(many.arguments)[1], live(many.arguments)[1]));
  contains(message_of([&] { fast({torch::randn({3, 23})}); }), "argument 1[0]: expected shape [u0, 24], found [3, 23]");
}

TEST_CASE("dynamic: calls of different sizes at the same time") {
  for (const char* backend : {"inductor", "eager"}) {
    const auto f = load_from_memory<Tensors(Model&, Tensors)>(build(kLinear, backend));
    std::vector<AtSizes> worlds;
    for (const int64_t size : {1, 5, 0, 260, 31, 2}) worlds.push_back(at_sizes(kLinear, {size}));
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        torch::NoGradGuard no_grad;
        for (size_t i = 0; i < 60; ++i) {
          const AtSizes& w = worlds[(t + i) % worlds.size()];
          const Tensors r = f(*w.model, w.arguments);
          right += r[0].sizes() == w.outputs[0].sizes() && close(r[0], w.outputs[0]) && close(r[1], w.outputs[1]);
        }
      });
    for (auto& t : threads) t.join();
    CHECK(right == 240);
  }
}

TEST_CASE("dynamic: refusals name both places, and nothing has changed") {
  const FromText p = {.name = "two",
                      .graph = R"(symbols: u0 in [2, 64] hint 8
graph(%0: f32[u0,6], %1: f32[2*u0,6]) {
  %2: f32[u0,6] = aten::exp(self=%0)
  return (%2)
})",
                      .writes = {{0, 0}}};
  for (const char* backend : {"inductor", "eager"}) {
    const auto f = load_from_memory<Tensors(Model&, Tensors)>(build(p, backend));
    Model none;
    const auto refused = [&](int64_t a, int64_t b) {
      const at::Tensor x = torch::randn({a, 6}), before = x.clone();
      const std::string message = message_of([&] { f(none, {x, torch::randn({b, 6})}); });
      CHECK(torch::equal(x, before));
      return message;
    };
    contains(refused(5, 9),
             "argument 1[1] dim 0 must be 2*u0, where u0 is argument 1[0] dim 0: expected 10, found 9. Pass tensors");
    contains(refused(1, 2), "argument 1[0] dim 0: expected a size of 2 to 64, found 1. These are the bounds of u0");
    contains(refused(65, 130), "found 65");
  }
}

TEST_CASE("dynamic: a pair of files, and its text alone") {
  const Folder folder;
  const Pair pair = build(kLinear);
  const PairPaths paths = folder.pair();
  std::ofstream(paths.artifact_path) << pair.code;
  std::ofstream(paths.cache_path) << "damaged";
  check_call(kLinear, load<Tensors(Model&, Tensors)>(paths), {9});
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "", 1);  // no compiler: the graph is run op by op
  const auto interpreted = load<Tensors(Model&, Tensors)>(paths);
  ::setenv("PATH", path.c_str(), 1);
  for (const int64_t size : {0, 1, 9}) check_call(kLinear, interpreted, {size});
}

TEST_CASE("dynamic: without LibTorch, by the C interface") {
  const Folder folder;
  const Pair pair = build(kLinear);
  const PairPaths paths = folder.pair();
  std::ofstream(paths.artifact_path) << pair.code;
  std::ofstream(paths.cache_path)
      .write(reinterpret_cast<const char*>(pair.cache.data()), static_cast<std::streamsize>(pair.cache.size()));
  precast_runnable* model = nullptr;
  REQUIRE(precast_load(paths.artifact_path.c_str(), paths.cache_path.c_str(), &model) == PRECAST_OK);
  CHECK(precast_expected_leaf(model, 0)->t.sizes[0] < 0);
  CHECK(precast_expected_leaf(model, 0)->t.sizes[1] == 24);
  AtSizes first = at_sizes(kLinear, {4});
  const auto described = [](const at::Tensor& t) {
    return precast_tensor{t.data_ptr(),
                          reinterpret_cast<const precast_i64*>(t.sizes().data()),
                          reinterpret_cast<const precast_i64*>(t.strides().data()),
                          t.unsafeGetTensorImpl(),
                          nullptr,
                          static_cast<int>(t.dim()),
                          6,
                          0,
                          -1,
                          0,
                          0};
  };
  const precast_named weights[] = {{"weight", 0, 0, described(first.inputs[0])},
                                   {"bias", 0, 0, described(first.inputs[1])}};
  precast_binding* binding = nullptr;
  REQUIRE(precast_bind(model, weights, 2, &binding) == PRECAST_OK);
  std::vector<precast_outputs*> kept;
  std::vector<at::Tensor> expected;
  for (const int64_t size : {4, 0, 1, 200}) {
    const AtSizes w = at_sizes(kLinear, {size});
    precast_leaf leaf{};
    leaf.kind = PRECAST_TENSOR, leaf.t = described(w.arguments[0]);
    precast_outputs* out = nullptr;
    REQUIRE(precast_call_model(binding, &leaf, 1, nullptr, &out) == PRECAST_OK);
    kept.push_back(out), expected.push_back(w.outputs[0]);
  }
  for (size_t i = 0; i < kept.size(); ++i) {  // sizes of earlier results have stayed
    const precast_tensor& y = precast_output(kept[i], 0)->t;
    REQUIRE(y.sizes[0] == expected[i].size(0));
    const at::Tensor found = at::from_blob(y.data, {y.sizes[0], y.sizes[1]}, {y.strides[0], y.strides[1]});
    CHECK(close(found, expected[i]));
    precast_free_outputs(kept[i]);
  }
  precast_leaf wrong{};
  const at::Tensor narrow = torch::randn({4, 23});
  wrong.kind = PRECAST_TENSOR, wrong.t = described(narrow);
  precast_outputs* out = nullptr;
  CHECK(precast_call_model(binding, &wrong, 1, nullptr, &out) == PRECAST_CONTRACT);
  contains(precast_last_error(), "argument 1[0]: expected shape [u0, 24], found [4, 23]");
  precast_free_binding(binding);
  precast_free_runnable(model);
}
