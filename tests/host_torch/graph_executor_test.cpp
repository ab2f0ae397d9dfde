#include "host_torch/graph_executor.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <thread>

#include "ir/print.h"
#include "precast/error.h"

using precast::PrecompileError;
using precast::host_torch::GraphExecutor;

namespace {

std::vector<at::Tensor> run(const char* text, const std::vector<at::Tensor>& inputs) {
  return GraphExecutor(precast::ir::parse(text)).run(inputs);
}

std::string failure(const char* text, const std::vector<at::Tensor>& inputs) {
  try {
    run(text, inputs);
  } catch (const PrecompileError& e) {
    return e.what();
  }
  return "no error";
}

bool contains(const std::string& text, const char* part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("views are windows on the base, ops get their arguments by schema") {
  at::Tensor x = torch::randn({2, 3}), w = torch::randn({4, 3});
  auto out = run(R"(graph(%0: f32[2,3] "x", %1: f32[4,3] "w") {
    %2: f32[3,4]{1,3} = prim::view(base=%1, offset=0)
    %3: f32[2,4] = aten::mm(self=%0, mat2=%2)
    %4: f32[4] = prim::view(base=%3, offset=16)
    return (%3, %4)
  })",
                 {x, w});
  CHECK(torch::equal(out[0], x.mm(w.t())));
  CHECK(torch::equal(out[1], x.mm(w.t())[1]));
}

TEST_CASE("a write makes a new value and leaves the operand's alone") {
  at::Tensor x = torch::randn({2, 3}), before = x.clone();
  auto out = run(R"(graph(%0: f32[2,3]) {
    _ = aten::add_.Tensor(self=%0 -> %1: f32[2,3], other=%0, alpha=2)
    return (%1, %0)
  })",
                 {x});
  CHECK(torch::equal(out[0], before * 3));
  CHECK(torch::equal(x, before));
  CHECK(out[1].is_same(x));
}

TEST_CASE("a scatter writes through a window") {
  at::Tensor x = torch::zeros({3, 4}), s = torch::randn({3});
  auto out = run(R"(graph(%0: f32[3,4], %1: f32[3]) {
    %2: f32[3,4] = prim::scatter(base=%0, src=%1, offset=4, sizes=[3], strides=[4])
    return (%2)
  })",
                 {x, s});
  at::Tensor expected = x.clone();
  expected.select(1, 1).copy_(s);
  CHECK(torch::equal(out[0], expected));
  CHECK(x.abs().sum().item<float>() == 0);
}

TEST_CASE("lists of tensors, optional entries and dtype arguments") {
  at::Tensor a = torch::randn({2, 3}), i = torch::tensor({1, 0}, torch::kLong);
  auto out = run(R"(graph(%0: f32[2,3], %1: i64[2]) {
    %2: f32[4,3] = aten::cat(tensors=[%0, %0], dim=0)
    %3: f32[2,2] = aten::index.Tensor(self=%0, indices=[None, %1])
    (%4: f32[1,3], %5: f32[1,3]) = aten::split_copy.Tensor(self=%0, split_size=1, dim=0)
    %6: f64[2,3] = aten::_to_copy(self=%0, dtype=f64, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
    return (%2, %3, %5, %6)
  })",
                 {a, i});
  CHECK(torch::equal(out[0], torch::cat({a, a})));
  CHECK(torch::equal(out[1], a.index({torch::indexing::Slice(), i})));
  CHECK(torch::equal(out[2], a.slice(0, 1, 2)));
  CHECK(torch::equal(out[3], a.to(torch::kDouble)));
}

TEST_CASE("a result that eager lays out otherwise is brought to the recorded strides") {
  at::Tensor x = torch::randn({2, 3});
  auto out = run(R"(graph(%0: f32[2,3]) {
    %1: f32[2,3]{1,2} = aten::relu(self=%0)
    return (%1)
  })",
                 {x});
  CHECK(out[0].strides() == at::IntArrayRef({1, 2}));
  CHECK(torch::equal(out[0], x.relu()));
}

TEST_CASE("an input of another layout is laid out as recorded") {
  at::Tensor x = torch::randn({3, 2}).t();
  auto out = run(R"(graph(%0: f32[2,3]) {
    %1: f32[6] = prim::view(base=%0, offset=0)
    return (%1)
  })",
                 {x});
  CHECK(torch::equal(out[0], x.reshape(-1)));
}

TEST_CASE("a recorded number is a condition") {
  const char* text = R"(graph(%0: f32[]) {
    [2.5] = aten::_local_scalar_dense(self=%0)
    return (%0)
  })";
  CHECK_NOTHROW(run(text, {torch::tensor(2.5f)}));
  const std::string message = failure(text, {torch::tensor(3.5f)});
  CHECK(contains(message, "aten::_local_scalar_dense: expected 2.5"));
  CHECK(contains(message, "found 3.5"));
}

TEST_CASE("bad input is refused by name") {
  const char* text = R"(graph(%0: f32[2,3] "fc.weight") {
    %1: f32[2,3] = aten::relu(self=%0)
    return (%1)
  })";
  CHECK(contains(failure(text, {torch::randn({3, 2})}), "'fc.weight': expected f32[2,3], found f32[3,2]"));
  CHECK(contains(failure(text, {torch::zeros({2, 3}, torch::kLong)}), "found i64[2,3]"));
  CHECK(contains(failure(text, {}), "takes 1 tensors, found 0"));
  CHECK(contains(failure(R"(graph(%0: f32[2]) {
    %1: f32[2] = nobody::knows(self=%0)
    return (%1)
  })",
                         {torch::randn({2})}),
                 "operator nobody::knows is not registered"));
}

TEST_CASE("a graph runs from many threads, in inference mode and under autocast alike") {
  const GraphExecutor executor(precast::ir::parse(R"(graph(%0: f32[8,8]) {
    %1: f32[8,8] = aten::mm(self=%0, mat2=%0)
    %2: f32[8,8] = aten::relu(self=%1)
    return (%2)
  })"));
  at::Tensor x = torch::randn({8, 8}, torch::requires_grad());
  const at::Tensor expected = x.detach().mm(x.detach()).relu();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) right += torch::equal(executor.run({x})[0], expected);
    });
  for (auto& t : threads) t.join();
  CHECK(right == 200);
  CHECK_FALSE(executor.run({x})[0].requires_grad());
  c10::InferenceMode inference;
  CHECK(torch::equal(executor.run({x})[0], expected));
}

TEST_CASE("operands that share memory see each other's writes") {
  // copy_ of the right half onto the left half of one buffer
  at::Tensor x = torch::arange(6, torch::kFloat);
  precast::ir::Graph g = precast::ir::parse(R"(graph(%0: f32[6]) {
    %1: f32[3] = prim::view(base=%0, offset=0)
    %2: f32[3] = prim::view(base=%0, offset=12)
    %3: f32[3] = aten::mul.Tensor(self=%1, other=%2)
    return (%3)
  })");
  precast::ir::Node& node = g.nodes.back();
  node.op = "aten::add_.Tensor";
  node.args.push_back({"alpha", int64_t{1}});
  const auto written = g.add_value(g.type(g.inputs[0]));
  precast::ir::Shared shared;
  shared.base = g.inputs[0];
  shared.value = written;
  shared.views.push_back({{0, 0}, 0, g.type(node.outs[0].id)});
  shared.views.push_back({{1, 0}, 12, g.type(node.outs[0].id)});
  node.outs = {{}};
  node.shared = {shared};
  g.outputs = {written};
  const auto out = GraphExecutor(std::move(g)).run({x});
  CHECK(torch::equal(out[0], torch::tensor({3.f, 5.f, 7.f, 3.f, 4.f, 5.f})));
  CHECK(torch::equal(x, torch::arange(6, torch::kFloat)));
}
