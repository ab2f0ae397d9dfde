// Open sizes that windows round: convolutions with strides, pools, unfold, slices. One artifact at sizes far from the
// example, where a few sizes that were tried would not tell how they are rounded.
#include <doctest/doctest.h>
#include <precast/precast.h>
#include <torch/torch.h>

#include "api/agree.h"

using namespace precast;
using namespace precast::testing;
namespace nn = torch::nn;
namespace F = torch::nn::functional;

namespace {

using Sizes = std::vector<int64_t>;

/// One artifact of fn, called at all these sizes.
void agrees(const char* what, const std::function<Tensor(const Tensor&)>& fn, const Sizes& example,
            const std::vector<int>& open, const std::vector<Sizes>& others) {
  CAPTURE(what);
  const Tensor x = torch::randn(example);
  for (const int d : open) mark_unbacked(x, d);
  const auto f = load_from_memory<Tensor(Tensor)>(precompile(LowerOptions{}, fn, x));
  for (const Sizes& sizes : others) {
    CAPTURE(c10::str(sizes));
    const Tensor y = torch::randn(sizes);
    Tensor expected;
    try {
      expected = fn(y);
    } catch (const c10::Error&) {  // smaller than the kernel
      CHECK_THROWS(f(y));
      continue;
    }
    const Tensor found = f(y);
    CHECK(found.sizes() == expected.sizes());
    CHECK(at::allclose(found, expected, 1e-4, 1e-5));
  }
}

std::function<Tensor(const Tensor&)> convolution(int64_t kernel, int64_t stride, int64_t padding,
                                                 int64_t dilation = 1) {
  return [=](const Tensor& x) {
    const Tensor weight = torch::ones({2, x.size(1), kernel, kernel}) / static_cast<double>(kernel * kernel);
    return at::conv2d(x, weight, {}, stride, padding, dilation);
  };
}

const std::vector<Sizes> kImages = {{1, 3, 1, 1},   {1, 3, 2, 3},   {1, 3, 7, 8},
                                    {1, 3, 31, 33}, {1, 3, 64, 40}, {1, 3, 65, 129}};

}  // namespace

TEST_CASE("open sizes: strides of convolutions") {
  agrees("3x3, stride 2", convolution(3, 2, 1), {1, 3, 12, 14}, {2, 3}, kImages);
  agrees("7x7, stride 2", convolution(7, 2, 3), {1, 3, 12, 14}, {2, 3}, kImages);
  agrees("1x1, stride 2", convolution(1, 2, 0), {1, 3, 12, 14}, {2, 3}, kImages);
  agrees("5x5, stride 4, dilation 2", convolution(5, 4, 3, 2), {1, 3, 22, 24}, {2, 3}, kImages);
  agrees("16x16, stride 16: one row at all sizes that a look at a few finds", convolution(16, 16, 0), {1, 3, 20, 17},
         {2, 3}, kImages);
  agrees("three layers, one dim",
         [](const Tensor& x) { return convolution(1, 2, 0)(convolution(3, 2, 1)(convolution(7, 2, 3)(x))); },
         {1, 3, 30, 16}, {2}, {{1, 3, 1, 16}, {1, 3, 8, 16}, {1, 3, 33, 16}, {1, 3, 400, 16}});
  agrees(
      "transposed", [](const Tensor& x) { return at::conv_transpose2d(x, torch::ones({3, 2, 3, 3}), {}, 2, 1, 1); },
      {1, 3, 6, 7}, {2, 3}, kImages);
}

TEST_CASE("open sizes: pools, unfold and slices") {
  const auto max_pool = [](bool ceil) {
    return [ceil](const Tensor& x) { return at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1}, {1, 1}, ceil); };
  };
  agrees("max_pool", max_pool(false), {1, 3, 12, 14}, {2, 3}, kImages);
  agrees("max_pool, ceil_mode", max_pool(true), {1, 3, 12, 14}, {2, 3}, kImages);
  agrees(
      "avg_pool", [](const Tensor& x) { return at::avg_pool2d(x, {2, 3}, {2, 3}); }, {1, 3, 12, 14}, {2, 3}, kImages);
  agrees("a pool wider than any size that is tried", [](const Tensor& x) { return at::max_pool1d(x, 40, 40); },
         {2, 3, 50}, {2}, {{2, 3, 39}, {2, 3, 40}, {2, 3, 79}, {2, 3, 80}, {2, 3, 500}});
  agrees(
      "F::unfold", [](const Tensor& x) { return at::im2col(x, {2, 2}, {1, 1}, {0, 0}, {2, 2}) * 2; }, {1, 3, 12, 14},
      {2, 3}, kImages);
  const std::vector<Sizes> rows = {{0, 3}, {1, 3}, {2, 3}, {29, 3}, {30, 3}, {31, 3}, {61, 3}, {200, 3}};
  agrees("unfold", [](const Tensor& x) { return x.unfold(0, 1, 60) + 1; }, {25, 3}, {0}, rows);
  agrees("all but the first", [](const Tensor& x) { return x.slice(0, 1) * 2; }, {6, 3}, {0}, rows);
  agrees("all but the last", [](const Tensor& x) { return x.slice(0, 0, -1) * 2; }, {6, 3}, {0}, rows);
  agrees("all but two and the last", [](const Tensor& x) { return x.slice(0, 2, -1) * 2; }, {6, 3}, {0}, rows);
  agrees("each 30th", [](const Tensor& x) { return x.slice(0, {}, {}, 30) * 2; }, {25, 3}, {0}, rows);
  agrees(
      "neighbours", [](const Tensor& x) { return at::cat({x.slice(0, 1) - x.slice(0, 0, -1), x}); }, {6, 3}, {0}, rows);
}

TEST_CASE("open sizes: a residual network, trained and not, at any height and width") {
  torch::manual_seed(3);
  struct Block : nn::Module {
    nn::Conv2d a, b, c;
    nn::BatchNorm2d n;
    Block(int64_t in, int64_t out)
        : a(nn::Conv2dOptions(in, out, 3).stride(2).padding(1)),
          b(nn::Conv2dOptions(out, out, 3).padding(1)),
          c(nn::Conv2dOptions(in, out, 1).stride(2)),
          n(out) {
      register_module("a", a), register_module("b", b), register_module("c", c), register_module("n", n);
    }
    Tensor forward(const Tensor& x) { return torch::relu(n(b(torch::relu(a(x)))) + c(x)); }
  };
  nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(3, 4, 7).stride(2).padding(3)),
                     nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1)), Block(4, 8), Block(8, 8),
                     nn::Functional([](const Tensor& t) { return t.mean({2, 3}); }), nn::Linear(8, 5));
  const auto step = [](nn::SequentialImpl& m, const Tensor& x) {
    m.zero_grad();
    const Tensor loss = m.forward(x).square().mean();
    loss.backward();
    return loss.detach();
  };
  const auto image = [](int64_t n, int64_t h, int64_t w) { return torch::randn({n, 3, h, w}); };
  const Tensor x = image(2, 64, 64);
  for (const int d : {0, 2, 3}) mark_unbacked(x, d);
  const auto f = load_from_memory<Tensor(nn::SequentialImpl&, Tensor)>(precompile(LowerOptions{}, step, *net, x));
  for (const auto& [n, h, w] : {std::tuple{2, 64, 64}, {1, 97, 63}, {3, 31, 200}}) {
    const Tensor y = image(n, h, w), mean = net->named_buffers()["2.n.running_mean"];
    const Tensor before = mean.clone(), expected = step(*net, y), after = mean.clone();
    Tensors gradients;
    for (const Tensor& p : net->parameters()) gradients.push_back(p.grad().clone());
    mean.copy_(before);
    CHECK(at::allclose(f(*net, y), expected, 1e-4, 1e-5));
    CHECK(at::allclose(mean, after, 1e-4, 1e-5));
    for (size_t i = 0; i < gradients.size(); ++i)
      CHECK(at::allclose(net->parameters()[i].grad(), gradients[i], 1e-3, 1e-4));
  }
}
