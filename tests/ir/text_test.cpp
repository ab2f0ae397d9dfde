// The text form: what is printed parses back to the same graph, and bad text is refused by line and column.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "ir/print.h"
#include "ir/verify.h"
#include "precast/error.h"

using namespace precast;
using namespace precast::ir;

namespace {

const char* kExample = R"(graph(%0: f32[64,784] "x", %1: f32[256,784] "fc1.weight") {
  %2: f32[784,256]{1,784} = prim::view(base=%1, offset=0)
  %3: f32[64,256] = aten::mm(self=%0, mat2=%2)
  _ = aten::add_.Tensor(self=%3 -> %4: f32[64,256] "sum", other=%0, alpha=1)
  [2.5] = aten::_local_scalar_dense(self=%4)
  (%5: f32[64,256], _), %6: i64[] = my_ops::two.out(list=[%4, None], other=undefined)
  () = aten::split(self=%4)
  aten::_foreach_add_.Scalar(self=[%4 -> %7: f32[64,256], %2 -> %8: f32[784,256]{1,784}], scalar=1)
  _ = aten::add_.Tensor(self=%4, other=%4) shared(%4 -> %9: f32[64,256], self @ 0: f32[8], other @ 16: f32[8]{2})
  return (%4, %5, %1)
}
)";

const char* kAttrs = R"(graph(%0: f32[], %1: bf16[0,3] conj neg @cuda:1, %2: dtype<12>[2]{0}) {
  _ = a::b(a=None, b=true, c=false, d=-9223372036854775808, e=9223372036854775807, f=1.0, g=-0.0, h=1e-05)
  _ = a::b(a=inf, b=-inf, c=nan, d=5e-324, e=1.7976931348623157e+308, f=0.1, g=1e+300)
  _ = a::b(a=complex(1.0, -0.0), b=complex(inf, nan), c="a \"b\" \\ \n\x00\x7f", d="", e=f32, f=bool, g=dtype<13>)
  _ = a::b(a=cpu, b=cuda:0, c=meta, d=device<99>:3)
  _ = a::b(a=Tensor[], b=int[], c=float[], d=bool[], e=[%0, None], f=[None], g=[1, -2], h=[-0.0, nan, 1e+20])
  [true], [3], ["s"] = a::b(a=[true, false], b=[-inf])
  return ()
}
)";

std::string message(const std::string& text) {
  try {
    parse(text);
  } catch (const PrecompileError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("text parses back to the same text") {
  CHECK(print(parse(kExample)) == kExample);
  CHECK(print(parse(kAttrs)) == kAttrs);
  CHECK(print(parse("graph(){return()}")) == "graph() {\n  return ()\n}\n");
}

TEST_CASE("every kind of attribute keeps its alternative") {
  Graph g = parse(kAttrs);
  auto index = [&](int node, const char* arg) { return g.nodes[node].find(arg)->index(); };
  auto is = [&](int node, const char* arg, auto v) { return *g.nodes[node].find(arg) == Attr(v); };
  CHECK(is(0, "f", 1.0));
  CHECK(std::signbit(std::get<double>(*g.nodes[0].find("g"))));
  CHECK(is(0, "d", std::numeric_limits<int64_t>::min()));
  CHECK(is(1, "d", std::numeric_limits<double>::denorm_min()));
  CHECK(is(1, "e", std::numeric_limits<double>::max()));
  CHECK(std::isnan(std::get<double>(*g.nodes[1].find("c"))));
  CHECK(is(2, "c", std::string("a \"b\" \\ \n\0\x7f", 11)));
  CHECK(is(2, "e", Dtype::f32));
  CHECK(is(3, "b", Device{1, 0}));
  CHECK(index(4, "a") == Attr(std::vector<Ref>{}).index());
  CHECK(index(4, "b") == Attr(std::vector<int64_t>{}).index());
  CHECK(index(4, "c") == Attr(std::vector<double>{}).index());
  CHECK(index(4, "d") == Attr(std::vector<bool>{}).index());
  CHECK(is(4, "e", std::vector<Ref>{{0}, {}}));
  CHECK(is(4, "f", std::vector<Ref>{{}}));
  CHECK(g.nodes[5].outs[0].expect == Attr(true));
  CHECK(g.nodes[5].outs[1].expect == Attr(int64_t{3}));
}

TEST_CASE("doubles round-trip bit for bit") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    double d = std::bit_cast<double>(random());
    if (std::isnan(d)) continue;
    Graph g;
    g.nodes.push_back({"a::b", {{"x", d}}, {}, {}, {}});
    CHECK(*parse(print(g)).nodes[0].find("x") == Attr(d));
  }
}

TEST_CASE("parsing renumbers by definition") {
  Graph g = parse("graph(%7: f32[2]) { %3: f32[2] = aten::neg(self=%7) return (%3) }");
  CHECK(g.values.size() == 2);
  CHECK(g.outputs == std::vector<ValueId>{1});
}

TEST_CASE("bad text is refused by line and column") {
  CHECK(message("") == "graph text, line 1, column 1: expected 'graph', found the end of the text");
  CHECK(message("graph(%0: f99[2]) {") ==
        "graph text, line 1, column 11: expected a dtype (f32, i64, bool, ...), found 'f99[2]) {'");
  CHECK(message("graph() {\n  %1: f32[] = aten::neg(self=%0)\n  return ()\n}") ==
        "graph text, line 2, column 30: expected a value defined above, found '%0)'");
  CHECK(message("graph(%0: f32[], %0: f32[]) {").find("column 18: expected a value that is not defined yet") !=
        std::string::npos);
  CHECK(message("graph(%0: f32[2]) {\n  %1: f32[3] = prim::view(base=%0, offset=0)\n return () }")
            .find("line 2, column 3: a window reaches beyond its base in %1: f32[3] = prim::view") !=
        std::string::npos);
  CHECK(message("graph() { %1: f32[] = aten::neg(self=%1) return () }").find("not defined before") !=
        std::string::npos);
  for (const char* bad :
       {"graph() { return () } x", "graph() { return (", "graph(%0: f32[-1]) { return () }",
        "graph(%0: f32[4611686018427387904]) { return () }", "graph(%0: f32[9999999,9999999,9999999]) { return () }",
        "graph(%0: f32[2]{1,1}) { return () }", "graph(%0: f32[3,3]{1152921504606846976,1}) { return () }",
        "graph() { _ = a::b(x=[]) return () }", "graph() { _ = a::b(x=1e999) return () }",
        "graph() { _ = a::b(x=99999999999999999999) return () }", "graph() { _ = a::b(x=\"abc) return () }",
        "graph() { _ = a::b(x=\"\\q\") return () }", "graph() { _ = a::b(x=[1, 2.5]) return () }",
        "graph() { _ = a(x=1) return () }", "graph() { _ = prim::view() return () }",
        "graph() { [%0] = a::b() return () }"})
    CHECK_MESSAGE(!message(bad).empty(), bad);
}

TEST_CASE("mutated text never crashes the parser") {
  std::mt19937 random(7);
  for (int i = 0; i < 30000; ++i) {
    std::string text = i % 2 ? kExample : kAttrs;
    for (int k = static_cast<int>(random() % 4); k >= 0; --k) {
      size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 12));
          break;
        default:
          text.resize(at);
      }
      if (text.empty()) text = "g";
    }
    try {
      std::string again = print(parse(text));
      CHECK(print(parse(again)) == again);
    } catch (const PrecompileError&) {
    }
  }
}
