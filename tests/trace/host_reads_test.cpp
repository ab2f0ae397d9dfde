// Values that a function reads on the host: which of them become conditions of every later call, and which need not.
// And ops whose operands share memory without seeing each other.
#include <doctest/doctest.h>

#include "harness.h"

namespace precast::trace::testing {

namespace {

Recording recorded(const Program& p) {
  State state = state_from(p, 1);
  return record(p, state);
}

Tensor codes(const Tensor& x) { return (x.abs() * 3).to(torch::kLong).clamp(0, 4); }

}  // namespace

TEST_CASE("composites that look at values record no condition") {
  const std::vector<Program> programs = {
      on_tensors("one_hot", {{3, 4}}, [](auto& x) { return Tensors{torch::one_hot(codes(x[0]), 5)}; }),
      on_tensors("one_hot in inference mode", {{6}},
                 [](auto& x) {
                   c10::InferenceMode mode;
                   return Tensors{torch::one_hot(codes(x[0]), 7) * 2};
                 }),
      on_tensors("ctc_loss, every reduction", {{9, 2, 5}},
                 [](auto& x) {
                   const Tensor p = x[0].log_softmax(-1),
                                text = codes(x[0].narrow(0, 0, 3).select(2, 0).t()).clamp(1, 4);
                   const Tensor frames = torch::full({2}, 9, torch::kLong), letters = torch::full({2}, 2, torch::kLong);
                   Tensors out;
                   for (int reduction : {0, 1, 2}) {
                     out.push_back(at::ctc_loss(p, text, frames, letters, 0, reduction, true));
                     out.push_back(at::ctc_loss(p, text, {9, 8}, {2, 1}, 0, reduction, false));  // of lists
                   }
                   return out;
                 }),
  };
  check_all(programs);
  for (const Program& p : programs) CHECK_MESSAGE(recorded(p).signature.conditions.empty(), p.name);
}

TEST_CASE("what is the same in every call is no condition, and what is not is one") {
  const auto conditions = [](auto fn) { return recorded(on_tensors("", {{6}}, fn)).signature.conditions.size(); };
  CHECK(conditions([](auto& x) {  // as traces compute with sizes
          const Tensor half = torch::tensor(x[0].numel()).floor_divide(torch::tensor(2));
          return Tensors{x[0].reshape({half.item().toLong(), 2}) * torch::full({}, 3.0).item()};
        }) == 0);
  CHECK(conditions([](auto& x) { return Tensors{x[0] * x[0].sum().item()}; }) == 1);
  CHECK(conditions([](auto& x) { return Tensors{x[0] * torch::rand({}).item()}; }) == 1);
  CHECK(conditions([](auto& x) {
          Tensor count = torch::zeros({});
          count.add_(x[0].numel()).add_(x[0].max());  // written with a value of the call
          return Tensors{x[0] * count.item()};
        }) == 1);
}

TEST_CASE("operands that share storage and not memory are operands like others") {
  const std::vector<Program> programs = {
      on_tensors("one half by the other", {{4, 6}},
                 [](auto& x) {
                   Tensor y = x[0] * 1;
                   const auto half = y.chunk(2, 1);
                   half[0].mul_(half[1]);
                   half[1].copy_(half[0]);
                   return Tensors{y};
                 }),
      on_tensors("pointwise with itself", {{5}},
                 [](auto& x) {
                   Tensor y = x[0] * 1;
                   y.mul_(y).add_(y);
                   return Tensors{y};
                 }),
      on_tensors("columns between columns", {{4, 6}},
                 [](auto& x) {
                   torch::NoGradGuard no_grad;
                   Tensor y = x[0] * 1;
                   Tensors even{y.slice(1, 0, 6, 2), y.slice(1, 1, 6, 2)};
                   at::_foreach_mul_(even, std::vector<at::Scalar>{2.0, 3.0});
                   return Tensors{y};
                 }),
  };
  check_all(programs);
  for (const Program& p : programs)
    for (const ir::Node& n : recorded(p).graph.nodes) CHECK_MESSAGE(n.shared.empty(), p.name, ": ", n.op);
}

TEST_CASE("memory that is written in part can be moved before the rest is written") {
  check(on_tensors("circular padding", {{2, 3, 4, 5}}, [](auto& x) {
    namespace F = torch::nn::functional;
    return Tensors{F::pad(x[0], F::PadFuncOptions({2, 1, 1, 2}).mode(torch::kCircular))};
  }));
  check(on_tensors("over memory that was known", {{3}}, [](auto& x) {
    Tensor part = torch::empty({3}), whole = torch::zeros({5});
    part.narrow(0, 0, 2).copy_(x[0].narrow(0, 0, 2));
    whole.narrow(0, 1, 3).copy_(part);
    whole[3] = 7;
    return Tensors{whole};
  }));
  const std::string said = refusal(on_tensors("a gap, moved and read", {{3}}, [](auto& x) {
    Tensor part = torch::empty({3}), whole = torch::zeros({5});
    part.narrow(0, 0, 2).copy_(x[0].narrow(0, 0, 2));
    whole.narrow(0, 1, 3).copy_(part);
    return Tensors{whole.narrow(0, 3, 2)};
  }));
  CHECK_MESSAGE(said.find("of which recorded operations wrote only a part") != said.npos, said);
}

}  // namespace precast::trace::testing
