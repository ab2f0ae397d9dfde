// Open sizes in the ways that programs are written: several symbols, TorchScript, modes of LibTorch, layouts, special
// example sizes, hooks and gradients taken apart.
#include <ATen/autocast_mode.h>
#include <doctest/doctest.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include "harness.h"
#include "precast/dynamic.h"

using namespace precast::trace::testing;
using precast::mark_unbacked;
namespace nn = torch::nn;

namespace {

using Fn = std::function<Tensors(const Tensors&)>;
OpenProgram on(std::string name, std::function<Tensors(int64_t)> inputs, std::function<void(const Tensors&)> mark,
               Fn fn, std::vector<int64_t> sizes = {0, 1, 2, 5, 7, 100}, int64_t example = 4) {
  return {std::move(name),
          [inputs](int64_t n) { return State{inputs(n), nullptr, nullptr}; },
          [mark](const State& s) { mark(s.inputs); },
          [fn](State& s) { return fn(s.inputs); },
          false,
          std::move(sizes),
          example};
}
void rows(const Tensors& t) { mark_unbacked(t[0], 0); }
Tensors matrix(int64_t n) { return {torch::randn({n, 6})}; }

}  // namespace

TEST_CASE("open sizes: several of them") {
  const auto apart = [](const Tensors& t) {
    mark_unbacked(t[0], 0);
    mark_unbacked(t[0], 1);
  };
  check_all(std::vector<OpenProgram>{
      on(
          "rows and columns", [](int64_t n) { return Tensors{torch::randn({n, n + 3})}; }, apart,
          [](const Tensors& t) {
            return Tensors{t[0].t().contiguous(), t[0].sum(0),           t[0].softmax(1),
                           t[0].reshape({-1}),    t[0].t().matmul(t[0]), torch::cat({t[0], t[0]}, 1)};
          }),
      on(
          "batch and length", [](int64_t n) { return Tensors{torch::randn({n + 1, n, 4})}; }, apart,
          [](const Tensors& t) {
            auto scores = torch::matmul(t[0], t[0].transpose(1, 2)) / 2;
            return Tensors{torch::matmul(scores.softmax(-1), t[0]), scores.flatten(0, 1)};
          }),
      on(
          "marked apart and equal",
          [](int64_t n) { return Tensors{torch::randn({n, 3}), torch::randn({n, 3}), torch::randn({3, n})}; },
          [](const Tensors& t) {
            mark_unbacked(t[0], 0);
            mark_unbacked(t[1], 0);
            mark_unbacked(t[2], 1);
          },
          [](const Tensors& t) { return Tensors{t[0] * t[1], t[2].matmul(t[0])}; }),
      on(
          "joined by a concatenation",
          [](int64_t n) { return Tensors{torch::randn({n, 3}), torch::randn({2 * n + 1, 3})}; },
          [](const Tensors& t) {
            mark_unbacked(t[0], 0);
            mark_unbacked(t[1], 0);
          },
          [](const Tensors& t) { return Tensors{torch::cat({t[0], t[1]}).cumsum(0)}; }),
      on(
          "images of any size", [](int64_t n) { return Tensors{torch::randn({2, 3, n + 8, n + 9})}; },
          [](const Tensors& t) {
            mark_unbacked(t[0], 2);
            mark_unbacked(t[0], 3);
          },
          [](const Tensors& t) {
            auto y = torch::conv2d(t[0], torch::ones({4, 3, 3, 3}), {}, 2, 1);
            return Tensors{torch::max_pool2d(torch::relu(y), 2), torch::adaptive_avg_pool2d(y, {1, 1}), t[0].flip({3})};
          }),
  });
}

TEST_CASE("open sizes: examples of special sizes") {
  const Fn fn = [](const Tensors& t) {
    auto y = torch::relu(t[0]).matmul(torch::ones({6, 4}));
    return Tensors{y, y.t().contiguous() + 1, y.sum(0), y.unsqueeze(1).expand({-1, 3, -1}).clone()};
  };
  for (const int64_t example : {0, 1, 6, 64})
    check_all(std::vector<OpenProgram>{
        on("example of " + std::to_string(example), matrix, rows, fn, {0, 1, 2, 5, 6, 100}, example)});
}

TEST_CASE("open sizes: modes and layouts") {
  check_all(std::vector<OpenProgram>{
      on("no_grad", matrix, rows,
         [](const Tensors& t) {
           torch::NoGradGuard no_grad;
           return Tensors{torch::linear(t[0], torch::ones({3, 6}), torch::ones({3}))};
         }),
      on("inference mode", matrix, rows,
         [](const Tensors& t) {
           c10::InferenceMode inference;
           return Tensors{torch::linear(t[0], torch::ones({3, 6})).softmax(1).reshape({-1}).clone()};
         }),
      on("autocast", matrix, rows,
         [](const Tensors& t) {
           at::autocast::set_autocast_enabled(at::kCPU, true);
           auto y = torch::linear(t[0], torch::ones({3, 6})).to(torch::kFloat);
           at::autocast::clear_cache();
           at::autocast::set_autocast_enabled(at::kCPU, false);
           return Tensors{y};
         }),
      on(
          "channels last",
          [](int64_t n) { return Tensors{torch::randn({n, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast)}; },
          rows,
          [](const Tensors& t) {
            return Tensors{torch::relu(torch::conv2d(t[0], torch::ones({4, 3, 3, 3}))), t[0] * 2, t[0].contiguous()};
          },
          {2, 5, 7, 100}),
      on("gradients by hand", matrix, rows,
         [](const Tensors& t) {
           auto x = t[0].detach().requires_grad_(true);
           auto y = (x * x).sum();
           auto g = torch::autograd::grad({y}, {x}, {}, true, true)[0];
           return Tensors{g.detach(), torch::autograd::grad({g.pow(2).sum()}, {x})[0]};
         }),
      on("written argument", matrix, rows,
         [](const Tensors& t) {
           t[0].mul_(2).narrow(1, 0, 3).add_(1);
           return Tensors{t[0].select(1, 0), t[0]};
         }),
      on("a size as a number", matrix, rows,
         [](const Tensors& t) {
           return Tensors{t[0] * t[0].sym_size(0) + t[0].sym_numel(), at::full_symint({t[0].sym_size(0)}, 2.0)};
         }),
  });
}

TEST_CASE("open sizes: TorchScript") {
  check_all(std::vector<OpenProgram>{on("relu of a linear map", matrix, rows, [](const Tensors& t) {
    const torch::jit::GraphOptimizerEnabledGuard no_optimizer(false);  // as a capture has it
    const auto script = torch::jit::compile("def f(x):\n  return torch.relu(x.flatten(1) + 1) * 2\n");
    return Tensors{script->get_function("f")({t[0]}).toTensor()};
  })});
  const Program reads{"",
                      [] {
                        State s{{torch::randn({4, 6})}, nullptr, nullptr};
                        mark_unbacked(s.inputs[0], 0);
                        return s;
                      },
                      [](State& s) {
                        const torch::jit::GraphOptimizerEnabledGuard no_optimizer(false);  // as a capture has it
                        const auto script = torch::jit::compile("def f(x):\n  return x * x.size(0)\n");
                        return Tensors{script->get_function("f")({s.inputs[0]}).toTensor()};
                      }};
  const std::string message = refusal(reads);
  CHECK_MESSAGE(message.find("needs to know the size u0 as a number") != std::string::npos, message);
}

TEST_CASE("open sizes: more operators") {
  const auto labelled = [](int64_t n) { return Tensors{torch::randn({n, 6}), torch::randint(6, {n}, torch::kLong)}; };
  const auto both = [](const Tensors& t) {
    mark_unbacked(t[0], 0, {.shape_id = "n"});
    mark_unbacked(t[1], 0, {.shape_id = "n"});
  };
  check_all(std::vector<OpenProgram>{
      on("losses", labelled, both,
         [](const Tensors& t) {
           return Tensors{torch::cross_entropy_loss(t[0], t[1]),
                          torch::nll_loss(t[0].log_softmax(1), t[1], {}, at::Reduction::None),
                          torch::multi_margin_loss(t[0], t[1]),
                          torch::binary_cross_entropy_with_logits(t[0], t[0].sigmoid()),
                          torch::smooth_l1_loss(t[0], t[0] * 2),
                          torch::kl_div(t[0].log_softmax(1), t[0].softmax(1))};
         },
         {1, 2, 5, 7, 100}),
      on("index and scatter", labelled, both,
         [](const Tensors& t) {
           auto z = torch::zeros_like(t[0]).scatter_(1, t[1].unsqueeze(1), 1);
           return Tensors{z,
                          t[0].gather(1, t[1].unsqueeze(1)),
                          torch::one_hot(t[1], 6),
                          torch::zeros({6, 6}).index_add(0, t[1], t[0]),
                          torch::eye(6).index({t[1]}),
                          torch::embedding(torch::ones({6, 2}), t[1])};
         }),
      on("norms", matrix, rows,
         [](const Tensors& t) {
           return Tensors{torch::group_norm(t[0], 2), torch::layer_norm(t[0], {6}, torch::ones({6})), torch::norm(t[0]),
                          t[0].std(1)};
         }),
      on(
          "windows", [](int64_t n) { return Tensors{torch::randn({n, 2, 9})}; }, rows,
          [](const Tensors& t) {
            return Tensors{torch::avg_pool1d(t[0], 2), torch::conv_transpose1d(t[0], torch::ones({2, 3, 3})),
                           torch::max_pool1d(t[0], 3), t[0].unfold(2, 3, 2).clone(),
                           torch::upsample_nearest1d(t[0], c10::OptionalArrayRef<int64_t>(std::vector<int64_t>{18}),
                                                     std::nullopt)};
          },
          {1, 2, 5, 7, 100}),
      on("mixed", matrix, rows,
         [](const Tensors& t) {
           return Tensors{torch::cdist(t[0], torch::ones({3, 6}), 2, 2),
                          torch::einsum("ij,kj->ik", {t[0], torch::ones({3, 6})}),
                          t[0].unbind(1)[2] + 1,
                          t[0].triu(),
                          torch::meshgrid({t[0].select(1, 0), torch::ones({3})}, "ij")[0] + 0,
                          t[0].movedim(0, 1).sum(1),
                          torch::outer(t[0].select(1, 0), t[0].select(1, 1))};
         }),
  });
}
