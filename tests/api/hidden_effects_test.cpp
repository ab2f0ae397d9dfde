// What no operation shows is refused, however small it is: a raw write of one ulp hides below every tolerance.
#include <cmath>

#include "api/agree.h"

using namespace precast;
using namespace precast::testing;

namespace {

void nudge(float* p) { *p = std::nextafter(*p, 100.f); }
float* pointer(const Tensor& t) { return t.data_ptr<float>(); }

const LowerOptions kEager{.backend = "eager"};

std::string refusal(std::function<Tensor(Tensor)> fn, const LowerOptions& options = kEager) {
  return message_of([&] { precompile(options, fn, torch::randn({4})); });
}

}  // namespace

TEST_CASE("hidden effects: a raw write to an input, before, between and after recorded writes") {
  const std::vector<std::function<Tensor(Tensor)>> programs = {
      [](Tensor x) {
        Tensor y = x * 2;
        nudge(pointer(x));
        return y;
      },
      [](Tensor x) {
        x.mul_(2);
        nudge(pointer(x));
        return x * 3;
      },
      [](Tensor x) {
        nudge(pointer(x));
        x.mul_(2);
        return x * 3;
      },
      [](Tensor x) {
        x.mul_(2);
        Tensor y = x * 3;
        nudge(pointer(x));
        return y;
      },
      [](Tensor x) {
        x.mul_(2);
        nudge(pointer(x));
        x.fill_(2);
        return x * 3;
      },
      [](Tensor x) {
        x.narrow(0, 2, 2).mul_(2);
        nudge(pointer(x));
        return x * 3;
      },
      [](Tensor x) {
        float* p = pointer(x);
        const float old = *p;
        nudge(p);
        Tensor y = x * 2;
        *p = old;
        return y;
      },
      [](Tensor x) {
        float* p = pointer(x);
        x.mul_(2);
        nudge(p);
        return x;
      },
  };
  for (const auto& fn : programs) contains(refusal(fn), "argument 0 was written through a raw pointer");
}

TEST_CASE("hidden effects: raw writes to parameters, buffers, gradients, locals") {
  const auto of = [](auto fn) {
    torch::nn::BatchNorm1d m(3);
    return message_of([&] {
      precompile(kEager, [&](torch::nn::BatchNorm1d& n, Tensor x) { return fn(n, x), x * 1; }, m, torch::randn({4, 3}));
    });
  };
  contains(of([](auto& m, auto& x) { m(x), m->num_batches_tracked.template data_ptr<int64_t>()[0] += 1; }),
           "buffer 'num_batches_tracked' was written through a raw pointer");
  contains(of([](auto& m, auto& x) { m(x), nudge(pointer(m->running_mean)); }),
           "buffer 'running_mean' was written through a raw pointer");
  contains(of([](auto& m, auto& x) {
             m(x).sum().backward();
             at::NoGradGuard no_grad;
             m->weight.sub_(0.1);
             nudge(pointer(m->weight));
           }),
           "parameter 'weight' was written through a raw pointer");
  contains(of([](auto& m, auto& x) { m(x).sum().backward(), nudge(pointer(m->weight.grad())); }),
           "an input or gradient was read or written directly");
  contains(of([](auto&, auto& x) { nudge(pointer(x * 2)); }), "made by aten::mul.Scalar was read or written directly");
  contains(refusal([](Tensor x) {
             Tensor y = torch::empty({4});
             float* p = pointer(y);  // an `empty` is open until something is in it
             y.copy_(x);
             nudge(p);
             return y * 2;
           }),
           "made by aten::empty.memory_format was written through a raw pointer");
  contains(refusal([](Tensor x) {
             Tensor y = torch::empty({4});
             y.copy_(x);
             return y * *pointer(y);
           }),
           "made by aten::empty.memory_format was read or written directly");
}

TEST_CASE("hidden effects: inputs may be sealed, so that reading them is seen as well") {
  const LowerOptions sealed{.backend = "eager", .seal_inputs = true};
  contains(refusal([](Tensor x) { return x * *pointer(x); }, sealed),
           "an input or gradient was read or written directly");
  contains(refusal([](Tensor x) { return *pointer(x) = 1, x * 2; }, sealed),
           "an input or gradient was read or written directly");
}
