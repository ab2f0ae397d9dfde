// Operators of another library that break what the recorder relies on, and memory that changes hands unseen: each is
// refused, and nothing stays changed.
#include <doctest/doctest.h>
#include <torch/library.h>

#include "harness.h"

namespace precast::trace::testing {

namespace {

using Named = c10::Dict<std::string, Tensor>;
int calls = 0;

Tensor first_of(const Tensor& x, const Named&) { return x.clone(); }
Named as_dict(const Tensor& x) {
  Named d;
  d.insert("x", x.clone());
  return d;
}
Tensor same_memory(const Tensor& x) { return torch::from_blob(x.data_ptr(), x.sizes(), x.options()); }
void give_memory(const Tensor& x) { x.set_(torch::zeros_like(x)); }
Tensor counted(const Tensor& x) { return x + ++calls; }
Tensor once(const Tensor& x) {
  TORCH_CHECK(++calls == 1, "only once");
  return x.clone();
}
Tensor draws_once(const Tensor& x) { return ++calls == 1 ? x + torch::rand_like(x) : x.clone(); }

TORCH_LIBRARY(precast_odd, m) {
  m.def("first_of(Tensor x, Dict(str, Tensor) d) -> Tensor");
  m.def("as_dict(Tensor x) -> Dict(str, Tensor)");
  m.def("same_memory(Tensor x) -> Tensor");
  m.def("give_memory(Tensor(a!) x) -> ()");
  m.def("counted(Tensor x) -> Tensor");
  m.def("once(Tensor x) -> Tensor");
  m.def("draws_once(Tensor x) -> Tensor", {at::Tag::nondeterministic_seeded});
}
TORCH_LIBRARY_IMPL(precast_odd, CPU, m) {
  m.impl("first_of", first_of);
  m.impl("as_dict", as_dict);
  m.impl("same_memory", same_memory);
  m.impl("give_memory", give_memory);
  m.impl("counted", counted);
  m.impl("once", once);
  m.impl("draws_once", draws_once);
}

template <class Sig>
auto op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Sig>();
}
Tensor call(const char* name, const Tensor& x) { return op<Tensor(const Tensor&)>(name).call(x); }

void replace_memory(const Tensor& t) {
  static std::vector<float> other;
  const auto* now = static_cast<const float*>(t.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
  other.assign(now, now + t.numel());
  t.storage().unsafeGetStorageImpl()->set_data_ptr_noswap({other.data(), c10::kCPU});
}

struct Row {
  const char* name;
  std::vector<std::vector<int64_t>> shapes;
  std::function<Tensors(const Tensors&)> fn;
  const char* message;
};

}  // namespace

TEST_CASE("operators of other libraries, and what has no form in a graph") {
  const Tensor meta = torch::empty({3}, torch::kMeta);
  const std::vector<Row> table = {
      {"a dict as an argument",
       {{3}},
       [](auto& x) {
         return Tensors{op<Tensor(const Tensor&, const Named&)>("precast_odd::first_of").call(x[0], Named())};
       },
       "argument 'd' (Dict(str, Tensor)) has no form in a graph"},
      {"a dict as a result",
       {{3}},
       [](auto& x) { return Tensors{op<Named(const Tensor&)>("precast_odd::as_dict").call(x[0]).at("x")}; },
       "returns something that has no form in a graph"},
      {"new storage over an argument's memory",
       {{3}},
       [](auto& x) { return Tensors{call("precast_odd::same_memory", x[0]) + 1}; },
       "returns new storage over the memory of argument 0"},
      {"an argument that is given other memory",
       {{3}},
       [](auto& x) {
         Tensor y = x[0] * 2;
         op<void(const Tensor&)>("precast_odd::give_memory").call(y);
         return Tensors{y};
       },
       "gives its argument 'x' other memory"},
      {"a meta tensor that was closed over",
       {{3}},
       [meta](auto&) { return Tensors{torch::relu(meta)}; },
       "reads a tensor on device meta"},
      {"a meta tensor as a result", {{3}}, [meta](auto&) { return Tensors{meta}; }, "result 0 is"},
      {"out= on an argument of another size",
       {{3}, {1}},
       [](auto& x) {
         Tensor out = x[1];
         at::add_out(out, x[0], x[0]);
         return Tensors{};
       },
       "resizes argument 1"},
      {"as_strided_scatter at another offset",
       {{6}, {2}},
       [](auto& x) { return Tensors{x[0].narrow(0, 1, 3).as_strided_scatter(x[1], {2}, {1}, 3)}; },
       "with an offset into its operand's storage"},
      {"batch sizes that are no integers",
       {{3}, {2}},
       [](auto& x) { return Tensors(at::tensor_split(x[0], x[1], 0)); },
       "expected a list of integers"},
      {"memory replaced before an op reads it",
       {{3}},
       [](auto& x) {
         Tensor y = x[0] * 2;
         replace_memory(y);
         return Tensors{y + 1};
       },
       "whose memory was replaced outside of any op"},
      {"memory of an argument replaced",
       {{3}},
       [](auto& x) {
         Tensor y = x[0] * 2;
         replace_memory(x[0]);
         return Tensors{y};
       },
       "its memory was replaced inside the recorded function"},
  };
  for (const Row& r : table) {
    CAPTURE(r.name);
    const std::string message = refusal(on_tensors(r.name, r.shapes, r.fn));
    CHECK_MESSAGE(message.find(r.message) != message.npos, "not in: " << message);
  }
}

TEST_CASE("operators that do something else when they run again") {
  const std::vector<std::pair<const char*, const char*>> table = {
      {"precast_odd::counted", "differs when the recorded graph runs again"},
      {"precast_odd::once", "does not run again on the same inputs: only once"},
      {"precast_odd::draws_once", "does not draw the random numbers that the call drew"}};
  for (const auto& [name, expected] : table) {
    CAPTURE(name);
    calls = 0;
    const std::string message = refusal(
        on_tensors(name, {{3}}, [name = name](auto& x) { return Tensors{call(name, x[0]) + torch::rand({3})}; }));
    CHECK_MESSAGE(message.find(expected) != message.npos, "not in: " << message);
  }
}

TEST_CASE("gradients that cannot be carried over") {
  const auto program = [](const char* name, std::function<void(torch::nn::Linear&, Tensor&)> before,
                          std::function<Tensors(torch::nn::Linear&, const Tensors&)> fn) {
    return Program{name,
                   [before] {
                     auto fc = std::make_shared<torch::nn::Linear>(3, 2);
                     Tensor x = torch::randn({3}).requires_grad_();
                     before(*fc, x);
                     return State{{x}, fc->ptr(), fc};
                   },
                   [fn](State& s) { return fn(s.as<torch::nn::Linear>(), s.inputs); }};
  };
  const auto expect = [](const Program& p, const char* part) {
    CAPTURE(p.name);
    const std::string message = refusal(p);
    CHECK_MESSAGE(message.find(part) != message.npos, "not in: " << message);
  };
  const auto step = [](torch::nn::Linear& fc, const Tensors& x) {
    fc->forward(x[0].detach()).sum().backward();
    return Tensors{};
  };
  expect(program(
             "sparse", [](auto& fc, auto&) { fc->bias.mutable_grad() = torch::zeros({2}).to_sparse(); }, step),
         "the gradient of parameter 'bias' is");
  expect(program(
             "shared", [](auto& fc, auto&) { fc->bias.mutable_grad() = fc->weight.detach().select(1, 0); }, step),
         "the gradient of parameter 'bias' shares memory with parameter 'weight'");
  expect(program(
             "bound to an argument", [](auto&, auto&) {},
             [](auto& fc, auto& x) {
               fc->bias.mutable_grad() = x[0].detach().narrow(0, 0, 2);
               return Tensors{};
             }),
         "was bound to the memory of argument 0");
  expect(program(
             "of an argument, read", [](auto&, auto& x) { x.mutable_grad() = torch::ones({3}); },
             [](auto&, auto& x) { return Tensors{x[0].grad() * 2}; }),
         "uses the gradient of argument 0");
}

}  // namespace precast::trace::testing
