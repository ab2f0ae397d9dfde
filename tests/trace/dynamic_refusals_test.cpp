// What a recording with open sizes refuses, and what it finds out about them.
#include <doctest/doctest.h>

#include "harness.h"
#include "precast/dynamic.h"
#include "precast/error.h"

using namespace precast::trace::testing;
using precast::Mark;
using precast::mark_unbacked;

namespace {

using Fn = std::function<Tensors(const Tensors&)>;
using Mark1 = std::function<void(const Tensors&)>;

precast::trace::Recording record(std::vector<std::vector<int64_t>> shapes, const Mark1& mark, const Fn& fn) {
  const Program p = on_tensors("", std::move(shapes), fn);
  State s = state_from(p, 1);
  mark(s.inputs);
  return precast::trace::testing::record(p, s);
}

/// On x[4,6] and y[4,6], dim 0 of x marked unless `mark` says otherwise.
std::string message(const Fn& fn, const Mark1& mark = [](const Tensors& t) { mark_unbacked(t[0], 0); }) {
  Program p = on_tensors("", {{4, 6}, {4, 6}}, fn);
  return refusal({p.name,
                  [p, mark] {
                    State s = p.make();
                    mark(s.inputs);
                    return s;
                  },
                  p.fn});
}

#define REFUSED(text, ...)                               \
  do {                                                   \
    const std::string m = __VA_ARGS__;                   \
    CHECK_MESSAGE(m.find(text) != std::string::npos, m); \
  } while (0)

Tensors same(const Tensors& t) { return {t[0] + 1}; }

}  // namespace

TEST_CASE("open sizes: marks that cannot be honored") {
  REFUSED("argument 0 is marked with mark_dynamic",
          message(same, [](const Tensors& t) { precast::mark_dynamic(t[0], 0); }));
  REFUSED("argument 0, dim 1 is marked with specialize_on",
          message(same, [](const Tensors& t) { mark_unbacked(t[0], 1, {.specialize_on = std::vector<int64_t>{8}}); }));
  REFUSED("the size is 4, outside of its own bounds, 5 to any",
          message(same, [](const Tensors& t) { mark_unbacked(t[0], 0, {.min = 5}); }));
  REFUSED("outside of its own bounds, 0 to 3",
          message(same, [](const Tensors& t) { mark_unbacked(t[0], 0, {.max = 3}); }));
  REFUSED("fewer than three sizes",
          message(same, [](const Tensors& t) { mark_unbacked(t[0], 0, {.min = 4, .max = 5}); }));
  REFUSED("argument 1, dim 1 is 6 and argument 0, dim 0 is 4, and both are marked as 'n'",
          message(same, [](const Tensors& t) {
            mark_unbacked(t[0], 0, {.shape_id = "n"});
            mark_unbacked(t[1], 1, {.shape_id = "n"});
          }));
  REFUSED("neither contiguous nor channels last", refusal({"",
                                                           [] {
                                                             State s{{torch::randn({6, 4}).t()}, nullptr, nullptr};
                                                             mark_unbacked(s.inputs[0], 0);
                                                             return s;
                                                           },
                                                           [](State& s) { return Tensors{s.inputs[0] + 1}; }}));
  REFUSED("shares its memory with argument 1", refusal({"",
                                                        [] {
                                                          auto x = torch::randn({4, 6});
                                                          State s{{x, x.view({-1})}, nullptr, nullptr};
                                                          mark_unbacked(s.inputs[0], 0);
                                                          return s;
                                                        },
                                                        [](State& s) { return Tensors{s.inputs[0] + 1}; }}));
  REFUSED("marked inside a recorded function", message([](const Tensors& t) {
            mark_unbacked(t[1], 0);
            return same(t);
          }));
  CHECK_THROWS_AS(mark_unbacked(torch::zeros({2}), 1), std::invalid_argument);
  CHECK_THROWS_AS(mark_unbacked(torch::zeros({2}), 0, {.min = 3, .max = 2}), std::invalid_argument);
  CHECK_THROWS_AS(mark_unbacked(torch::zeros({2}), 0, {.min = -1}), std::invalid_argument);
}

TEST_CASE("open sizes: guards are refused by expression, op and place") {
  REFUSED("needs to know the size u0 as a number",
          message([](const Tensors& t) { return Tensors{t[0] + t[0].size(0)}; }));
  REFUSED("as a number at dynamic_refusals_test.cpp:",
          message([](const Tensors& t) { return Tensors{t[0] + t[0].size(0)}; }));
  REFUSED("u0 is argument 0, dim 0", message([](const Tensors& t) { return Tensors{t[0] + t[0].size(0)}; }));
  REFUSED("needs to know 3 < u0",
          message([](const Tensors& t) { return t[0].sym_size(0) > 3 ? same(t) : Tensors{t[0]}; }));
  REFUSED("needs to know the number of elements 6*u0",
          message([](const Tensors& t) { return Tensors{t[0] + t[0].numel()}; }));
  REFUSED("needs to know whether 3 <= u0 in aten::slice",
          message([](const Tensors& t) { return Tensors{t[0].slice(0, 0, 3) + 1}; }));
  CHECK(message([](const Tensors& t) { return Tensors{t[0].slice(0, 0, 3) + 1}; },
                [](const Tensors& t) { mark_unbacked(t[0], 0, {.min = 3}); }) == "");
  CHECK(message([](const Tensors& t) { return t[0].sym_size(0) > 3 ? same(t) : Tensors{t[0]}; },
                [](const Tensors& t) { mark_unbacked(t[0], 0, {.min = 4}); }) == "");
  CHECK(message([](const Tensors& t) { return Tensors{t[0] + t[0].size(1)}; }) == "");
}

TEST_CASE("open sizes: operations that differ with the size") {
  REFUSED("aten::split", message([](const Tensors& t) { return Tensors{t[0].split(2, 0)[0] + 1}; }));
  // As many pieces at all sizes that are tried, and more at larger ones.
  REFUSED("whether", message([](const Tensors& t) { return Tensors{t[0].split(40, 0)[0] + 1}; }));
  const auto bounded = [](const Tensors& t) { mark_unbacked(t[0], 0, {.max = 40}); };
  CHECK(message([](const Tensors& t) { return Tensors{t[0].split(40, 0)[0] + 1}; }, bounded) == "");
  REFUSED("changes the shape of a tensor", message([](const Tensors& t) {
            auto y = t[0] * 2;
            y.t_();
            return Tensors{y + 1};
          }));
  Tensor captured;
  const auto capture = [&](const Tensors& t) {
    captured = t[0];
    mark_unbacked(t[0], 0);
  };
  CHECK_THROWS_WITH_AS(record({{4, 6}}, capture, [&](const Tensors&) { return Tensors{captured + 1}; }),
                       doctest::Contains("through another handle"), precast::PrecompileError);
}

TEST_CASE("open sizes: equal sizes, bounds and hints are found") {
  const auto both = [](const Tensors& t) {
    mark_unbacked(t[0], 0, {.min = 1});
    mark_unbacked(t[1], 0, {.max = 50, .hint_override = 20});
  };
  const auto sum = [](const Tensors& t) { return Tensors{t[0] + t[1]}; };
  const auto rec = record({{4, 6}, {4, 6}}, both, sum);
  REQUIRE(rec.graph.symbols.size() == 1);
  CHECK(rec.graph.symbols[0].min == 1);
  CHECK(rec.graph.symbols[0].max == 50);
  const auto& leaves = rec.signature.leaves;
  CHECK(precast::ir::to_string(leaves[0].tensor.type) == "f32[u0,6]");
  CHECK(leaves[0].tensor.type == leaves[1].tensor.type);

  const auto apart = record({{4, 6}, {4, 6}}, both, [](const Tensors& t) { return Tensors{t[0] * 2, t[1].sum()}; });
  CHECK(apart.graph.symbols.size() == 2);
  CHECK(apart.graph.symbols[1].hint == 20);

  // A table of 10 rows holds for 10 at most, and a window of 3 for 3 at least.
  const auto table = record(
      {{4, 6}, {10, 6}}, [](const Tensors& t) { mark_unbacked(t[0], 0); },
      [](const Tensors& t) { return Tensors{t[0] + t[1].slice_symint(0, 0, t[0].sym_size(0))}; });
  CHECK(table.graph.symbols[0].max == 10);
  const auto window = record(
      {{1, 1, 8}}, [](const Tensors& t) { mark_unbacked(t[0], 2); },
      [](const Tensors& t) { return Tensors{torch::conv1d(t[0], torch::ones({1, 1, 3}))}; });
  CHECK(window.graph.symbols[0].min == 3);

  const auto narrowed = record(
      {{4, 6}}, [](const Tensors& t) { mark_unbacked(t[0], 0); },
      [](const Tensors& t) { return Tensors{t[0].narrow(0, 0, 3) + 1}; });
  CHECK(narrowed.graph.symbols[0].min == 3);

  const auto strict =
      record({{4, 6}}, [](const Tensors& t) { mark_unbacked(t[0], 0, {.min = 9, .strict = true}); }, same);
  CHECK(strict.graph.symbols[0].min == 0);
}

TEST_CASE("open sizes: the caller's tensors come back as they were") {
  for (const bool throws : {false, true}) {
    State s{{torch::randn({4, 6}), torch::randn({4, 6})}, nullptr, nullptr};
    mark_unbacked(s.inputs[0], 0);
    const Tensor before = s.inputs[0];
    const Program p{"", {}, [&](State& now) {
                      CHECK_FALSE(now.inputs[0].is_same(before));
                      if (throws) throw std::runtime_error("of fn");
                      return Tensors{now.inputs[0], now.inputs[0] * 2};
                    }};
    if (throws) {
      CHECK_THROWS_WITH_AS(precast::trace::testing::record(p, s), "of fn", std::runtime_error);
    } else {
      const auto rec = precast::trace::testing::record(p, s);
      CHECK(rec.results[0].tensor.is_same(before));
      CHECK((rec.results[1].tensor.numel() == 24 && rec.results[1].tensor.equal(before * 2)));
    }
    CHECK(s.inputs[0].is_same(before));
  }
}
