// What choices change in core graphs.
#include <doctest/doctest.h>

#include "passes/support.h"

using namespace precast;
using passes::core;

namespace {

constexpr const char* kTwoLayers =
    "graph(%0: f32[64,256], %1: f32[256,1024], %2: f32[1024,32]) {\n"
    "%3: f32[64,1024] = aten::mm(self=%0, mat2=%1)\n"
    "%4: f32[64,1024] = aten::relu(self=%3)\n"
    "%5: f32[64,32] = aten::mm(self=%4, mat2=%2)\n"
    "return (%5)\n}";

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("padded rows: between products, where rows begin whole pages apart") {
  CHECK_FALSE(has(core(kTwoLayers), "{1040,1}"));
  const std::string padded = core(kTwoLayers, {.padded_rows = true});
  INFO(padded);
  CHECK(has(padded, "{1040,1}"));
  CHECK(has(padded, "return (%"));
  CHECK_FALSE(has(padded, "aten::clone"));  // what reads them follows
  std::string narrow = kTwoLayers;
  for (size_t at; (at = narrow.find("1024")) != narrow.npos;) narrow.replace(at, 4, "1000");
  CHECK(core(narrow, {.padded_rows = true}) == core(narrow));
}

TEST_CASE("joint products: off, products stay apart") {
  const char* const three =
      "graph(%0: f32[8,16], %1: f32[16,4], %2: f32[16,4]) {\n"
      "%3: f32[8,4] = aten::mm(self=%0, mat2=%1)\n"
      "%4: f32[8,4] = aten::mm(self=%0, mat2=%2)\n"
      "return (%3, %4)\n}";
  CHECK(core(three, {.joint_products = false}) == core(three, {.joint_products = false, .free_layouts = false}));
}
