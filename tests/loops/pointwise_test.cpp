// Every pointwise op, over dtypes, with broadcast and strided operands.
#include <set>

#include "check.h"

using compiled::check;
using compiled::Program;

namespace {

using Names = std::vector<const char*>;

const Names kFloatUnary = {"neg",   "abs",     "sign", "sgn",   "exp",        "exp2",  "expm1", "log",   "log2",
                           "log10", "log1p",   "sqrt", "rsqrt", "reciprocal", "sin",   "cos",   "tan",   "asin",
                           "acos",  "atan",    "sinh", "cosh",  "tanh",       "asinh", "acosh", "atanh", "erf",
                           "erfc",  "sigmoid", "relu", "floor", "ceil",       "round", "trunc", "lgamma"};
const Names kFloatBinary = {"add",     "sub",     "mul",  "div",  "remainder", "fmod",  "pow",
                            "maximum", "minimum", "fmax", "fmin", "atan2",     "hypot", "copysign"};
const Names kIntUnary = {"neg", "abs", "sign", "relu", "floor", "round", "bitwise_not"};
const Names kIntBinary = {"add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"};
const Names kCompare = {"eq", "ne", "lt", "le", "gt", "ge"};
const Names kLogical = {"logical_and", "logical_or", "logical_xor"};

std::string overload(const std::string& op) {
  static const std::set<std::string> kPlain = {"maximum", "minimum",   "fmax",        "fmin",       "atan2",
                                               "hypot",   "nextafter", "logical_and", "logical_or", "logical_xor"};
  return op == "pow" ? ".Tensor_Tensor" : kPlain.contains(op) ? "" : ".Tensor";
}

struct Builder {
  std::string text, results;
  int next = 10;
  void op(const std::string& type, const std::string& call) {
    const std::string v = "%" + std::to_string(next++);
    text += v + ": " + type + " = " + call + "\n";
    results += (results.empty() ? "" : ", ") + v;
  }
  std::string graph(const std::string& head) { return head + " {\n" + text + "return (" + results + ")\n}"; }
};

/// All results of the ops on one dtype, as a few programs.
std::vector<Program> programs(const std::string& t, const Names& unary, const Names& binary, double tolerance) {
  std::vector<Program> all;
  const std::string shape = "[3,21]";
  const std::string head =
      "graph(%0: " + t + "[3,21], %1: " + t + "[21], %2: " + t + "[3,21]{1,3}, %3: " + t + "[3,1])";
  Builder b;
  const auto flush = [&](const char* what) {
    if (!b.text.empty()) all.push_back({t + " " + what, b.graph(head), tolerance, tolerance});
    b = Builder();
  };
  for (const char* f : unary) {
    b.op(t + shape, std::string("aten::") + f + "(self=%0)");
    if (b.next >= 22) flush("unary");
  }
  flush("unary");
  for (const char* f : binary) {
    const std::string alpha = std::string(f) == "add" || std::string(f) == "sub" ? ", alpha=1)" : ")";
    const std::string second = std::string(f) == "pow" ? ", exponent=" : ", other=";
    b.op(t + shape, std::string("aten::") + f + overload(f) + "(self=%0" + second + "%1" + alpha);
    b.op(t + shape, std::string("aten::") + f + overload(f) + "(self=%2" + second + "%3" + alpha);
    if (b.next >= 22) flush("binary");
  }
  for (const char* f : kCompare) {
    b.op("bool" + shape, std::string("aten::") + f + ".Tensor(self=%0, other=%1)");
    b.op("bool" + shape, std::string("aten::") + f + ".Scalar(self=%0, other=1)");
  }
  flush("compare");
  for (const char* f : kLogical) b.op("bool" + shape, std::string("aten::") + f + "(self=%0, other=%2)");
  b.op("bool" + shape, "aten::logical_not(self=%0)");
  b.op("bool" + shape, "aten::isnan(self=%0)");
  b.op(t + shape, "aten::where.self(condition=%10, self=%0, other=%3)");
  b.op(t + shape, "aten::full(size=[3, 21], fill_value=1, dtype=" + t + ", layout=None, device=cpu, pin_memory=None)");
  for (const char* to : {"f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"})
    if (t != to)
      b.op(to + shape, "aten::_to_copy(self=%0, dtype=" + std::string(to) +
                           ", layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)");
  flush("logic and casts");
  return all;
}

void append(std::vector<Program>& to, std::vector<Program> more) {
  for (Program& p : more) to.push_back(std::move(p));
}

}  // namespace

TEST_CASE("pointwise floats") {
  std::vector<Program> all;
  append(all, programs("f32", kFloatUnary, kFloatBinary, 2e-5));
  append(all, programs("f64", kFloatUnary, kFloatBinary, 1e-5));
  check(all);
}

TEST_CASE("pointwise halves round after every op") {
  std::vector<Program> all;
  append(all, programs("f16", kFloatUnary, kFloatBinary, 2e-3));
  append(all, programs("bf16", kFloatUnary, kFloatBinary, 1e-2));
  all.push_back({"a chain", R"(graph(%0: bf16[40], %1: f16[40]) {
    %2: bf16[40] = aten::mul.Tensor(self=%0, other=%0)
    %3: bf16[40] = aten::add.Scalar(self=%2, other=0.001, alpha=1)
    %4: bf16[40] = aten::mul.Tensor(self=%3, other=%3)
    %5: f16[40] = aten::mul.Tensor(self=%1, other=%1)
    %6: f16[40] = aten::add.Tensor(self=%5, other=%1, alpha=1)
    %7: f16[40] = aten::sub.Tensor(self=%6, other=%5, alpha=1)
    return (%4, %7)
  })",
                 0, 0});
  check(all);
}

TEST_CASE("pointwise integers wrap, bool is logic") {
  std::vector<Program> all;
  for (const char* t : {"i64", "i32", "i16", "i8", "u8"}) append(all, programs(t, kIntUnary, kIntBinary, 0));
  all.push_back({"bool", R"(graph(%0: bool[3,21], %1: bool[21]) {
    %2: bool[3,21] = aten::add.Tensor(self=%0, other=%1, alpha=1)
    %3: bool[3,21] = aten::mul.Tensor(self=%0, other=%1)
    %4: bool[3,21] = aten::bitwise_xor.Tensor(self=%0, other=%1)
    %5: bool[3,21] = aten::bitwise_not(self=%0)
    %6: bool[3,21] = aten::lt.Tensor(self=%0, other=%1)
    %7: bool[3,21] = aten::ge.Tensor(self=%0, other=%1)
    %8: bool[3,21] = aten::eq.Tensor(self=%0, other=%1)
    %9: bool[3,21] = aten::maximum(self=%0, other=%1)
    %10: bool[3,21] = aten::logical_and(self=%0, other=%1)
    %11: f32[3,21] = aten::_to_copy(self=%0, dtype=f32, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
    %12: i64[3,21] = aten::_to_copy(self=%0, dtype=i64, layout=None, device=None, pin_memory=None, non_blocking=false, memory_format=None)
    return (%2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12)
  })"});
  all.push_back({"shifts", R"(graph(%0: i64[17], %1: i32[9]) {
    %2: i64[17] = aten::bitwise_left_shift.Tensor_Scalar(self=%0, other=3)
    %3: i64[17] = aten::bitwise_right_shift.Tensor_Scalar(self=%0, other=1)
    %4: i64[17] = aten::pow.Tensor_Scalar(self=%0, exponent=3)
    %5: i32[9] = aten::bitwise_right_shift.Tensor_Scalar(self=%1, other=2)
    return (%2, %3, %4, %5)
  })"});
  all.push_back({"ranges", R"(graph() {
    %2: i64[19] = aten::arange.start_step(start=3, end=60, step=3, dtype=None, layout=None, device=cpu, pin_memory=None)
    %3: f32[7] = aten::arange.start_step(start=0.5, end=4.0, step=0.5, dtype=None, layout=None, device=cpu, pin_memory=None)
    %4: i64[19] = aten::mul.Tensor(self=%2, other=%2)
    return (%2, %3, %4)
  })"});
  check(all);
}

TEST_CASE("numbers and powers") {
  check({{"scalars", R"(graph(%0: f32[50]) {
    %1: f32[50] = aten::abs(self=%0)
    %2: f32[50] = aten::pow.Tensor_Scalar(self=%1, exponent=0.5)
    %3: f32[50] = aten::pow.Tensor_Scalar(self=%0, exponent=2)
    %4: f32[50] = aten::pow.Tensor_Scalar(self=%0, exponent=3)
    %5: f32[50] = aten::pow.Tensor_Scalar(self=%1, exponent=-0.5)
    %6: f32[50] = aten::pow.Tensor_Scalar(self=%1, exponent=1.7)
    %7: f32[50] = aten::pow.Scalar(self=2.5, exponent=%0)
    %8: f32[50] = aten::div.Scalar(self=%0, other=3)
    %9: f32[50] = aten::remainder.Scalar(self=%0, other=0.7)
    %10: f32[50] = aten::div.Tensor_mode(self=%0, other=%1, rounding_mode="trunc")
    %11: f32[50] = aten::pow.Tensor_Scalar(self=%1, exponent=-2)
    return (%2, %3, %4, %5, %6, %7, %8, %9, %10, %11)
  })",
          1e-4, 1e-5}});
}

TEST_CASE("integer division: signs, and zero is an error") {
  compiled::Batch batch;
  const int i = batch.add(R"(graph(%0: i64[21], %1: i64[21], %2: i32[5], %3: i32[5]) {
    %4: i64[21] = aten::div.Tensor_mode(self=%0, other=%1, rounding_mode="floor")
    %5: i64[21] = aten::div.Tensor_mode(self=%0, other=%1, rounding_mode="trunc")
    %6: i64[21] = aten::remainder.Tensor(self=%0, other=%1)
    %7: i64[21] = aten::fmod.Tensor(self=%0, other=%1)
    %8: i32[5] = aten::div.Tensor_mode(self=%2, other=%3, rounding_mode="floor")
    return (%4, %5, %6, %7, %8)
  })");
  batch.compile();
  auto inputs = compiled::random_inputs(batch.graph(i), {}, 7);
  for (int k = 0; k < 21; ++k)
    if (inputs[1].get(k) == 0) inputs[1].set(k, -4);
  for (int k = 0; k < 5; ++k) inputs[2].set(k, INT32_MIN), inputs[3].set(k, k == 2 ? -1 : 7);
  const auto expected = reference::Interpreter(batch.graph(i), inputs).outputs();
  auto r = batch.run(i, inputs);
  REQUIRE(r.code == 0);
  for (size_t k = 0; k < expected.size(); ++k) CHECK(compiled::disagreement(r.outputs[k], expected[k], 0, 0) == 0);
  CHECK(r.outputs[4].get(2) == INT32_MIN);
  inputs[1].set(20, 0);
  r = batch.run(i, inputs);
  CHECK(r.code == PRECAST_RUN);
  CHECK(r.message == "integer division or modulo by zero");
}
