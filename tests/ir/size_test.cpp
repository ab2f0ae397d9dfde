// Sizes as polynomials of symbols: normal form, order by bounds, division, text, and graphs that hold them.
#include "ir/size.h"

#include <doctest/doctest.h>

#include <random>

#include "ir/print.h"
#include "ir/verify.h"
#include "precast/error.h"

using namespace precast;
using namespace precast::ir;

namespace {

const Symbol kSymbols[] = {
    {.id = 0, .hint = 8}, {.id = 1, .min = 2, .max = 64, .hint = 16}, {.id = 2, .min = 1, .hint = 1}};
const Size u0 = Size::symbol(kSymbols[0]), u1 = Size::symbol(kSymbols[1]), u2 = Size::symbol(kSymbols[2]);

std::optional<Symbol> known(std::string_view n) {
  for (const Symbol& s : kSymbols)
    if (name(s) == n) return s;
  return {};
}
Size parsed(std::string_view text) {
  const auto s = parse_size(text, known);
  REQUIRE(s);
  CHECK(text.empty());
  return *s;
}
/// For u0, u1, u2.
int64_t value(const Size& s, int64_t a, int64_t b, int64_t c) {
  const int64_t of[] = {a, b, c};
  return s.value([&](const Symbol& x) { return of[x.id]; }).value();
}
bool undecided(const std::function<void()>& f) {
  try {
    f();
  } catch (const Undecided&) {
    return true;
  }
  return false;
}

const char* kGraph = R"(symbols: u0 in [0, inf) hint 8, u1 in [2, 64] hint 16, u8 in [0, inf) hint 3
graph(%0: f32[u0,3] "x", %1: f32[2,u1]{100,1}, %2: i64[u8]) {
  %3: f32[3*u0] = prim::view(base=%0, offset=0)
  %4: f32[(u0//2),3] = prim::view(base=%0, offset=12*(u0%2))
  %5: f32[max(3,u0),u0*u1-1] = my::op(size=[max(3,u0), 2], n=u1, k=-3*u0+u1-2, m=(u8), none=int[])
  return (%4, %5)
}
)";

}  // namespace

TEST_CASE("a size is a number until a symbol comes in, and equal expressions are one") {
  CHECK_FALSE(Size(3).is_symbolic());
  CHECK(int64_t{Size(3) * 4 + 1} == 13);
  CHECK((u0 + u1) * (u0 - u1) == u0 * u0 - u1 * u1);
  CHECK(u0 + 0 == u0);
  CHECK((u0 + 5) - u0 == 5);
  CHECK_FALSE((u0 - u0).is_symbolic());
  CHECK(u0 != 1);
  CHECK(u0 != 0);
  CHECK(u0 != u1);
  CHECK(undecided([] { (void)int64_t{u0}; }));
  CHECK(u0.hint() == 8);
  CHECK(u2.hint() == 2);  // one at capture is no reason to build for one
}

TEST_CASE("orders are decided by the bounds of the symbols") {
  CHECK(u1 > 1);
  CHECK(u1 <= 64);
  CHECK(u0 >= 0);
  CHECK(u0 * u1 >= u0);
  CHECK(u1 * u1 - u1 > 0);
  CHECK(u0 < u0 + 1);
  CHECK(u2 * u0 * 4 >= 4 * u0);
  CHECK(undecided([] { (void)(u0 < 2); }));
  CHECK(undecided([] { (void)(u0 < u1); }));
  CHECK(always_at_least(u0 + u1, u0 + 2));
  CHECK_FALSE(always_at_least(u0, 1));
}

TEST_CASE("division") {
  CHECK(divide(6 * u0 * u1 + 3 * u1, 3 * u1) == 2 * u0 + 1);
  CHECK(divide(u0 * u0 - 1, u0 - 1) == u0 + 1);
  CHECK_FALSE(divide(u0, 2));
  CHECK_FALSE(divide(u0, u1));
  CHECK(floor_div(3 * u0 * u1 + u1 - 1, u1) == 3 * u0);
  CHECK(mod(3 * u0 * u1 + u1 - 1, u1) == u1 - 1);
  CHECK(to_string(floor_div(u0 + 4, 2)) == "(u0//2)+2");
  CHECK(to_string(mod(u0, 2)) == "(u0%2)");
  CHECK(max(u0, 0) == u0);
  CHECK(max(u1, 1) == u1);
  CHECK(min(u0, u0 + 3) == u0);
  CHECK(max(u0, 3) == max(3, u0));
  CHECK(undecided([] { (void)floor_div(3, 0); }));
}

TEST_CASE("text of sizes") {
  for (const char* text : {"u0", "3*u0", "u0*u1-1", "-u0", "-2*u0*u0+u1+7", "(u0//2)", "4*((u0+1)%3)", "max(3,u0)",
                           "min(u0,u1)*u1", "(u0*u1//(u1+1))", "((u0+1)//u1)"})
    CHECK(to_string(parsed(text)) == text);
  CHECK(parsed("2*(u0+1)") == 2 * u0 + 2);
  CHECK(parsed("(u0*u1)") == u0 * u1);
  for (std::string_view text : {"", "u", "u9", "(u0", "(u0//0)", "max(u0)", "*", "99999999999999999999"})
    CHECK_FALSE(parse_size(text, known));
}

TEST_CASE("values, bounds and rewriting agree on random expressions") {
  std::mt19937 random(1);
  const auto pick = [&](int n) { return std::uniform_int_distribution<int>(0, n)(random); };
  const std::function<Size(int)> make = [&](int depth) -> Size {
    if (depth == 0) return pick(2) == 0 ? Size(pick(8) - 3) : pick(1) == 0 ? u0 : pick(1) == 0 ? u1 : u2;
    const Size a = make(depth - 1), b = make(depth - 1);
    switch (pick(7)) {
      case 0:
        return floor_div(a, u1);
      case 1:
        return mod(a, u2 + 1);
      case 2:
        return max(a, b);
      case 3:
        return min(a, b);
      case 4:
      case 5:
        return a * b;
      default:
        return pick(1) == 0 ? a + b : a - b;
    }
  };
  int compared = 0;
  for (int n = 0; n < 400; ++n) {
    try {
      const Size a = make(3), b = make(2);
      const Size again = parsed(to_string(a));
      CHECK(again == a);
      const auto quotient_of = quotient(a, u1);
      const auto exact = divide(a * b, b);
      for (int k = 0; k < 20; ++k) {
        const int64_t x = pick(3) == 0 ? pick(1) : pick(40), y = 2 + pick(62), z = 1 + pick(9);
        const int64_t at = value(a, x, y, z), bt = value(b, x, y, z);
        CHECK(a.lower() <= at);
        CHECK(at <= a.upper());
        CHECK(value(a + b, x, y, z) == at + bt);
        CHECK(value(a * b, x, y, z) == at * bt);
        CHECK(value(max(a, b), x, y, z) == std::max(at, bt));
        CHECK(value(floor_div(a, u1), x, y, z) ==
              static_cast<int64_t>(std::floor(static_cast<double>(at) / static_cast<double>(y))));
        CHECK(value(mod(a, u1), x, y, z) == ((at % y) + y) % y);
        if (quotient_of) CHECK(value(quotient_of->first, x, y, z) * y + value(quotient_of->second, x, y, z) == at);
        if (exact && bt != 0) CHECK(value(*exact, x, y, z) == at);
        const int64_t of[] = {x, y, z};
        CHECK(a.substitute([&](const Symbol& s) { return Size(of[s.id]); }) == at);
        if (always_at_least(a, b)) CHECK(at >= bt);
        ++compared;
      }
    } catch (const Undecided&) {  // too large
    }
  }
  CHECK(compared > 4000);
}

TEST_CASE("a graph with symbols: text, substitution, rules") {
  const Graph g = parse(kGraph);
  CHECK(print(g) == kGraph);
  CHECK(g.symbols.size() == 3);
  CHECK(std::get_if<Size>(g.nodes[2].find("m")));
  CHECK(std::get_if<Dims>(g.nodes[2].find("size")));
  CHECK(print(substitute(g, [](const Symbol& s) { return s.id == 0 ? 5 : 10; })) ==
        R"(graph(%0: f32[5,3] "x", %1: f32[2,10]{100,1}, %2: i64[10]) {
  %3: f32[15] = prim::view(base=%0, offset=0)
  %4: f32[2,3] = prim::view(base=%0, offset=12)
  %5: f32[5,49] = my::op(size=[5, 2], n=10, k=-7, m=10, none=int[])
  return (%4, %5)
}
)");
  // Strides of an empty tensor are those of eager.
  const Graph empty = substitute(parse("symbols: u0 in [0, inf) hint 8\ngraph(%0: f32[2,u0,3]) {\n return (%0)\n}"),
                                 [](const Symbol&) { return 0; });
  CHECK(empty.type(0).strides == Dims{3, 3, 1});

  const auto fails = [](const std::string& text) {
    try {
      parse(text);
    } catch (const PrecompileError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(fails("graph(%0: f32[u0]) { return (%0) }").find("declared symbols") != std::string::npos);
  CHECK(fails("symbols: u0 in [3, 2] hint 2 graph() { return () }").find("leave no value") != std::string::npos);
  CHECK(fails("symbols: u0 in [0, inf) hint 2, u0 in [0, inf) hint 2 graph() { return () }") != "");
  CHECK(fails("symbols: v0 in [0, inf) hint 2 graph() { return () }").find("a symbol") != std::string::npos);
  CHECK(fails("symbols: u0 in [0, inf) hint 2 graph(%0: f32[u0]) { %1: f32[u0+1] = prim::view(base=%0, offset=0) "
              "return (%1) }")
            .find("beyond its base") != std::string::npos);
}
