// Views, writes through views, aliasing, odd dtypes and layouts: everything identity by storage must get right.
#include <doctest/doctest.h>

#include "harness.h"

namespace precast::trace::testing {

using torch::indexing::Slice;

TEST_CASE("views and writes through views") {
  check_all({
      on_tensors("nothing", {{3}}, [](auto& x) { return Tensors{x[0]}; }),
      on_tensors("arithmetic", {{4, 3}, {3}}, [](auto& x) { return Tensors{(x[0] + x[1]) * 2 - x[0] / 3, x[0] > 0}; }),
      on_tensors("views of views", {{4, 6}},
                 [](auto& x) { return Tensors{x[0].t().narrow(0, 1, 4).transpose(0, 1).unsqueeze(1) * 2}; }),
      on_tensors("write through a view", {{4, 6}},
                 [](auto& x) {
                   Tensor y = x[0] * 1;
                   y.select(0, 1).add_(10);
                   y.t().narrow(0, 2, 2).mul_(x[0].t().narrow(0, 2, 2));
                   return Tensors{y, y.sum()};
                 }),
      on_tensors("a view made before a write", {{4, 6}},
                 [](auto& x) {
                   Tensor y = x[0].clone(), v = y.view({2, 12});
                   y.mul_(3);
                   v.narrow(1, 0, 3).zero_();
                   return Tensors{v + 1, y + 2};
                 }),
      on_tensors("in place on an input", {{4, 6}}, [](auto& x) { return Tensors{x[0].add_(1), x[0].sum()}; }),
      on_tensors("in place on a window of an input", {{4, 6}},
                 [](auto& x) {
                   x[0].select(1, 2).fill_(7);
                   x[0].narrow(0, 1, 2).mul_(2);
                   return Tensors{x[0].select(1, 2), x[0].mean()};
                 }),
      on_tensors("overlapping as_strided", {{16}},
                 [](auto& x) {
                   Tensor y = x[0] * 1, w = y.as_strided({3, 4}, {2, 1}, 1);
                   Tensor s = w.sum(1);
                   y.as_strided({3, 3}, {5, 1}, 0).diagonal().add_(s.sum());
                   return Tensors{s, y, w * 2};
                 }),
      on_tensors("diagonal then as_strided looks at storage", {{3, 3}},
                 [](auto& x) {
                   Tensor a = x[0] * 1;
                   a.diagonal().as_strided({2}, {1}, 0).add_(1);
                   return Tensors{a};
                 }),
      on_tensors("as_strided_copy of a strided tensor", {{10}},
                 [](auto& x) {
                   Tensor y = (x[0] * 1).slice(0, 0, 10, 2);
                   y.add_(1);
                   return Tensors{torch::as_strided_copy(y, {3}, {2})};
                 }),
      on_tensors(
          "one element with a stride", {{3}},
          [](auto& x) { return Tensors{(x[0] * 2).slice(0, 1, 3, 2), (x[0] * 3).as_strided({1, 1}, {7, 5}, 2)}; }),
      on_tensors("memory of which a part is not written is copied", {{2, 3, 4}, {1, 1, 3, 4}},
                 [](auto& x) {
                   namespace F = torch::nn::functional;
                   const auto around = [](Tensor t, std::vector<int64_t> pads) {
                     return F::pad(t, F::PadFuncOptions(pads).mode(torch::kCircular));
                   };
                   return Tensors{around(x[0], {1, 2}), around(x[1], {2, 1, 1, 0}), around(x[1] * 2, {1, 0, 0, 2})};
                 }),
      on_tensors("expand and sum", {{3, 1}},
                 [](auto& x) { return Tensors{x[0].expand({3, 5}) * 2, x[0].expand({2, 3, 1}).sum(0)}; }),
      on_tensors("in place with itself", {{5}},
                 [](auto& x) {
                   Tensor y = x[0] * 1;
                   y.add_(y);
                   y.mul_(y.flip(0));
                   y.narrow(0, 0, 3).add_(y.narrow(0, 0, 3));
                   return Tensors{y};
                 }),
      on_tensors("a write whose source shares memory", {{6, 6}},
                 [](auto& x) {
                   Tensor y = x[0] * 1;
                   y.select(0, 0).copy_(y.select(0, 3));
                   y.select(1, 1).add_(y.select(1, 4));
                   return Tensors{y};
                 }),
      on_tensors("split and unbind in place", {{4, 6}},
                 [](auto& x) {
                   Tensor y = x[0] * 1;
                   for (auto& part : y.split(2, 1)) part.add_(part.sum());
                   for (auto& row : y.unbind(0)) row.mul_(2);
                   auto chunks = y.chunk(3, 1);
                   chunks[0].copy_(chunks[2]);
                   return Tensors{y, chunks[1]};
                 }),
      on_tensors("unsafe_split and unsafe_chunk", {{4, 6}},
                 [](auto& x) {
                   auto parts = torch::unsafe_split(x[0], 2, 1), chunks = torch::unsafe_chunk(x[0] * 2, 2, 0);
                   return Tensors{parts[0] + parts[1], chunks[1].relu()};
                 }),
      on_tensors("results that share memory", {{4, 6}},
                 [](auto& x) {
                   Tensor y = x[0] * 1;
                   return Tensors{y, y.t(), y.select(0, 1), y};
                 }),
      on_tensors("results that are views of inputs", {{4, 6}},
                 [](auto& x) { return Tensors{x[0].t(), x[0], x[0].narrow(1, 2, 3), x[0] + 1}; }),
      on_tensors("set_ and resize_ inside", {{6}},
                 [](auto& x) {
                   Tensor y = x[0] * 1, z = torch::empty({0});
                   z.set_(y);
                   z.add_(1);
                   Tensor grown = x[0] * 2;
                   grown.resize_({9});
                   grown.narrow(0, 6, 3).fill_(5);
                   Tensor shrunk = x[0] * 3;
                   shrunk.resize_({2});
                   return Tensors{y, z + 0, grown, shrunk + 0};
                 }),
      on_tensors("t_, squeeze_, unsqueeze_, transpose_", {{4, 1, 6}},
                 [](auto& x) {
                   Tensor y = x[0] * 1;
                   y.squeeze_(1);
                   y.t_();
                   y.unsqueeze_(0);
                   y.transpose_(0, 2);
                   y.add_(1);
                   return Tensors{y};
                 }),
      on_tensors("set_data on a local", {{6}},
                 [](auto& x) {
                   Tensor y = x[0] * 1;
                   y.set_data(x[0] * 5);
                   return Tensors{y + 1};
                 }),
      on_tensors("out= of the right and of another size", {{3, 3}, {3, 3}},
                 [](auto& x) {
                   torch::NoGradGuard no_grad;
                   Tensor a = torch::empty({3, 3}), b = torch::empty({0}), c = torch::ones({3, 3});
                   torch::add_out(a, x[0], x[1]);
                   torch::mm_out(b, x[0], x[1]);
                   torch::mul_out(c, c, x[1]);
                   return Tensors{a, b, c};
                 }),
      on_tensors("empty filled in parts", {{3}, {5}},
                 [](auto& x) {
                   Tensor y = torch::empty({8});
                   y.narrow(0, 0, 3).copy_(x[0]);
                   Tensor first = y.narrow(0, 0, 3) * 2;
                   y.narrow(0, 3, 5).copy_(x[1]);
                   return Tensors{first, y.sum(), y};
                 }),
      on_tensors("zero-size tensors", {{0, 3}, {2, 3}},
                 [](auto& x) {
                   Tensor e = torch::empty({0, 3});
                   x[0].add_(1);
                   return Tensors{torch::cat({e, x[0], x[1]}), x[0].sum(), x[1].narrow(0, 1, 0), e,
                                  x[1].narrow(0, 1, 0) * 2};
                 }),
      on_tensors("channels_last", {{2, 3, 4, 4}},
                 [](auto& x) {
                   Tensor y = x[0].contiguous(torch::MemoryFormat::ChannelsLast);
                   y.select(1, 0).add_(1);
                   return Tensors{y, y.relu(), torch::max_pool2d(y, 2)};
                 }),
      on_tensors("index_put, index_put accumulate, masked_fill", {{5, 3}},
                 [](auto& x) {
                   Tensor y = x[0] * 1, i = torch::tensor({0, 2, 0});
                   y.index_put_({i}, torch::ones({3, 3}), true);
                   y.index_put_({Slice(1, 3), 1}, 9.0);
                   y.masked_fill_(y > 1, 0.5);
                   return Tensors{y, y.index({i}), y.index({Slice(), 2})};
                 }),
      on_tensors("foreach", {{3}, {4}},
                 [](auto& x) {
                   torch::NoGradGuard no_grad;
                   Tensors a{x[0] * 1, x[1] * 1};
                   at::_foreach_add_(a, 2);
                   at::_foreach_mul_(a, std::vector<at::Scalar>{2.0, 3.0});
                   Tensors b = at::_foreach_sqrt(at::_foreach_abs(a));
                   return Tensors{a[0], a[1], b[0], b[1]};
                 }),
      on_tensors("foreach over windows of one buffer", {{10}},
                 [](auto& x) {
                   torch::NoGradGuard no_grad;
                   Tensors a{x[0].narrow(0, 0, 4), x[0].narrow(0, 4, 6)};
                   at::_foreach_mul_(a, 2);
                   at::_foreach_addcmul_(a, a, a, 0.5);
                   return Tensors{a[1] + 1};
                 }),
      on_tensors("writes while looping", {{6, 4}},
                 [](auto& x) {
                   Tensor y = x[0] * 1;
                   for (int i = 1; i < 6; ++i) y.select(0, i).add_(y.select(0, i - 1), 0.5);
                   return Tensors{y};
                 }),
      on_tensors("address reuse", {{300}},
                 [](auto& x) {
                   Tensor y = x[0];
                   for (int i = 0; i < 200; ++i) y = (y * 1.01 + 0.1).view({3, 100}).view({300});
                   return Tensors{y};
                 }),
  });
}

TEST_CASE("dtypes and bits") {
  check_all({
      on_tensors("dtype views with writes", {{8}},
                 [](auto& x) {
                   torch::NoGradGuard no_grad;
                   Tensor y = x[0] * 1;
                   y.view(torch::kInt32).bitwise_and_(0x7fffffff);
                   y.view(torch::kByte).narrow(0, 0, 4).zero_();
                   return Tensors{y, y.view(torch::kInt16).to(torch::kInt64)};
                 }),
      on_tensors("complex views with writes", {{4, 2}},
                 [](auto& x) {
                   torch::NoGradGuard no_grad;
                   Tensor c = torch::view_as_complex(x[0] * 1);
                   torch::real(c).add_(1);
                   torch::imag(c).mul_(2);
                   return Tensors{c, c.abs(), torch::view_as_real(c * c)};
                 }),
      on_tensors("conj and neg bits", {{4, 2}},
                 [](auto& x) {
                   torch::NoGradGuard no_grad;
                   Tensor c = torch::view_as_complex(x[0] * 1), k = c.conj();
                   Tensor n = torch::imag(k);
                   k.mul_(2);
                   n.add_(1);
                   return Tensors{c, k * 1, n + 0, k, torch::mv(c.unsqueeze(0), k)};
                 }),
      on_tensors("wrapped numbers", {{4}},
                 [](auto& x) {
                   Tensor i = torch::arange(4);
                   return Tensors{i * 2.5,
                                  x[0] * 2,
                                  i + 1,
                                  1 - x[0],
                                  2 / (x[0] + 5),
                                  torch::where(x[0] > 0, x[0], 0.0),
                                  torch::pow(2, i),
                                  x[0].clamp(-1, 0.5),
                                  (x[0] > 0) * 3,
                                  x[0].to(torch::kHalf) + 1.5};
                 }),
      on_tensors("numbers as tensors", {{4}},
                 [](auto& x) {
                   Tensor s = torch::tensor(2.5), i = torch::tensor(3);
                   return Tensors{x[0] * s,
                                  x[0] + i,
                                  torch::arange(4) * s,
                                  s + i,
                                  torch::tensor({1.0, 2.0, 3.0, 4.0}) * x[0],
                                  torch::tensor({1, 2}),
                                  torch::full({2}, 3.5),
                                  torch::scalar_tensor(4)};
                 }),
      on_tensors("casts", {{6}},
                 [](auto& x) {
                   return Tensors{x[0].to(torch::kDouble),       (x[0] * 10).to(torch::kInt32),
                                  x[0].to(torch::kBFloat16) * 2, x[0].to(torch::kHalf).to(torch::kFloat),
                                  x[0].to(torch::kFloat),        x[0] > 0};
                 }),
      on_tensors("item as a number", {{1}},
                 [](auto& x) {
                   Tensor c = x[0].detach() * 0 + 2.0;
                   return Tensors{x[0] * c.item<float>(), torch::full({2}, c.item<double>())};
                 }),
      on_tensors("data-dependent shapes of fixed data", {{3}},
                 [](auto& x) {
                   Tensor m = torch::tensor({1, 0, 1}).to(torch::kBool);
                   return Tensors{x[0].masked_select(m), m.nonzero(),
                                  std::get<0>(torch::_unique2(torch::tensor({3, 1, 3})))};
                 }),
  });
}

namespace {

Program with_inputs(std::string name, std::function<Tensors()> inputs, std::function<Tensors(const Tensors&)> fn) {
  return {std::move(name), [inputs] { return State{inputs(), {}, {}}; }, [fn](State& s) { return fn(s.inputs); }};
}

}  // namespace

TEST_CASE("inputs that share memory") {
  const auto base_and_view = [] {
    Tensor x = torch::randn({4, 6});
    return Tensors{x, x.t(), x.narrow(0, 1, 2)};
  };
  const auto interleaved = [] {
    Tensor x = torch::randn({10});
    return Tensors{x.slice(0, 0, 10, 2), x.slice(0, 1, 10, 2)};
  };
  const auto rows = [] {
    Tensor x = torch::randn({6, 4});
    return Tensors{x[1], x[4], x[1]};
  };
  check_all({
      with_inputs("read only", base_and_view, [](auto& x) { return Tensors{x[0].sum() + x[1].mean(), x[2] * 2}; }),
      with_inputs("written", base_and_view,
                  [](auto& x) {
                    x[2].add_(1);
                    Tensor a = x[0] * 2;
                    x[1].mul_(3);
                    return Tensors{a, x[0] + 0, x[2].relu()};
                  }),
      with_inputs("interleaved, written", interleaved,
                  [](auto& x) {
                    x[0].add_(x[1]);
                    x[1].mul_(x[0]);
                    return Tensors{x[0] + x[1]};
                  }),
      with_inputs("rows, one passed twice", rows,
                  [](auto& x) {
                    x[2].add_(1);
                    return Tensors{x[0] * 2, x[1] + x[0]};
                  }),
      with_inputs(
          "the same tensor twice",
          [] {
            Tensor x = torch::randn({3});
            return Tensors{x, x};
          },
          [](auto& x) { return Tensors{x[0].add_(1) + x[1]}; }),
      with_inputs(
          "different dtypes on one memory",
          [] {
            Tensor x = torch::randn({4});
            return Tensors{x, x.view(torch::kInt32)};
          },
          [](auto& x) {
            x[1].bitwise_and_(0x7fffffff);
            return Tensors{x[0] + 1};
          }),
      with_inputs(
          "strided and offset inputs",
          [] { return Tensors{torch::randn({8, 8}).slice(0, 1, 7, 2).t(), torch::randn({5, 5}).diagonal()}; },
          [](auto& x) {
            x[0].add_(1);
            return Tensors{x[0] * 2, x[1] + 1, x[0].contiguous()};
          }),
      with_inputs(
          "expanded input", [] { return Tensors{torch::randn({3, 1}).expand({3, 4})}; },
          [](auto& x) { return Tensors{x[0] + 1, x[0].sum(1)}; }),
      with_inputs(
          "conjugated input", [] { return Tensors{torch::randn({3}, torch::kComplexFloat).conj()}; },
          [](auto& x) {
            x[0].mul_(2);
            return Tensors{x[0] + 1};
          }),
  });
}

TEST_CASE("views of read-only inputs that share memory") {
  // A window that equals no argument still reads the hull.
  check(with_inputs(
      "window across",
      [] {
        Tensor x = torch::randn({10});
        return Tensors{x.narrow(0, 0, 6), x.narrow(0, 4, 6)};
      },
      [](auto& x) { return Tensors{x[0].narrow(0, 2, 3) * 2, x[1].slice(0, 0, 6, 2) + 1}; }));
}

}  // namespace precast::trace::testing
