// The rules of a capture, clause by clause.
#include <fstream>

#include "api/support.h"

using namespace precast;
using namespace precast::testing;

namespace {
const auto plus_one = [](const at::Tensor& x) { return x + 1; };
const LowerOptions kEager{.backend = "eager"};
bool exists(const PairPaths& p) {
  return std::filesystem::exists(p.artifact_path) || std::filesystem::exists(p.cache_path);
}
}  // namespace

TEST_CASE("capture: a wrong option is refused at construction and the valid ones are listed") {
  Folder folder;
  const auto with = [&](LowerOptions o) {
    return message_of<std::invalid_argument>([&] { capture(plus_one, folder.pair(), o); });
  };
  CHECK(with({.backend = "triton"}) == "backend must be 'inductor', 'eager' or a function of the graph, got 'triton'");
  contains(with({.symbol = "my model"}), "symbol must be a C identifier");
  contains(with({.isa = {"sse9"}}), "baseline");
  contains(message_of<std::invalid_argument>([] { Tracer("fx"); }), "tracer must be 'make_fx' or 'dynamo', got 'fx'");
  contains(message_of<NotImplementedError>([] { Tracer("dynamo"); }), "dynamo");
  CHECK_FALSE(exists(folder.pair()));
}

TEST_CASE("capture: both halves may not be one file") {
  Folder folder;
  const auto file = folder.path / "m.cpp";
  contains(message_of<std::invalid_argument>([&] { capture(plus_one, {file, folder.path / "." / "m.cpp"}); }),
           "name one file");
  contains(message_of<std::invalid_argument>([&] { capture(plus_one, {"", file}); }), "artifact_path is empty");
}

TEST_CASE("capture: exactly one call") {
  Folder folder;
  auto cap = capture(plus_one, folder.pair(), kEager);
  cap(torch::zeros({2}));
  contains(message_of([&] { cap(torch::zeros({2})); }), "takes exactly one call");
  CHECK_NOTHROW(cap.finish());
  CHECK(exists(folder.pair()));
}

TEST_CASE("capture: a block that made no call raises and writes nothing") {
  Folder folder;
  contains(message_of([&] { capture(plus_one, folder.pair(), kEager, [](auto&) {}); }), "made no call");
  auto cap = capture(plus_one, folder.pair(), kEager);
  contains(message_of([&] { cap.save(); }), "made no call");
  CHECK_FALSE(exists(folder.pair()));
}

TEST_CASE("capture: a block that raises writes nothing it has not saved") {
  Folder folder;
  struct Stop {};
  CHECK_THROWS_AS(capture(plus_one, folder.pair(), kEager,
                          [](auto& cap) {
                            cap(torch::zeros({2}));
                            throw Stop();
                          }),
                  Stop);
  CHECK_FALSE(exists(folder.pair()));
  CHECK_THROWS_AS(capture(plus_one, folder.pair(), kEager,
                          [](auto& cap) {
                            cap(torch::zeros({2}));
                            cap.save();
                            throw Stop();
                          }),
                  Stop);
  CHECK(torch::equal(load<at::Tensor(at::Tensor)>(folder.pair())(torch::zeros({2})), torch::ones({2})));
}

TEST_CASE("capture: single use, also after a failed write") {
  Folder folder;
  auto cap = capture(plus_one, folder.pair(), kEager);
  cap(torch::zeros({2}));
  cap.finish();
  contains(message_of([&] { cap.finish(); }), "spent");
  contains(message_of([&] { cap.save(); }), "spent");
  contains(message_of([&] { cap(torch::zeros({2})); }), "spent");

  std::ofstream(folder.path / "file") << "x";
  auto failing = capture(plus_one, {folder.path / "file" / "m.cpp", folder.path / "file" / "m.cache"}, kEager);
  failing(torch::zeros({2}));
  CHECK_THROWS_AS(failing.finish(), PrecompileError);
  contains(message_of([&] { failing.finish(); }), "spent");
}

TEST_CASE("capture: dropped without finish it writes nothing") {
  Folder folder;
  {
    auto cap = capture(plus_one, folder.pair(), kEager);
    cap(torch::zeros({2}));
  }
  CHECK_FALSE(exists(folder.pair()));
}

TEST_CASE("capture: an exception of fn passes through and the call may be repeated") {
  Folder folder;
  bool fail = true;
  auto cap = capture(
      [&](const at::Tensor& x) {
        if (fail) throw std::domain_error("not yet");
        return x + 1;
      },
      folder.pair(), kEager);
  CHECK(message_of<std::domain_error>([&] { cap(torch::zeros({2})); }) == "not yet");
  CHECK_FALSE(cap.summary().complete());
  fail = false;
  CHECK(torch::equal(cap(torch::zeros({2})), torch::ones({2})));
  cap.finish();
  const PrecompileSummary summary = cap.summary();
  CHECK(summary.frames == 1);
  CHECK(summary.backend_graphs == 1);
  REQUIRE(summary.capture_errors.size() == 1);
  CHECK(summary.capture_errors[0] == "std::domain_error: not yet");
  contains(to_string(summary), "1 frames");
}

TEST_CASE("capture: the call records with grad enabled whatever the mode outside, and the mode is restored") {
  Folder folder;
  Mlp model;
  bool inside = false;
  torch::NoGradGuard no_grad;
  capture(
      [&](Mlp& m, const at::Tensor& x) {
        inside = at::GradMode::is_enabled();
        m->forward(x).sum().backward();
      },
      folder.pair(), kEager, [&](auto& cap) { cap(model, torch::randn({2, 4})); });
  CHECK(inside);
  CHECK_FALSE(at::GradMode::is_enabled());
  CHECK(model->fc1->weight.grad().defined());
}

TEST_CASE("capture: the result is that run's own, references and move-only results included") {
  at::Tensor kept;
  Folder folder;
  auto cap = capture([&](const at::Tensor& x) -> at::Tensor& { return kept = x + 1; }, folder.pair(), kEager);
  at::Tensor& r = cap(torch::zeros({2}));
  CHECK(&r == &kept);
}

TEST_CASE("capture: a decomposition is recorded in the operator's place") {
  auto table = std::make_shared<Decompositions>();
  table->table["aten::silu"] = [](std::vector<c10::IValue>& stack) {
    const at::Tensor x = stack.back().toTensor();
    stack.back() = x * torch::sigmoid(x);
  };
  const auto silu = [](const at::Tensor& x) { return torch::silu(x); };
  const at::Tensor x = torch::randn({4});
  const Pair plain = precompile(kEager, silu, x);
  const Pair replaced = precompile({.backend = "eager", .tracer = MakeFxTracer{table}}, silu, x);
  CHECK(plain.code.find("aten::silu(") != std::string::npos);
  CHECK(replaced.code.find("aten::silu(") == std::string::npos);
  CHECK(replaced.code.find("aten::sigmoid(") != std::string::npos);
  CHECK(close(load_from_memory<at::Tensor(at::Tensor)>(replaced)(x), torch::silu(x)));

  auto unknown = std::make_shared<Decompositions>();
  unknown->table["aten::no_such"] = table->table["aten::silu"];
  contains(message_of<std::invalid_argument>([&] { precompile({.tracer = MakeFxTracer{unknown}}, silu, x); }),
           "aten::no_such");
}

TEST_CASE("capture: a decomposition may decline, and must leave what the operator leaves") {
  const auto gelu = [](const at::Tensor& x) { return torch::gelu(x) + 1; };
  const at::Tensor x = torch::randn({4});
  const auto with = [&](const Decompositions::Function& function) {
    auto table = std::make_shared<Decompositions>();
    table->table["aten::gelu"] = function;
    return precompile({.backend = "eager", .tracer = MakeFxTracer{table}}, gelu, x);
  };
  const Pair declined = with([](std::vector<c10::IValue>&) {});
  CHECK(declined.code.find("aten::gelu(") != std::string::npos);
  CHECK(close(load_from_memory<at::Tensor(at::Tensor)>(declined)(x), gelu(x)));
  const long references = static_cast<long>(x.use_count());
  contains(message_of([&] { with([](std::vector<c10::IValue>& stack) { stack.clear(); }); }),
           "the function for 'aten::gelu' left 0 values in place of its arguments, expected 1");
  contains(message_of([&] { with([](std::vector<c10::IValue>& stack) { stack.push_back(1); }); }),
           "left 3 values in place of its arguments, expected 1");
  contains(message_of([&] {
             with([](std::vector<c10::IValue>& stack) {
               stack.clear();
               stack.emplace_back(7);
             });
           }),
           "result 0 of the function for 'aten::gelu' is of kind Int, expected a tensor");
  CHECK(static_cast<long>(x.use_count()) == references);
}

TEST_CASE("capture: a number that the integer type asked for cannot hold is no result") {
  const auto pair = precompile(
      kEager, [](const at::Tensor& x, int64_t n) { return std::tuple(x + 1, n); }, torch::zeros({2}), int64_t{300});
  using Wide = std::tuple<at::Tensor, int64_t>(at::Tensor, int64_t);
  using Narrow = std::tuple<at::Tensor, int8_t>(at::Tensor, int64_t);
  CHECK(std::get<1>(load_from_memory<Wide>(pair)(torch::zeros({2}), 300)) == 300);
  contains(message_of([&] { load_from_memory<Narrow>(pair)(torch::zeros({2}), 300); }),
           "the result is 300, which the integer type asked for cannot hold");
  const auto minus =
      precompile(kEager, [](const at::Tensor& x) { return std::tuple(x + 1, int64_t{-1}); }, torch::zeros({2}));
  contains(
      message_of([&] { load_from_memory<std::tuple<at::Tensor, uint64_t>(at::Tensor)>(minus)(torch::zeros({2})); }),
      "the result is -1, which");
  contains(message_of([&] {
             precompile(kEager, [](const at::Tensor& x, uint64_t) { return x + 1; }, torch::zeros({2}), ~uint64_t{0});
           }),
           "18446744073709551615 does not fit");
}

TEST_CASE("capture: the functional form leaves the examples' gradients as it found them") {
  for (const char* backend : {"eager", "inductor"}) {
    Mlp model;
    const at::Tensor x = torch::randn({2, 4});
    model->fc1->weight.mutable_grad() = torch::ones({8, 4});
    const at::Tensor there = model->fc1->weight.grad();
    const auto train = [](Mlp& m, at::Tensor t) { m->forward(t).sum().backward(); };
    const auto f = load_from_memory<void(Mlp&, at::Tensor)>(precompile({.backend = backend}, train, model, x));
    CHECK(model->fc1->weight.grad().is_same(there));
    CHECK(torch::equal(there, torch::ones({8, 4})));
    CHECK_FALSE(model->fc2->weight.grad().defined());
    Mlp eager;
    eager->fc1->weight.mutable_grad() = torch::ones({8, 4});
    {
      torch::NoGradGuard no_grad;
      for (size_t i = 0; i < 4; ++i) eager->parameters()[i].copy_(model->parameters()[i]);
    }
    train(eager, x);
    f(model, x);
    CHECK(model->fc1->weight.grad().is_same(there));  // summed into, as in eager
    for (size_t i = 0; i < 4; ++i) CHECK(close(model->parameters()[i].grad(), eager->parameters()[i].grad()));
    const auto throws = [](Mlp& m, at::Tensor t) {
      m->forward(t).sum().backward();
      throw std::domain_error("mine");
    };
    CHECK_THROWS_AS(precompile({.backend = backend}, throws, model, x), std::domain_error);
    CHECK(model->fc1->weight.grad().is_same(there));
    CHECK(close(there, eager->fc1->weight.grad()));
  }
}

TEST_CASE("capture: a closed-over tensor is refused by shape and nothing stays changed") {
  const at::Tensor hidden = torch::randn({2});
  at::Tensor x = torch::zeros({2});
  const std::string message =
      message_of([&] { precompile(kEager, [&](at::Tensor a) { return a.add_(1) * hidden; }, x); });
  contains(message, "[2]");
  CHECK(torch::equal(x, torch::zeros({2})));
}
