// Programs that public reports show some tensor compiler to get wrong, cut down to a few ops: an artifact does what
// eager does.
#include <cmath>

#include "api/agree.h"

using namespace precast::testing;

namespace F = torch::nn::functional;
using torch::randn;
using torch::tensor;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

Tensor f32(std::vector<float> v) { return tensor(v); }
Tensor f64(std::vector<double> v) { return tensor(v, torch::kDouble); }
template <class T>
Tensor ints(std::vector<int64_t> v, T dtype) {
  return tensor(v).to(dtype);
}

}  // namespace

TEST_CASE("compiler bugs: integers and division") {
  agree_all({
      on(
          "floor division is of the exact quotient",
          [] {
            const std::vector<double> a = {1, .5, 6, 1}, b = {.1, .1, .2, 1. / 3};
            return Tensors{f64(a), f64(b), f64(a).to(at::kFloat), f64(b).to(at::kFloat)};
          },
          [](auto& x) {
            return Tensors{torch::floor_divide(x[0], x[1]), torch::div(x[0], x[1], "floor"),
                           torch::floor_divide(x[2], x[3]), torch::div(x[2], x[3], "floor")};
          }),
      on(
          "the most negative integer by -1 wraps",
          [] { return Tensors{ints({INT32_MIN, 7, -7}, at::kInt), ints({-1, -3, 3}, at::kInt)}; },
          [](auto& x) { return Tensors{torch::floor_divide(x[0], x[1])}; }),
      on(
          "signs of remainders",
          [] {
            return Tensors{f32({5.3f, -5.3f, 5.3f, -5.3f, 0.f, -0.f}), f32({2, 2, -2, -2, 3, -3}),
                           ints({7, -7, 7, -7, 0, 6}, at::kLong), ints({3, 3, -3, -3, 5, -3}, at::kLong)};
          },
          [](auto& x) {
            Tensors all;
            for (int i : {0, 2})
              for (const Tensor& t : {torch::remainder(x[i], x[i + 1]), torch::fmod(x[i], x[i + 1]),
                                      torch::div(x[i], x[i + 1], "floor"), torch::div(x[i], x[i + 1], "trunc")})
                all.push_back(t);
            return all;
          }),
      on(
          "bytes wrap at every op",
          [] { return Tensors{ints({100, -128, 127, 5}, at::kChar), ints({6, 1, 1, -128}, at::kChar)}; },
          [](auto& x) { return Tensors{x[0] * x[1] + x[1], -x[0], x[0].abs(), x[0] - x[1]}; }),
      on(
          "floats to bytes go through a wider integer",
          [] { return Tensors{f32({-1.5f, -.3f, -2, 1.7f, 255.9f, 300})}; },
          [](auto& x) { return Tensors{x[0].to(at::kByte), x[0].to(at::kChar), x[0].to(at::kShort)}; }),
      on(
          "all 64 bits are kept",
          [] { return Tensors{ints({int64_t{1} << 40, -(int64_t{1} << 62), 0, INT64_MAX}, at::kLong)}; },
          [](auto& x) { return Tensors{x[0].abs(), x[0].sign(), -x[0], x[0] + 1}; }),
      on(
          "ceiling division near the largest integer",
          [] { return Tensors{ints({2147483641, 2147483640, 9}, at::kInt)}; },
          [](auto& x) { return Tensors{-torch::floor_divide(-x[0], 10), torch::floor_divide(x[0] + 9, 10)}; }),
  });
}

TEST_CASE("compiler bugs: NaN, infinity, signed zero") {
  agree_all({
      on(
          "NaN wins from both sides",
          [] { return Tensors{f32({1, kNan, 3, kNan, -0.f, 0.f}), f32({kNan, 2, 1, kNan, 0.f, -0.f})}; },
          [](auto& x) {
            return Tensors{torch::minimum(x[0], x[1]),
                           torch::maximum(x[0], x[1]),
                           torch::fmin(x[0], x[1]),
                           torch::fmax(x[0], x[1]),
                           x[0].clamp_min(2),
                           torch::clamp(x[0], x[1], x[1] + 1),
                           torch::clamp(x[1], x[0], {}),
                           torch::relu(x[0]),
                           x[0].amax(),
                           x[0].amin()};
          }),
      on(
          "the first NaN is the largest and the smallest", [] { return Tensors{f32({4.6f, kNan, 9, kNan})}; },
          [](auto& x) {
            return Tensors{x[0].argmax(), x[0].argmin(), std::get<1>(x[0].max(0)), std::get<1>(x[0].min(0))};
          }),
      on(
          "softmax of infinite rows",
          [] { return Tensors{f32({-kInf, -kInf, -kInf, -kInf, 1, 2, kInf, 1, 0, kNan, 0, 1}).view({4, 3})}; },
          [](auto& x) {
            return Tensors{torch::softmax(x[0], 1), torch::log_softmax(x[0], 1), torch::logsumexp(x[0], 1)};
          }),
      on(
          "variance of large numbers",
          [] {
            const Tensor x = torch::arange(4, at::kFloat);
            return Tensors{torch::stack({x + 40000, x + 80000})};
          },
          [](auto& x) { return Tensors{torch::layer_norm(x[0], {4})}; }),
  });
}

TEST_CASE("compiler bugs: dtypes and rounding") {
  agree_all({
      on(
          "an explicit cast rounds", [] { return Tensors{randn({1000})}; },
          [](auto& x) {
            const Tensor y = x[0].to(at::kHalf).to(at::kFloat);
            return Tensors{y, y.sum(), x[0].to(at::kBFloat16).to(at::kFloat) - x[0]};
          }),
      on(
          "a number is rounded to the tensor's dtype first",
          [] { return Tensors{f32({.1f, .2002f, .3f, .4f}).to(at::kBFloat16)}; },
          [](auto& x) { return Tensors{x[0] > 0.2, x[0] == 0.3, x[0] <= 0.1}; }),
      on(
          "promotion",
          [] { return Tensors{ints({1, 2, 3}, at::kLong), tensor(2.0, at::kDouble), tensor({true, false, true})}; },
          [](auto& x) {
            return Tensors{x[0] * 2.0,          x[0] * x[1], x[0] / 2,   torch::pow(x[0], 2),
                           torch::pow(2, x[0]), x[2] + x[2], x[2] * 2.5, x[2] * 2};
          }),
      on(
          "the cast comes before the reduction",
          [] { return Tensors{f32({.5f, .25f, .25f}).to(at::kHalf), f32({.5f, .3f, .9f})}; },
          [](auto& x) {
            return Tensors{torch::sum(x[0], at::kBool), torch::prod(x[1], at::kBool), torch::sum(x[1], at::kLong)};
          }),
      on(
          "many ones", [] { return Tensors{torch::ones({1 << 25})}; },
          [](auto& x) { return Tensors{x[0].sum(), x[0].mean()}; }),
  });
  CHECK(contains(message_of<c10::Error>([] {
                   precast::precompile(
                       {}, [](Tensor a, Tensor b) { return torch::matmul(a, b); }, randn({2, 3, 4}).to(at::kHalf),
                       randn({2, 4, 3}));
                 }),
                 "scalar type Half"));
  CHECK(contains(message_of<std::exception>([] {
                   precast::precompile({}, [](Tensor a) { return torch::clamp(a, -3.4e39, 3.4e39); }, randn({3}));
                 }),
                 "overflow"));
}

TEST_CASE("compiler bugs: order") {
  agree_all({
      on(
          "argmax counts in the transposed order", [] { return Tensors{randn({6, 5})}; },
          [](auto& x) {
            x[0].sin_();
            return Tensors{x[0].t().argmax(), x[0].t().contiguous().argmax(), x[0].argmin()};
          }),
      on(
          "the first true and the first false", [] { return Tensors{randn({7, 32}) > 0}; },
          [](auto& x) {
            const auto low = x[0].min(0), high = x[0].max(0);
            return Tensors{std::get<0>(low), std::get<1>(low), std::get<0>(high), std::get<1>(high)};
          }),
      on(
          "sorting is stable, and NaN is the largest",
          [] { return Tensors{ints({3, 1, 3, 2, 1, 3}, at::kLong), f32({kNan, -0.f, 0.f, -kInf, 2, kNan})}; },
          [](auto& x) {
            Tensors all;
            for (const Tensor& t : x)
              for (bool descending : {false, true}) {
                const auto sorted = torch::sort(t, /*stable=*/true, 0, descending);
                all.insert(all.end(), {std::get<0>(sorted), std::get<1>(sorted)});
              }
            return all;
          }),
  });
}

TEST_CASE("compiler bugs: pooling, resampling, layout") {
  agree_all({
      on(
          "what an average is divided by", [] { return Tensors{randn({1, 2, 6, 7})}; },
          [](auto& x) {
            return Tensors{torch::avg_pool2d(x[0], 3, 2, 1, /*ceil_mode=*/true, /*count_include_pad=*/true),
                           torch::avg_pool2d(x[0], 3, 2, 1, true, false),
                           torch::avg_pool2d(x[0], 3, 2, 1, true, true, 5)};
          }),
      on(
          "rows that stay are copied", [] { return Tensors{randn({1, 1, 3, 4})}; },
          [](auto& x) {
            const std::vector<double> scale = {1.3, 1.5};
            return Tensors{F::interpolate(x[0], F::InterpolateFuncOptions().scale_factor(scale).mode(torch::kNearest))};
          }),
      on(
          "padding keeps channels_last",
          [] { return Tensors{randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)}; },
          [](auto& x) {
            return Tensors{torch::reflection_pad2d(x[0], {1, 2, 1, 1}), torch::constant_pad_nd(x[0], {1, 1, 0, 2}, 3),
                           torch::constant_pad_nd(x[0], {-1, 1, -1, 0}, 3)};
          }),
      on(
          "same padding of an even kernel", [] { return Tensors{randn({1, 2, 7, 8}), randn({3, 2, 2, 4})}; },
          [](auto& x) {
            return Tensors{torch::conv2d(x[0], x[1], {}, 1, "same", 1), torch::conv2d(x[0], x[1], {}, 1, "same", 2)};
          }),
  });
}

TEST_CASE("compiler bugs: windows that overlap, beside a loop over the whole") {
  // As many points in each: the loop over the whole is no loop over the windows.
  agree_all({on(
                 "unfold", [] { return Tensors{randn({8, 8, 8})}; },
                 [](auto& x) {
                   const Tensors both = {torch::softplus(x[0], 2.0, 20.0), x[0].unfold(-2, 4, 3)};
                   const Tensors made = at::_foreach_mul(both, -1.25);
                   return Tensors{made[1], made[0]};
                 }),
             on(
                 "as_strided", [] { return Tensors{randn({24})}; },
                 [](auto& x) { return Tensors{x[0].as_strided({4, 6}, {5, 1}) * 2, x[0] * 3}; })});
}

TEST_CASE("compiler bugs: views, mutation, aliasing") {
  agree_all({
      on(
          "as_strided_copy after a write reads the storage", [] { return Tensors{torch::arange(10)}; },
          [](auto& in) {
            const Tensor x = in[0].slice(0, 0, 10, 2);
            x.add_(1);
            return Tensors{torch::as_strided_copy(x, {3}, {2}), x};
          }),
      on(
          "as_strided of a diagonal writes to the storage", [] { return Tensors{randn({3, 3})}; },
          [](auto& x) {
            x[0].diagonal().as_strided({2}, {1}, 0).add_(1);
            return Tensors{x[0] * 2};
          }),
      on(
          "strides of what is filled", [] { return Tensors{randn({1})}; },
          [](auto& x) {
            const Tensor y = torch::empty_strided({16, 8}, {16, 1}, x[0].options());
            y.fill_(3);
            return Tensors{y};
          }),
      on(
          "a gather waits for all writes",
          [] {
            return Tensors{torch::zeros({1, 4}), torch::zeros({1, 4}), randn({6, 4}), torch::zeros({6, 4}, at::kLong),
                           torch::zeros({6}, at::kLong)};
          },
          [](auto& x) {
            x[0].scatter_add_(0, x[3], x[2]);
            x[1].index_add_(0, x[4], x[2]);
            return Tensors{x[0].gather(0, x[3]) * 2, x[1].index_select(0, x[4]) + x[2]};
          }),
      on(
          "as_strided_ changes the tensor itself", [] { return Tensors{randn({3, 4})}; },
          [](auto& x) {
            Tensor y = x[0] + 1;
            y.as_strided_({2, 2}, {2, 1});
            return Tensors{y, y * 2};
          }),
  });
  const auto separate = [] { return World{std::make_shared<torch::nn::Module>(), {randn({4}), randn({4})}}; };
  const auto overlapping = [] {
    const Tensor all = randn({6});
    return World{std::make_shared<torch::nn::Module>(), {all.narrow(0, 0, 4), all.narrow(0, 2, 4)}};
  };
  const Program writes{"overlap is a condition", separate, [](torch::nn::Module&, const Tensors& x) {
                         x[0].mul_(2);
                         return Tensors{x[0] + x[1]};
                       }};
  for (const char* backend : {"eager", "inductor"})
    CHECK(contains(call_refused(writes, backend, overlapping), "overlap"));
}

TEST_CASE("compiler bugs: empty, 0-dim, out of range") {
  agree_all({
      on(
          "dimensions of a 0-dim tensor", [] { return Tensors{randn({})}; },
          [](auto& x) {
            const auto sorted = torch::sort(x[0], 0);
            return Tensors{
                x[0].flip(0),        x[0].mean(0),        x[0].sum(-1),  x[0].cumsum(0), torch::softmax(x[0], 0),
                std::get<0>(sorted), std::get<1>(sorted), x[0].argmax(0)};
          }),
      on(
          "a negative index wraps", [] { return Tensors{randn({5, 2}), ints({-1, 0, -5}, at::kLong)}; },
          [](auto& x) { return Tensors{x[0].index({x[1]})}; }),
  });
  CHECK(contains(
      message_of<c10::Error>([] { precast::precompile({}, [](Tensor x) { return x.select(0, 2); }, randn({2})); }),
      "out of range"));
  const auto gather = [](Tensor x, Tensor i) { return x.gather(0, i); };
  for (const char* backend : {"eager", "inductor"}) {
    const auto f = precast::load_from_memory<Tensor(Tensor, Tensor)>(
        precast::precompile({.backend = backend}, gather, randn({4}), ints({3, 0}, at::kLong)));
    CHECK(contains(message_of<std::exception>([&] { f(randn({4}), ints({1, -1}, at::kLong)); }), "out of"));
  }
}

TEST_CASE("compiler bugs: random ops keep program order") {
  agree_all({on(
      "two random ops, used in the other order", [] { return Tensors{randn({5})}; },
      [](auto& x) {
        const Tensor a = torch::rand({5}), b = torch::randn({5});
        return Tensors{b * 2 + x[0], a - x[0]};
      })});
}
