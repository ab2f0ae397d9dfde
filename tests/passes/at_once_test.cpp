// What steps do one by one is done at once: terms of sums, and products with one matrix. And what must stay as it is.
#include <doctest/doctest.h>

#include "passes/support.h"

using namespace precast::passes;

namespace {

std::string after(void (*pass)(precast::ir::Graph&), const std::string& inputs, const std::string& body) {
  precast::ir::Graph g = precast::ir::parse("graph(" + inputs + ") {\n" + body + "}");
  pass(g);
  drop_dead_nodes(g);
  precast::ir::renumber(g);
  precast::ir::verify(g, "the pass under test");
  return print(g);
}
int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++n;
  return n;
}

std::string n(int i) { return "%" + std::to_string(i); }
std::string mm(int out, int rows, int columns, const std::string& a, const std::string& b) {
  return n(out) + ": f32[" + std::to_string(rows) + "," + std::to_string(columns) + "] = aten::mm(self=" + a +
         ", mat2=" + b + ")\n";
}
std::string add(int out, const std::string& type, int a, int b) {
  return n(out) + ": " + type + " = aten::add.Tensor(self=" + n(a) + ", other=" + n(b) + ", alpha=1)\n";
}

/// The sum of three products of depth `depth`.
std::string gradient(const std::string& depth) {
  std::string inputs, body;
  for (int i = 0; i < 3; ++i) {
    inputs += (i ? ", " : "") + n(2 * i) + ": f32[8," + depth + "], " + n(2 * i + 1) + ": f32[" + depth + ",9]";
    body += mm(10 + i, 8, 9, n(2 * i), n(2 * i + 1));
  }
  return after(sum_at_once, inputs, body + add(13, "f32[8,9]", 10, 11) + add(14, "f32[8,9]", 13, 12) + "return (%14)");
}

}  // namespace

TEST_CASE("a sum of products is one product, where they are flat") {
  const std::string text = gradient("2");
  CHECK(count(text, "aten::mm") == 1);
  CHECK(count(text, "f32[6,9] = aten::cat") == 1);
  CHECK(count(text, "aten::add") == 0);
  CHECK(count(gradient("32"), "aten::mm") == 3);
}

TEST_CASE("a product that somebody else reads stays, and so does a sum in halves") {
  const std::string inputs = "%0: f32[8,2], %1: f32[2,9], %2: f32[8,2], %3: f32[2,9]";
  const std::string body = mm(10, 8, 9, "%0", "%1") + mm(11, 8, 9, "%2", "%3") + add(12, "f32[8,9]", 10, 11);
  CHECK(count(after(sum_at_once, inputs, body + "return (%12)"), "aten::mm") == 1);
  CHECK(count(after(sum_at_once, inputs, body + "return (%12, %10)"), "aten::mm") == 2);
  std::string halves = "graph(" + inputs + ") {\n" + body + "return (%12)}";
  for (size_t at; (at = halves.find("f32")) != std::string::npos;) halves.replace(at, 3, "f16");
  precast::ir::Graph g = precast::ir::parse(halves);
  sum_at_once(g);
  CHECK(count(print(g), "aten::mm") == 2);
}

TEST_CASE("terms whose op has no first result stay as they are") {
  const std::string text = after(sum_at_once, "%0: f32[2,3], %1: f32[2,3]",
                                 "_, %2: f32[2,3] = custom::op(self=%0)\n_, %3: f32[2,3] = custom::op(self=%1)\n" +
                                     add(4, "f32[2,3]", 2, 3) + "return (%4)");
  CHECK(count(text, "custom::op") == 2);
}

TEST_CASE("zeros but for a part: the parts are joined") {
  const std::string zeros =
      "%9: f32[2,4,3] = aten::full(size=[2,4,3], fill_value=0.0, dtype=f32, layout=None, device=cpu, "
      "pin_memory=None)\n";
  const auto part = [](int out, int src, int at) {
    return n(out) + ": f32[2,4,3] = prim::scatter(base=%9, src=" + n(src) + ", offset=" + std::to_string(12 * at) +
           ", sizes=[2,3], strides=[12,1])\n";
  };
  const std::string inputs = "%0: f32[2,3], %1: f32[2,3], %2: f32[2,4,3]";
  const auto sum = [&](int second) {
    return after(sum_at_once, inputs,
                 zeros + part(10, 0, 2) + part(11, 1, second) + add(12, "f32[2,4,3]", 2, 10) +
                     add(13, "f32[2,4,3]", 12, 11) + "return (%13)");
  };
  const std::string text = sum(0);
  CHECK(count(text, "prim::scatter") == 0);
  CHECK(count(text, "aten::cat") == 1);
  CHECK(count(text, "f32[2,1,3] = aten::full") == 2);  // parts 1 and 3
  CHECK(count(text, "other=0.0") == 2);                // 0 of -0
  CHECK(count(sum(2), "prim::scatter") == 2);          // the same part twice
}

TEST_CASE("products with one matrix that do not wait for each other are one") {
  const std::string inputs = "%0: f32[5,2,3], %1: f32[3,4], %2: f32[2,3]";
  std::string body = "%10: f32[2,3] = prim::view(base=%0, offset=24)\n%11: f32[2,3] = prim::view(base=%0, offset=72)\n";
  body += mm(12, 2, 4, "%11", "%1") + mm(13, 2, 4, "%10", "%1");
  const std::string spaced = after(multiply_at_once, inputs, body + "return (%12, %13)");
  CHECK(count(spaced, "aten::einsum") == 1);
  CHECK(count(spaced, "[2,2,3]{12,3,1} = prim::view(base=%0, offset=24)") == 1);
  CHECK(count(spaced, "aten::mm") == 0);
  CHECK(count(spaced, "%6: f32[2,4] = prim::view(base=%4, offset=32)") == 1);
  CHECK(count(spaced, "return (%6, %5)") == 1);
  // Here and there: joined.
  body += mm(14, 2, 4, "%2", "%1");
  CHECK(count(after(multiply_at_once, inputs, body + "return (%12, %13, %14)"), "f32[6,3] = aten::cat") == 1);
}

TEST_CASE("products that wait for each other stay, those beside them are moved together") {
  // Two chains through the matrix %1 and %2, the second fed by the first.
  const std::string inputs = "%0: f32[2,3], %1: f32[3,3], %2: f32[3,3], %3: f32[3,3]";
  std::string body;
  int low = 0, high = 0;
  for (int t = 0; t < 3; ++t) {
    const int at = 10 + 10 * t;
    body += mm(at, 2, 3, n(low), "%1") + n(at + 1) + ": f32[2,3] = aten::tanh(self=" + n(at) + ")\n";
    body += mm(at + 2, 2, 3, n(at + 1), "%2") + mm(at + 3, 2, 3, n(high), "%3") +
            add(at + 4, "f32[2,3]", at + 2, at + 3) + n(at + 5) + ": f32[2,3] = aten::tanh(self=" + n(at + 4) + ")\n";
    low = at + 1, high = at + 5;
  }
  const std::string text = after(multiply_at_once, inputs, body + "return (%35)");
  CHECK(count(text, "mat2=%1") == 3);
  CHECK(count(text, "mat2=%2") == 1);
  CHECK(count(text, "mat2=%3") == 3);
}
