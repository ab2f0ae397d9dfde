// Graphs of several ops, whose rules look at where an operand comes from: recorded graph and core graph, node by node.
#include <doctest/doctest.h>

#include <ATen/ATen.h>

#include "host_torch/graph_executor.h"
#include "ir/print.h"
#include "passes/passes.h"

using namespace precast;

namespace {

/// Pooling of "x", its gradient for "g"; `results` of the first node, then the arguments of both.
std::string pooling(const std::string& x, const std::string& g, const std::string& op, const std::string& args,
                    const std::string& more) {
  const std::string indices = "i64" + g.substr(g.find('['), g.find(']') - g.find('[') + 1);
  return "graph(%0: " + x + ", %1: " + g + ") {\n%2: " + g + ", %3: " + indices + " = aten::" + op + "(self=%0, " +
         args + more + ")\n%4: " + x + " = aten::" + op + "_backward(grad_output=%1, self=%0, " +
         (more.empty() ? "" : args + more + ", ") + "indices=%3)\nreturn (%2, %3, %4)\n}";
}

void check(const std::string& text, bool special) {
  CAPTURE(text);
  const ir::Graph recorded = ir::parse(text);
  ir::Graph core = recorded;
  passes::to_core(core);
  for (const ir::Node& n : core.nodes) {
    CAPTURE(n.op);
    CHECK(passes::core_family(n.op).has_value());
    CHECK(n.op != "aten::scatter_add");
  }
  at::manual_seed(3);
  std::vector<at::Tensor> inputs;
  for (const ir::ValueId v : recorded.inputs) {
    const ir::Type& t = recorded.type(v);
    at::Tensor x = at::randn(ir::numbers(t.sizes), at::kDouble);
    // Ties, and in the operand pooled NaN and infinities.
    x = at::round(x * 2) / 2;
    if (special && inputs.empty()) {
      x.view(-1)[3] = NAN, x.view(-1)[4] = NAN, x.view(-1)[7] = INFINITY;
      x.view(-1).slice(0, 20, 40).fill_(-INFINITY);
    }
    at::Tensor laid =
        at::empty_strided(ir::numbers(t.sizes), ir::numbers(t.strides), static_cast<at::ScalarType>(t.dtype));
    inputs.push_back(laid.copy_(x));
  }
  const auto expected = host_torch::GraphExecutor(recorded).run(inputs),
             found = host_torch::GraphExecutor(core).run(inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].strides() == expected[i].strides());
    CHECK(at::allclose(found[i].to(at::kDouble), expected[i].to(at::kDouble), 1e-2, 1e-2, /*equal_nan=*/true));
    if (!at::isFloatingType(found[i].scalar_type())) CHECK(at::equal(found[i], expected[i]));
  }
}

}  // namespace

TEST_CASE("the gradient of a maximum pooling is gathered where the indices are its own") {
  const std::string overlapping = "kernel_size=[3,3], stride=[2,2], padding=[1,1], dilation=[1,1]",
                    ceil = ", ceil_mode=true", floor = ", ceil_mode=false";
  for (const bool special : {false, true}) {
    check(pooling("f32[2,3,9,8]", "f32[2,3,5,4]", "max_pool2d_with_indices", overlapping, floor), special);
    check(pooling("bf16[2,3,9,8]", "bf16[2,3,5,5]", "max_pool2d_with_indices", overlapping, ceil), special);
    check(pooling("f64[2,20,8,8]{1280,1,160,20}", "f64[2,20,4,4]{320,1,80,20}", "max_pool2d_with_indices",
                  "kernel_size=[2], stride=int[], padding=[0], dilation=[1]", floor),
          special);
    check(pooling("f32[3,12,9]", "f32[3,10,3]", "max_pool2d_with_indices",
                  "kernel_size=[3,2], stride=[1,3], padding=[1,0], dilation=[2,2]", floor),
          special);
    check(pooling("f32[2,3,5,6,7]", "f32[2,3,6,4,3]", "max_pool3d_with_indices",
                  "kernel_size=[2,3,2], stride=[1,2,2], padding=[1,1,0], dilation=[1,1,2]", ceil),
          special);
    check(pooling("f32[2,3,9,10]", "f32[2,3,4,7]", "adaptive_max_pool2d", "output_size=[4,7]", ""), special);
    check(pooling("f32[2,3,4,6,5]", "f32[2,3,3,3,5]", "adaptive_max_pool3d", "output_size=[3,3,5]", ""), special);
  }
}
