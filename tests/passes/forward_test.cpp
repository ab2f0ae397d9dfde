// Reads that take what was written, or joined, from where it came from; and the comparison of windows they stand on,
// beside a count of the elements one by one.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "passes/lattice.h"
#include "passes/support.h"

using namespace precast::passes;

namespace {

/// The places of a window's elements, in order.
std::vector<int64_t> places(const Window& w) {
  std::vector<int64_t> all;
  const std::function<void(size_t, int64_t)> walk = [&](size_t d, int64_t at) {
    if (d == w.sizes.size()) return all.push_back(at);
    for (int64_t i = 0; i < w.sizes[d]; ++i) walk(d + 1, at + i * w.strides[d]);
  };
  walk(0, w.offset);
  return all;
}

std::string forwarded(const std::string& inputs, const std::string& body) {
  precast::ir::Graph g = precast::ir::parse("graph(" + inputs + ") {" + body + "}");
  forward_writes(g);
  simplify(g);
  drop_dead_nodes(g);
  precast::ir::renumber(g);
  precast::ir::verify(g, "forward_writes");
  return print(g);
}

const std::string kGates = "%0: f32[4,6], %1: f32[4,2]";
const std::string kWrite = "%2: f32[4,6] = prim::scatter(base=%0, src=%1, offset=8, sizes=[4, 2], strides=[6, 1])\n";

}  // namespace

TEST_CASE("windows are told apart, and found inside each other, as their elements say") {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const int64_t strides[] = {0, 1, 1, 2, 3, 6, 12, 24};
  const auto window = [&](bool overlaps) {
    Window w{below(14), {}, {}};
    for (int64_t d = below(4); d-- > 0;) {
      w.sizes.push_back(1 + below(4));
      w.strides.push_back(strides[overlaps ? below(8) : 1 + below(7)]);
    }
    return w;
  };
  int separate = 0, within = 0;
  for (int k = 0; k < 20000; ++k) {
    const Window part = window(true), whole = window(false);
    const auto p = places(part), q = places(whole);
    const std::set<int64_t> all(q.begin(), q.end());
    const bool disjoint = std::ranges::none_of(p, [&](int64_t x) { return all.contains(x); });
    if (apart(part, whole)) {
      REQUIRE(disjoint);
      ++separate;
    }
    // A tensor with the sizes of `whole`, dims in another order.
    Dims own(whole.sizes.size());
    int64_t next = 1;
    for (size_t d = 0; d < own.size(); ++d) own[d] = next, next *= whole.sizes[d];
    if (all.size() != q.size()) continue;  // what is written must not overlap itself
    const auto found = inside(part, whole, own);
    if (!found) continue;
    ++within;
    REQUIRE(found->sizes == part.sizes);
    const auto there = places(*found), elements = places({0, whole.sizes, own});
    for (size_t i = 0; i < p.size(); ++i) {
      const auto at = std::ranges::find(elements, there[i]);
      REQUIRE(at != elements.end());
      REQUIRE(q[static_cast<size_t>(at - elements.begin())] == p[i]);
    }
  }
  CHECK(separate > 3000);
  CHECK(within > 500);
}

TEST_CASE("a read of what was written takes it from there") {
  CHECK(forwarded(kGates, kWrite + "%3: f32[4,2]{6,1} = prim::view(base=%2, offset=8)\n"
                                   "%4: f32[4,2] = aten::exp(self=%3)\nreturn (%4)")
            .find("aten::exp(self=%1)") != std::string::npos);
  // A row of it.
  CHECK(forwarded(kGates, kWrite + "%3: f32[2] = prim::view(base=%2, offset=32)\n"
                                   "%4: f32[2] = aten::exp(self=%3)\nreturn (%4)")
            .find("prim::view(base=%1, offset=8)") != std::string::npos);
  // Beside it, though the byte ranges overlap.
  CHECK(forwarded(kGates, kWrite + "%3: f32[4,2]{6,1} = prim::view(base=%2, offset=0)\n"
                                   "%4: f32[4,2] = aten::exp(self=%3)\nreturn (%4)")
            .find("prim::view(base=%0, offset=0)") != std::string::npos);
}

TEST_CASE("a read of the write and of what was there before stays, and so does one whose layout counts") {
  CHECK(forwarded(kGates, kWrite + "%3: f32[4,3]{6,1} = prim::view(base=%2, offset=8)\n"
                                   "%4: f32[4,3] = aten::exp(self=%3)\nreturn (%4)")
            .find("prim::scatter") != std::string::npos);
  CHECK(forwarded(kGates, kWrite + "%3: f32[4,2]{6,1} = prim::view(base=%2, offset=8)\nreturn (%3)")
            .find("prim::scatter") != std::string::npos);
  CHECK(forwarded(kGates, kWrite + "%3: i32[4,2]{6,1} = prim::view(base=%2, offset=8)\n"
                                   "%4: i32[4,2] = aten::abs(self=%3)\nreturn (%4)")
            .find("prim::scatter") != std::string::npos);
}

TEST_CASE("a read between two writes stays behind the first, which is in place then") {
  const std::string second = "%3: f32[4,6] = prim::scatter(base=%2, src=%1, offset=0, sizes=[4, 2], strides=[6, 1])\n";
  const std::string text = forwarded(kGates, kWrite + second +
                                                 "%4: f32[4,3]{6,1} = prim::view(base=%3, offset=12)\n"
                                                 "%5: f32[4,3] = aten::exp(self=%4)\nreturn (%5)");
  CHECK(text.find("prim::view(base=%3") != std::string::npos);
}

TEST_CASE("a read of one of several joined tensors takes that one") {
  const std::string text = forwarded("%0: f32[2,3], %1: f32[2,3]",
                                     "%2: f32[2,6] = aten::cat(tensors=[%0, %1], dim=1)\n"
                                     "%3: f32[2,2]{6,1} = prim::view(base=%2, offset=16)\n"
                                     "%4: f32[2,2] = aten::exp(self=%3)\n"
                                     "%5: f32[2,2]{6,1} = prim::view(base=%2, offset=8)\n"
                                     "%6: f32[2,2] = aten::exp(self=%5)\nreturn (%4, %6)");
  CHECK(text.find("prim::view(base=%1, offset=4)") != std::string::npos);
  CHECK(text.find("prim::view(base=%2, offset=8)") != std::string::npos);  // across the seam
}
