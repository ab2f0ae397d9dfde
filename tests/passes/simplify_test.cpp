// Each simplification, and next to it the case that looks alike and must stay.
#include <doctest/doctest.h>

#include "passes/support.h"

using namespace precast::passes;

namespace {

// The nodes that are left, without the frame.
std::string nodes(void (*pass)(precast::ir::Graph&), const std::string& inputs, const std::string& body) {
  precast::ir::Graph g = precast::ir::parse("graph(" + inputs + ") {" + body + "}");
  pass(g);
  drop_dead_nodes(g);
  precast::ir::renumber(g);
  precast::ir::verify(g, "the pass under test");
  std::string s;
  for (const auto& n : g.nodes) s += print(g, n) + "\n";
  for (auto id : g.outputs) s += "%" + std::to_string(id) + " ";
  return s;
}
std::string simple(const std::string& inputs, const std::string& body) { return nodes(simplify, inputs, body); }
std::string shared(const std::string& inputs, const std::string& body) {
  return nodes(share_equal_nodes, inputs, body);
}

std::string cast(const char* result, const char* dtype, const char* operand) {
  return std::string(result) + " = aten::_to_copy(self=" + operand + ", dtype=" + dtype +
         ", layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)\n";
}

}  // namespace

TEST_CASE("views compose and disappear") {
  CHECK(simple("%0: f32[4,6]", R"(
    %1: f32[6] = prim::view(base=%0, offset=48)
    %2: f32[3]{2} = prim::view(base=%1, offset=4)
    return (%2))") == "%1: f32[3]{2} = prim::view(base=%0, offset=52)\n%1 ");
  CHECK(simple("%0: f32[4,6]", "%1: f32[4,6] = prim::view(base=%0, offset=0) return (%1)") == "%0 ");
  CHECK(simple("%0: f32[4,6]", "%1: i32[4,6] = prim::view(base=%0, offset=0) return (%1)") ==
        "%1: i32[4,6] = prim::view(base=%0, offset=0)\n%1 ");
}

TEST_CASE("a read after a write takes what was written, or passes it by") {
  const std::string write = "%2: f32[4,6] = prim::scatter(base=%0, src=%1, offset=48, sizes=[6], strides=[1])\n";
  CHECK(simple("%0: f32[4,6], %1: f32[6]", write + "%3: f32[6] = prim::view(base=%2, offset=48) return (%3)") == "%1 ");
  CHECK(simple("%0: f32[4,6], %1: f32[6]", write + "%3: f32[6] = prim::view(base=%2, offset=24) return (%3)") ==
        "%2: f32[6] = prim::view(base=%0, offset=24)\n%2 ");
  CHECK(simple("%0: f32[4,6], %1: f32[6]", write + "%3: f32[6] = prim::view(base=%2, offset=28) return (%3)")
            .find("prim::scatter") != std::string::npos);
  // Columns 1 and 0: the byte ranges overlap, so the read stays behind the write.
  CHECK(simple("%0: f32[4,6], %1: f32[4]", R"(
    %2: f32[4,6] = prim::scatter(base=%0, src=%1, offset=4, sizes=[4], strides=[6])
    %3: f32[4]{6} = prim::view(base=%2, offset=0)
    return (%3))")
            .find("base=%2") != std::string::npos);
}

TEST_CASE("scatters that overwrite everything, the same place, or nothing new") {
  CHECK(simple("%0: f32[4,6], %1: f32[4,6]", R"(
    %2: f32[4,6] = prim::scatter(base=%0, src=%1, offset=0, sizes=[4, 6], strides=[6, 1])
    return (%2))") == "%1 ");
  CHECK(simple("%0: f32[4,6], %1: f32[4,6]{1,4}", R"(
    %2: f32[4,6] = prim::scatter(base=%0, src=%1, offset=0, sizes=[4, 6], strides=[6, 1])
    return (%2))") == "%2: f32[4,6] = aten::clone(self=%1, memory_format=None)\n%2 ");
  CHECK(simple("%0: f32[4], %1: f32[2], %2: f32[2]", R"(
    %3: f32[4] = prim::scatter(base=%0, src=%1, offset=0, sizes=[2], strides=[1])
    %4: f32[4] = prim::scatter(base=%3, src=%2, offset=0, sizes=[2], strides=[1])
    return (%4))") == "%3: f32[4] = prim::scatter(base=%0, src=%2, offset=0, sizes=[2], strides=[1])\n%3 ");
  CHECK(simple("%0: f32[4]", R"(
    %1: f32[2] = prim::view(base=%0, offset=8)
    %2: f32[4] = prim::scatter(base=%0, src=%1, offset=8, sizes=[2], strides=[1])
    return (%2))") == "%0 ");
  CHECK(simple("%0: f32[4]", R"(
    %1: f32[2] = prim::view(base=%0, offset=4)
    %2: f32[4] = prim::scatter(base=%0, src=%1, offset=8, sizes=[2], strides=[1])
    return (%2))")
            .find("prim::scatter") != std::string::npos);
}

TEST_CASE("casts: up and back is nothing, down and up is a rounding") {
  CHECK(simple("%0: f16[2]", cast("%1: f32[2]", "f32", "%0") + cast("%2: f16[2]", "f16", "%1") + "return (%2)") ==
        "%0 ");
  CHECK(simple("%0: f32[2]", cast("%1: f16[2]", "f16", "%0") + cast("%2: f32[2]", "f32", "%1") + "return (%2)") ==
        cast("%1: f16[2]", "f16", "%0") + cast("%2: f32[2]", "f32", "%1") + "%2 ");
  CHECK(simple("%0: bf16[2]", cast("%1: f16[2]", "f16", "%0") + cast("%2: bf16[2]", "bf16", "%1") + "return (%2)")
            .find("f16[2]") != std::string::npos);
}

TEST_CASE("arithmetic that changes no bit") {
  auto left = [](const std::string& dtype, const std::string& op) {
    return simple("%0: " + dtype + "[2]", "%1: " + dtype + "[2] = aten::" + op + " return (%1)") == "%0 ";
  };
  CHECK(left("f32", "mul.Scalar(self=%0, other=1.0)"));
  CHECK(left("f32", "div.Scalar(self=%0, other=1.0)"));
  CHECK(left("f32", "sub.Scalar(self=%0, other=0.0, alpha=1)"));
  CHECK(left("i64", "add.Scalar(self=%0, other=0, alpha=1)"));
  CHECK_FALSE(left("f32", "add.Scalar(self=%0, other=0.0, alpha=1)"));   // -0 + 0 is 0
  CHECK_FALSE(left("f32", "sub.Scalar(self=%0, other=-0.0, alpha=1)"));  // -0 - -0 is 0
  CHECK_FALSE(left("f32", "mul.Scalar(self=%0, other=0.0)"));            // NaN * 0 is NaN
}

TEST_CASE("an operand that is one number becomes the number") {
  const std::string two =
      "%1: f32[2] = aten::full(size=[2], fill_value=2.0, dtype=f32, layout=None, device=cpu, pin_memory=None)\n";
  CHECK(simple("%0: f32[2]", two + "%2: f32[2] = aten::mul.Tensor(self=%1, other=%0) return (%2)") ==
        "%1: f32[2] = aten::mul.Scalar(self=%0, other=2.0)\n%1 ");
  CHECK(simple("%0: f32[2]", two + "%2: f32[2] = aten::sub.Tensor(self=%1, other=%0, alpha=1) return (%2)")
            .find("full") != std::string::npos);
  CHECK(simple("%0: f32[1]", two + "%2: f32[2] = aten::mul.Tensor(self=%1, other=%0) return (%2)").find("full") !=
        std::string::npos);  // the operand broadcasts
}

TEST_CASE("equal nodes are shared; random and host ops are not") {
  CHECK(shared("%0: f32[2]", R"(
    %1: f32[2] = aten::exp(self=%0)
    %2: f32[2] = aten::exp(self=%0)
    %3: f32[2] = aten::add.Tensor(self=%1, other=%2, alpha=1)
    return (%3))") ==
        "%1: f32[2] = aten::exp(self=%0)\n%2: f32[2] = aten::add.Tensor(self=%1, other=%1, alpha=1)\n%2 ");
  CHECK(shared("%0: f32[2]", R"(
    %1: f32[2] = aten::bernoulli(self=%0, generator=None)
    %2: f32[2] = aten::bernoulli(self=%0, generator=None)
    return (%1, %2))")
            .ends_with("%1 %2 "));
  CHECK(shared("%0: f32[2]", R"(
    %1: f32[2] = aten::add.Scalar(self=%0, other=0.0, alpha=1)
    %2: f32[2] = aten::add.Scalar(self=%0, other=-0.0, alpha=1)
    return (%1, %2))")
            .ends_with("%1 %2 "));
}

TEST_CASE("dead nodes go; random ones and conditions stay") {
  CHECK(nodes(drop_dead_nodes, "%0: f32[2]", R"(
    %1: f32[2] = aten::exp(self=%0)
    %2: f32[2] = aten::convolution(input=%1)
    return (%0))") == "%0 ");
  CHECK(nodes(drop_dead_nodes, "%0: f32[2]", "%1: f32[2] = aten::rand_like(self=%0) return (%0)").find("rand_like") !=
        std::string::npos);
  CHECK(nodes(drop_dead_nodes, "%0: f32[]", "[1.5] = aten::_local_scalar_dense(self=%0) return (%0)").find("1.5") !=
        std::string::npos);
  CHECK(nodes(drop_dead_nodes, "%0: f32[]", "%1: f32[] = my_ops::log(self=%0) return (%0)").find("my_ops") !=
        std::string::npos);
}
