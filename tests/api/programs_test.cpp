// Programs through the public interface: what comes back is eager's in value, layout, aliasing and identity.
#include "api/agree.h"

using namespace precast::testing;

namespace nn = torch::nn;
using torch::randn;

namespace {

Tensors two() { return {randn({2, 3}), randn({2, 3})}; }

struct OwnImpl : nn::Module {
  Tensor w, b, count;
  OwnImpl() {
    w = register_parameter("w", randn({3, 3}));
    b = register_parameter("b", randn({3}));
    count = register_buffer("count", torch::zeros({3}));
  }
  Tensor forward(const Tensor& x) { return torch::tanh(torch::addmm(b, x, w)); }
};
TORCH_MODULE(Own);

Program own(std::string name, std::function<Tensors(OwnImpl&, const Tensors&)> fn) {
  return with<Own>(std::move(name), [] { return Own(); }, two, std::move(fn));
}

}  // namespace

TEST_CASE("results: aliasing and identity") {
  agree_all({
      on("a view of an input, returned twice", two,
         [](auto& x) {
           Tensor v = x[0].t();
           return Tensors{v, v, x[0], x[0].t()};
         }),
      on("a view of a result, returned twice", two,
         [](auto& x) {
           Tensor y = x[0] + x[1], v = y.t();
           return Tensors{v, v, y, y.t(), y};
         }),
      on("views only", two,
         [](auto& x) {
           Tensor y = x[0] + x[1];
           return Tensors{y.select(0, 1), y.select(0, 1), y.select(0, 0)};
         }),
      on("detached", two, [](auto& x) { return Tensors{x[0].detach(), x[0], x[0].detach()}; }),
      on("expanded", two,
         [](auto& x) {
           return Tensors{x[0].unsqueeze(0).expand({4, 2, 3}), (x[1] * 2).unsqueeze(0).expand({4, 2, 3})};
         }),
      on("partly written", two,
         [](auto& x) {
           Tensor e = torch::empty({4, 3});
           e.narrow(0, 1, 2).copy_(x[0]);
           return Tensors{e.narrow(0, 1, 2)};
         }),
      on("partly written, two windows", two,
         [](auto& x) {
           Tensor e = torch::empty({4, 3});
           e.narrow(0, 1, 2).copy_(x[0]);
           return Tensors{e.narrow(0, 1, 1), e.narrow(0, 2, 1), e.narrow(0, 1, 2)};
         }),
      on(
          "empty and 0-dim", [] { return Tensors{randn({0, 3}), randn({}), randn({4})}; },
          [](auto& x) {
            return Tensors{x[0], x[0] * 2, x[1] * x[2], x[1] + 1, x[1], x[2].narrow(0, 1, 0), x[0].sum(), x[2].sum()};
          }),
      on(
          "conj and neg views", [] { return Tensors{randn({3}, torch::kComplexFloat)}; },
          [](auto& x) {
            return Tensors{x[0].conj(), torch::imag(x[0].conj()), torch::real(x[0]), torch::view_as_real(x[0]),
                           x[0].conj() * 2};
          }),
      on("another dtype's view", two,
         [](auto& x) { return Tensors{x[0].view(torch::kInt32), (x[0] + 1).view(torch::kInt32)}; }),
      on("unused and undefined", two, [](auto& x) { return Tensors{Tensor(), x[1], Tensor()}; }),
      on("nothing at all", two, [](auto&) { return Tensors{}; }),
      own("a parameter, a buffer, and views of them",
          [](auto& m, auto&) { return Tensors{m.w, m.count, m.w.t(), m.count.narrow(0, 1, 2), m.w.detach(), m.w}; }),
      own("the gradient itself",
          [](auto& m, auto& x) {
            m.zero_grad();
            m.forward(x[0]).sum().backward();
            return Tensors{m.w.grad(), m.b.grad(), m.w.grad()};
          }),
      own("a view of the gradient",
          [](auto& m, auto& x) {
            m.zero_grad();
            m.forward(x[0]).sum().backward();
            return Tensors{m.w.grad().t()};
          }),
      own("gradients that share memory",
          [](auto& m, auto& x) {
            m.zero_grad();
            auto g = torch::autograd::grad({m.forward(x[0]).sum()}, {m.w});
            m.w.mutable_grad() = g[0];
            return Tensors{g[0]};
          }),
      own("one gradient for two parameters",
          [](auto& m, auto& x) {
            Tensor flat = torch::cat({x[0].reshape(-1), x[1].reshape(-1)});
            m.w.mutable_grad() = flat.narrow(0, 0, 9).view({3, 3});
            m.b.mutable_grad() = flat.narrow(0, 9, 3);
            return Tensors{};
          }),
  });
}

TEST_CASE("results: of written inputs") {
  agree_all({
      on("written and returned", two,
         [](auto& x) {
           x[0].add_(x[1]);
           return Tensors{x[0], x[0].t(), x[0] * 2};
         }),
      on("a result made before a write", two,
         [](auto& x) {
           Tensor before = x[0] * 1, view = x[0].select(0, 1);
           x[0].mul_(3);
           return Tensors{before, view};
         }),
      on("swapped through a copy", two,
         [](auto& x) {
           Tensor t = x[0].clone();
           x[0].copy_(x[1]);
           x[1].copy_(t);
           return Tensors{t};
         }),
      on("written with another input's value", two,
         [](auto& x) {
           x[0].copy_(x[1]);
           return Tensors{};
         }),
      on("written twice and back", two,
         [](auto& x) {
           x[0].add_(1);
           x[0].sub_(1);
           x[1].fill_(4);
           return Tensors{};
         }),
      on(
          "a lazy clone written", [] { return Tensors{randn({2, 3})._lazy_clone(), randn({2, 3})}; },
          [](auto& x) {
            x[0].add_(x[1]);
            return Tensors{x[0] * 2};
          }),
      on(
          "the same tensor twice",
          [] {
            Tensor a = randn({2, 3});
            return Tensors{a, a};
          },
          [](auto& x) {
            x[0].add_(1);
            return Tensors{x[0] + x[1], x[1]};
          }),
      on(
          "overlapping inputs",
          [] {
            Tensor a = randn({4, 3});
            return Tensors{a.narrow(0, 0, 3), a.narrow(0, 1, 3), a};
          },
          [](auto& x) {
            x[0].add_(1);
            x[1].mul_(2);
            return Tensors{x[2].sum(), x[2].narrow(0, 1, 2), x[0].t()};
          }),
      on(
          "interleaved inputs",
          [] {
            Tensor a = randn({4, 6});
            return Tensors{a.slice(1, 0, 6, 2), a.slice(1, 1, 6, 2)};
          },
          [](auto& x) {
            x[0].add_(x[1]);
            return Tensors{x[0] * x[1]};
          }),
      on(
          "transposed, expanded, strided inputs",
          [] { return Tensors{randn({3, 2}).t(), randn({1, 3}).expand({2, 3}), randn({2, 6}).slice(1, 0, 6, 2)}; },
          [](auto& x) {
            x[0].add_(x[1]);
            x[2].mul_(x[0]);
            return Tensors{x[0] + x[1], x[2].contiguous(), x[1]};
          }),
      on(
          "negative and conjugate inputs",
          [] {
            return Tensors{randn({3}, torch::kComplexFloat).conj(),
                           torch::imag(randn({3}, torch::kComplexFloat).conj())};
          },
          [](auto& x) {
            x[0].mul_(2);
            x[1].add_(1);
            return Tensors{x[0] + 1, x[1] * 2};
          }),
      own("buffers and parameters written",
          [](auto& m, auto& x) {
            at::NoGradGuard no_grad;
            m.count.add_(1);
            m.w.sub_(x[0].sum() * 0.1);
            m.b.copy_(m.count);
            return Tensors{m.w * 1};
          }),
  });
}

TEST_CASE("dtypes") {
  agree_all({
      on(
          "integers and bools",
          [] {
            return Tensors{torch::randint(100, {5}),
                           torch::randint(2, {5}).to(torch::kBool),
                           torch::randint(200, {5}, torch::kByte),
                           torch::randint(-50, 50, {5}, torch::kInt8),
                           torch::randint(-9, 9, {5}, torch::kInt32),
                           torch::randint(-9, 9, {5}, torch::kInt16)};
          },
          [](auto& x) {
            return Tensors{x[0] + x[4],
                           x[1].logical_not(),
                           x[2] * 3,
                           x[3] + x[3],
                           x[0].floor_divide(7),
                           x[0] % 7,
                           x[1].to(torch::kFloat),
                           x[5] * x[4],
                           torch::where(x[1], x[0], x[0] * 2),
                           x[2].bitwise_and(15),
                           x[0] / 2,
                           x[0].to(torch::kDouble).sqrt()};
          }),
      on(
          "halves", [] { return Tensors{randn({6}).to(torch::kHalf), randn({6}).to(torch::kBFloat16)}; },
          [](auto& x) {
            return Tensors{x[0] * 2 + 1, x[1] * x[1], x[0].to(torch::kFloat), x[0].sum(), torch::softmax(x[1], 0)};
          }),
      on(
          "complex", [] { return Tensors{randn({3, 3}, torch::kComplexFloat), randn({3}, torch::kComplexDouble)}; },
          [](auto& x) {
            return Tensors{x[0].mm(x[0]), x[0].abs(), x[1] * x[1], x[1].exp(), torch::angle(x[1]), x[0].sum()};
          }),
      on(
          "unsigned",
          [] {
            return Tensors{torch::arange(5).to(torch::kUInt16), torch::arange(5).to(torch::kUInt32),
                           torch::arange(5).to(torch::kUInt64)};
          },
          [](auto& x) {
            return Tensors{x[0].to(torch::kInt32), x[1].to(torch::kInt64) + 1, x[2].to(torch::kFloat), x[0]};
          }),
      on(
          "int64 indices", [] { return Tensors{randn({5, 3}), torch::randint(5, {4}), torch::randint(3, {5, 2})}; },
          [](auto& x) {
            return Tensors{x[0].index({x[1]}), x[0].index_select(0, x[1]), x[0].gather(1, x[2]),
                           torch::embedding(x[0], x[1]), x[0].index_add(0, x[1], torch::ones({4, 3}))};
          }),
      on(
          "double", [] { return Tensors{randn({3, 4}, torch::kDouble), randn({4, 2}, torch::kDouble)}; },
          [](auto& x) { return Tensors{x[0].mm(x[1]), x[0].softmax(1), x[0] * 0.1}; }),
  });
}
