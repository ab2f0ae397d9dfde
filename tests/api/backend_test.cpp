// What the two backends serve and refuse, and backends that are functions.
#include <doctest/doctest.h>

#include "support.h"
#include "util/warn.h"

using namespace precast;
using namespace precast::testing;

namespace {

template <class Fn>
std::string refused(const char* backend, Fn fn) {
  at::Tensor x = torch::ones({2});
  try {
    precompile({.backend = backend}, fn, x);
    return "";
  } catch (const PrecompileError& e) {
    CHECK(torch::equal(x, torch::ones({2})));  // what had been written is taken back
    return e.what();
  }
}

}  // namespace

TEST_CASE("backends: what inductor refuses, eager serves") {
  const auto identity = [](at::Tensor x) { return x; };
  const auto view = [](at::Tensor x) { return x.detach().view({2, 1}); };
  const auto nothing = [](at::Tensor) {};
  const auto number = [](at::Tensor) { return int64_t{7}; };
  for (const std::string& message : {refused("inductor", identity), refused("inductor", view),
                                     refused("inductor", nothing), refused("inductor", number)})
    contains(message, "cannot lower a graph that computes nothing");
  for (const std::string& message :
       {refused("eager", identity), refused("eager", view), refused("eager", nothing), refused("eager", number)})
    CHECK(message == "");
  const auto with_float = [](at::Tensor x) { return std::pair(x.add_(1), 0.5); };
  const auto with_string = [](at::Tensor x) { return std::pair(x.add_(1), std::string("name")); };
  const auto with_int = [](at::Tensor x) { return std::tuple(x + 1, int64_t{2}, true, std::optional<at::Tensor>()); };
  contains(refused("inductor", with_float), "result 1 is a float, which the inductor backend cannot return");
  contains(refused("inductor", with_string), "result 1 is a string, which the inductor backend cannot return");
  CHECK(refused("inductor", with_int) == "");

  using Named = std::pair<at::Tensor, std::string>;
  at::Tensor x = torch::ones({2});
  const auto f = load_from_memory<Named(at::Tensor)>(precompile({.backend = "eager"}, with_string, x));
  CHECK(f(x).second == "name");
  const auto g = load_from_memory<std::tuple<at::Tensor, int64_t, bool, std::optional<at::Tensor>>(at::Tensor)>(
      precompile({.backend = "inductor"}, with_int, x));
  const auto [tensor, integer, boolean, none] = g(x);
  CHECK(integer == 2);
  CHECK(boolean);
  CHECK_FALSE(none.has_value());
}

TEST_CASE("backends: a function that takes the graph") {
  const auto fn = [](const at::Tensor& x) { return torch::relu(x) + 1; };
  const at::Tensor x = torch::tensor({-1.0, 2.0});
  std::vector<std::string> ops;
  const auto same = [&](const Graph& g) {
    ops = g.ops();
    CHECK(close(g({x}).at(0), fn(x)));
    std::string text = g.text();
    const std::string relu = "aten::relu(self=%0)";
    text.replace(text.find(relu), relu.size(), "aten::clamp_min(self=%0, min=0)");
    return Graph(text);
  };
  const auto f = load_from_memory<at::Tensor(at::Tensor)>(precompile({.backend = same}, fn, x));
  CHECK(ops == std::vector<std::string>{"aten::relu", "aten::add.Scalar"});
  CHECK(close(f(x), fn(x)));
  CHECK(f.backend() == "inductor");
  contains(f.graph().text(), "aten::clamp_min");

  const auto wrong_value = [](const Graph& g) {
    std::string text = g.text();
    return Graph(text.replace(text.find("aten::relu"), 10, "aten::tanh"));
  };
  contains(message_of([&] { precompile({.backend = wrong_value}, fn, x); }), "result 0 differs");
  const auto wrong_type = [](const Graph&) {
    return Graph("graph(%0: f64[3]) {\n  %1: f64[3] = aten::relu(self=%0)\n  return (%1)\n}\n");
  };
  contains(message_of([&] { precompile({.backend = wrong_type}, fn, x); }),
           "expected f32[2] as input 0, as in the recorded graph, found f64[3]");
  CHECK_THROWS_AS(precompile({.backend = [](const Graph&) -> Graph { throw std::domain_error("mine"); }}, fn, x),
                  std::domain_error);
}

TEST_CASE("capture: a failed call is told apart from no call") {
  Folder folder;
  auto cap = capture([](const at::Tensor&) -> at::Tensor { throw std::domain_error("not yet"); }, folder.pair());
  CHECK_THROWS_AS(cap(torch::ones({2})), std::domain_error);
  contains(message_of([&] { cap.save(); }), "save: the call failed (std::domain_error: not yet)");
  contains(message_of([&] { cap.finish(); }), "finish: the call failed (std::domain_error: not yet)");
}

TEST_CASE("capture: a value that became a number is told") {
  std::vector<std::string> told;
  const WarningSink before = set_warning_sink([&](std::string_view m) { told.emplace_back(m); });
  const at::Tensor x = torch::ones({2});
  const Pair pair = precompile([](const at::Tensor& t) { return t * t.sum().item<double>(); }, x);
  const auto f = load_from_memory<at::Tensor(at::Tensor)>(pair);
  set_warning_sink(before);
  REQUIRE(told.size() == 2);
  contains(told[0],
           "1 value was read from tensors as numbers during the capture: aten::_local_scalar_dense of "
           "aten::sum = 2");
  CHECK(told[1] ==
        "loading the artifact text: an artifact and its cache are executable input; load only files that you made or "
        "trust");
  contains(message_of([&] { f(x * 2); }), "aten::_local_scalar_dense of the result of aten::sum");
  contains(message_of([&] { f(x * 2); }), "expected 2 as in the recorded call, found 4");
}
