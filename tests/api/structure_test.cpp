// Arguments and results nest in vectors, tuples, pairs, optionals, maps and user structs.
#include <torch/script.h>

#include "api/support.h"

using namespace precast;
using namespace precast::testing;

namespace {

struct Batch {
  at::Tensor x;
  std::optional<at::Tensor> mask;
};
auto precast_tie(const Batch& b) { return std::tie(b.x, b.mask); }

struct Output {
  at::Tensor logits;
  std::map<std::string, at::Tensor> extras;
  int64_t steps = 0;
};
auto precast_tie(const Output& o) {
  return fields("Output", {"logits", "extras", "steps"}, o.logits, o.extras, o.steps);
}
auto precast_tie(Output& o) { return fields("Output", {"logits", "extras", "steps"}, o.logits, o.extras, o.steps); }

using Nested = std::tuple<std::vector<at::Tensor>, std::pair<at::Tensor, int64_t>,
                          std::unordered_map<std::string, std::vector<at::Tensor>>>;

}  // namespace

TEST_CASE("structures: nested arguments and results keep their shape") {
  const auto fn = [](const Batch& b, const std::map<std::string, at::Tensor>& named,
                     const std::vector<at::Tensor>& list) {
    return Nested{
        {b.x + 1, list[0] * 2}, {named.at("w") + named.at("a"), 2}, {{"z", {b.x}}, {"y", {list[1] - 1, list[0]}}}};
  };
  const Batch batch{torch::randn({2}), {}};
  const std::map<std::string, at::Tensor> named{{"w", torch::randn({2})}, {"a", torch::randn({2})}};
  const std::vector<at::Tensor> list{torch::randn({2}), torch::randn({3})};
  for (const char* backend : {"eager", "inductor"}) {
    INFO(backend);
    const Pair pair = precompile({.backend = backend}, fn, batch, named, list);
    auto f = load_from_memory<Nested(Batch, std::map<std::string, at::Tensor>, std::vector<at::Tensor>)>(pair);
    const auto [first, second, third] = f(batch, named, list);
    CHECK(torch::equal(first.at(0), batch.x + 1));
    CHECK(torch::equal(first.at(1), list[0] * 2));
    CHECK(torch::equal(second.first, named.at("w") + named.at("a")));
    CHECK(second.second == 2);
    CHECK(third.at("z").at(0).is_same(batch.x));
    CHECK(torch::equal(third.at("y").at(0), list[1] - 1));
    CHECK(third.at("y").at(1).is_same(list[0]));

    auto longer = list;
    longer.push_back(list[0]);
    contains(message_of([&] { f(batch, named, longer); }), "argument 2");
    contains(message_of([&] { f(batch, {{"w", list[0]}, {"b", list[0]}}, list); }), "argument 1");
    contains(message_of([&] { f({batch.x, batch.x}, named, list); }), "argument 0[1]");
  }
}

TEST_CASE("structures: a struct with named fields returns as itself, as a dict when untyped") {
  const auto fn = [](at::Tensor x) { return Output{x * 2, {{"norm", x.norm()}}, 3}; };
  const at::Tensor x = torch::randn({4});
  const Pair pair = precompile({.backend = "eager"}, fn, x);
  const Output o = load_from_memory<Output(at::Tensor)>(pair)(x);
  CHECK(torch::equal(o.logits, x * 2));
  CHECK(torch::equal(o.extras.at("norm"), x.norm()));
  CHECK(o.steps == 3);
  const auto dict = load_from_memory(pair)(x).toGenericDict();
  CHECK(torch::equal(dict.at("logits").toTensor(), x * 2));
  CHECK(dict.at("steps").toInt() == 3);
}

TEST_CASE("structures: void, optional and reference results") {
  at::Tensor x = torch::zeros({2});
  load_from_memory<void(at::Tensor)>(
      precompile({.backend = "eager"}, [](at::Tensor a) { a.add_(1); }, torch::zeros({2})))(x);
  CHECK(torch::equal(x, torch::ones({2})));
  auto none = load_from_memory<std::optional<at::Tensor>(at::Tensor)>(
      precompile({.backend = "eager"}, [](at::Tensor) { return std::optional<at::Tensor>(); }, x));
  CHECK_FALSE(none(x).has_value());
}

TEST_CASE("modules: holder, reference, shared pointer, const, and more than one") {
  Mlp a, b;
  const auto fn = [](const std::shared_ptr<MlpImpl>& first, at::Tensor x, MlpImpl& second) {
    return first->forward(x) + second.forward(x);
  };
  const at::Tensor x = torch::randn({2, 4});
  for (const char* backend : {"eager", "inductor"}) {
    auto f = load_from_memory<at::Tensor(MlpImpl&, at::Tensor, MlpImpl&)>(
        precompile({.backend = backend}, fn, a.ptr(), x, *b));
    const at::Tensor expected = a->forward(x) + b->forward(x);
    const Mlp& const_a = a;
    CHECK(close(f(a, x, b), expected));
    CHECK(close(f(const_a, x, *b), expected));
    CHECK(close(f(a.ptr(), x, b.get()), expected));
    CHECK(close(f(b, x, a), expected));
    CHECK(close(f.bind(a, b)(x), expected));
    contains(message_of([&] { f(a, x, a); }), "one shared by both");
  }
}

TEST_CASE("modules: TorchScript with parameters, attributes and constants") {
  torch::jit::Module m("m");
  m.register_parameter("w", torch::randn({3}), false);
  m.register_buffer("count", torch::zeros({1}));
  m.define(R"(
    def forward(self, x):
      self.count.add_(1)
      return torch.relu(x * self.w) + self.count
  )");
  const at::Tensor x = torch::randn({3});
  for (const char* backend : {"eager", "inductor"}) {
    INFO(backend);
    m.setattr("count", torch::zeros({1}));
    const Pair pair = precompile(
        {.backend = backend},
        [](torch::jit::Module& module, at::Tensor input) { return module.forward({input}).toTensor(); }, m, x);
    auto f = load_from_memory<at::Tensor(torch::jit::Module&, at::Tensor)>(pair);
    CHECK(m.attr("count").toTensor().item<float>() == 1);
    const at::Tensor y = f(m, x);
    CHECK(m.attr("count").toTensor().item<float>() == 2);
    CHECK(close(y, torch::relu(x * m.attr("w").toTensor()) + 2));
  }
}
