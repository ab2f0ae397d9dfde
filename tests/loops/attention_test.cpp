// Attention and its backward: sizes around the tiles, masks, views, one and many keys, sizes that a call decides.
#include "check_open.h"

using compiled::check;
using compiled::check_open;
using compiled::Dynamic;
using compiled::Program;
using precast::ir::Size;
using precast::ir::to_string;

namespace {

/// Forward and backward on operands of these types.
std::string text(const std::string& q, const std::string& k, const std::string& v, const std::string& out,
                 const std::string& logs, const std::string& dk, const std::string& rest,
                 const std::string& mask = "") {
  const std::string operands = "query=%0, key=%1, value=%2, ";
  const std::string options = "dropout_p=0.0, " + rest + (mask.empty() ? "" : ", attn_mask=%4");
  return "graph(%0: " + q + ", %1: " + k + ", %2: " + v + ", %3: " + out + (mask.empty() ? "" : ", %4: " + mask) +
         ") {\n%10: " + out + ", %11: " + logs + " = aten::_scaled_dot_product_flash_attention_for_cpu(" + operands +
         options + ")\n%12: " + out + ", %13: " + dk + ", %14: " + dk +
         " = aten::_scaled_dot_product_flash_attention_for_cpu_backward(grad_out=%3, " + operands +
         "out=%10, logsumexp=%11, " + options + ")\nreturn (%10, %11, %12, %13, %14)\n}";
}

std::string type(const char* t, const precast::ir::Dims& s) {
  std::string text = t + std::string("[");
  for (size_t d = 0; d < s.size(); ++d) text += (d > 0 ? "," : "") + to_string(s[d]);
  return text + "]";
}

std::string plain(const char* t, const Size& b, const Size& h, const Size& tq, const Size& tk, int64_t d,
                  const std::string& rest, const std::string& mask = "") {
  const std::string k = type(t, {b, h, tk, d}), q = type(t, {b, h, tq, d});
  // Results are laid out as eager does: heads beside each other.
  const auto heads_inside = [&](const Size& n) {
    return type(t, {b, h, n, d}) + "{" + to_string(n * h * d) + "," + std::to_string(d) + "," + to_string(h * d) +
           ",1}";
  };
  const std::string logs = type(t, {b, h, tq}) + "{" + to_string(tq * h) + ",1," + to_string(h) + "}";
  return text(q, k, k, heads_inside(tq), logs, heads_inside(tk), rest, mask);
}

std::vector<Program> programs() {
  const std::string full = "is_causal=false", causal = "is_causal=true";
  std::vector<Program> all = {
      {"whole vectors", plain("f32", 2, 3, 16, 16, 32, full)},
      {"causal", plain("f32", 2, 2, 33, 33, 16, causal)},
      {"more keys than a block", plain("f32", 1, 2, 9, 300, 24, full)},
      {"causal over blocks of keys", plain("f32", 1, 1, 270, 270, 8, causal)},
      {"causal, more keys than rows", plain("f32", 1, 2, 5, 40, 8, causal)},
      {"causal, more rows than keys", plain("f32", 1, 1, 140, 3, 8, causal)},
      {"one row", plain("f32", 2, 3, 1, 37, 20, full)},
      {"three rows", plain("f32", 1, 2, 3, 19, 36, full, "f32[3,19]")},
      {"one key", plain("f32", 1, 2, 7, 1, 5, full)},
      {"one of all", plain("f32", 1, 1, 1, 1, 1, causal)},
      {"no batch", plain("f32", 0, 2, 3, 4, 8, full)},
      {"no queries", plain("f32", 1, 2, 0, 5, 8, full)},
      {"no keys", plain("f32", 1, 2, 3, 0, 8, causal)},
      {"scale", plain("f32", 1, 2, 12, 11, 40, full + ", scale=0.3")},
      {"negative scale", plain("f32", 1, 2, 12, 11, 40, full + ", scale=-0.3")},
      {"mask of two dims", plain("f32", 2, 2, 10, 21, 16, full, "f32[10,21]")},
      {"mask of four", plain("f32", 2, 2, 10, 21, 16, causal, "f32[2,2,10,21]")},
      {"mask of keys", plain("f32", 2, 2, 10, 21, 16, full, "f32[2,1,1,21]")},
      {"mask of rows", plain("f32", 2, 2, 10, 21, 16, full, "f32[10,1]")},
      {"expanded mask", plain("f32", 2, 2, 10, 21, 16, full, "f32[2,2,10,21]{21,0,0,1}")},
      {"mask across", plain("f32", 2, 2, 10, 21, 16, full, "f32[10,21]{1,10}")},
      {"f64", plain("f64", 1, 2, 11, 13, 12, causal, "f64[11,13]"), 1e-10, 1e-11},
      {"128 numbers a head", plain("f32", 1, 1, 20, 70, 128, full)},
      {"views of one product",
       text("f32[2,3,9,16]{1296,16,144,1}", "f32[2,3,9,16]{1296,16,144,1}", "f32[2,3,9,16]{1296,16,144,1}",
            "f32[2,3,9,16]{432,16,48,1}", "f32[2,3,9]{27,1,3}", "f32[2,3,9,16]{432,16,48,1}", causal)},
      {"depth is not the last in memory",
       text("f32[1,2,9,16]{288,144,1,9}", "f32[1,2,9,16]{288,144,1,9}", "f32[1,2,9,16]{0,0,16,1}",
            "f32[1,2,9,16]{288,16,32,1}", "f32[1,2,9]{18,1,2}", "f32[1,2,9,16]{288,16,32,1}", full)},
      {"rows a page apart",
       text("f32[1,1,12,16]{12288,12288,1024,1}", "f32[1,1,12,16]{12288,12288,1024,1}",
            "f32[1,1,12,16]{12288,12288,1024,1}", "f32[1,1,12,16]", "f32[1,1,12]", "f32[1,1,12,16]", full)},
  };
  for (Program& p : all)
    if (p.name != "f64") p.relative = p.absolute = 2e-5;
  return all;
}

std::vector<Dynamic> open_programs() {
  const std::string full = "is_causal=false", causal = "is_causal=true";
  const auto u = [](int id) { return Size::symbol({.id = id}); };
  const std::vector<std::string> two = {"u0 in [0, inf) hint 8", "u1 in [0, inf) hint 30"},
                                 three = {two[0], two[1], "u2 in [0, inf) hint 20"};
  const std::vector<std::vector<int64_t>> lengths = {{0}, {1}, {2}, {7}, {33}, {300}};
  std::vector<std::vector<int64_t>> pairs = {{1, 300}, {3, 300}, {300, 1}, {33, 300}, {300, 140}};
  for (const int64_t a : {0, 1, 2, 4, 5, 7, 33})
    for (const int64_t b : {0, 1, 2, 7, 33}) pairs.push_back({a, b});
  const std::vector<std::vector<int64_t>> all = {{0, 2, 3}, {2, 0, 3},  {2, 3, 0}, {1, 1, 1},
                                                 {2, 3, 1}, {1, 5, 40}, {3, 2, 7}, {1, 1, 300}};
  std::vector<Dynamic> programs = {
      {.name = "open batch", .text = plain("f32", u(0), 3, 16, 16, 32, full), .sizes = {{0}, {1}, {2}, {7}}},
      {.name = "few queries, so many is known",
       .text = plain("f32", 1, 2, u(0), 70, 36, full),
       .symbols = {"u0 in [1, 4] hint 1"},
       .sizes = {{1}, {2}, {4}}},
      {.name = "queries and keys", .text = plain("f32", 1, 2, u(0), u(1), 20, full), .symbols = two, .sizes = pairs},
      {.name = "queries and keys, causal",
       .text = plain("f32", 1, 1, u(0), u(1), 40, causal + ", scale=0.3"),
       .symbols = two,
       .sizes = pairs},
      {.name = "batch, heads and length",
       .text = plain("f32", u(0), u(1), u(2), u(2), 8, causal),
       .symbols = three,
       .sizes = all},
      {.name = "open mask of two dims",
       .text = plain("f32", 2, 2, u(0), u(1), 16, full, "f32[u0,u1]"),
       .symbols = two,
       .sizes = pairs},
      {.name = "open mask of four",
       .text = plain("f32", u(0), u(1), u(2), 21, 16, causal, "f32[u0,u1,u2,21]"),
       .symbols = three,
       .sizes = all},
      {.name = "open mask of keys", .text = plain("f32", u(0), 2, 5, u(1), 16, full, "f32[u0,1,1,u1]"), .symbols = two},
      {.name = "open mask across",
       .text = plain("f32", 2, 2, u(0), u(1), 16, full, "f32[u0,u1]{1,u0}"),
       .symbols = two},
      {.name = "open f64",
       .text = plain("f64", u(0), 2, u(1), u(1), 12, causal, "f64[u1,u1]"),
       .symbols = two,
       .relative = 1e-10,
       .absolute = 1e-11},
      {.name = "open views of one product",
       .text =
           text("f32[2,3,u0,16]{144*u0,16,144,1}", "f32[2,3,u0,16]{144*u0,16,144,1}", "f32[2,3,u0,16]{144*u0,16,144,1}",
                "f32[2,3,u0,16]{48*u0,16,48,1}", "f32[2,3,u0]{3*u0,1,3}", "f32[2,3,u0,16]{48*u0,16,48,1}", causal),
       .sizes = lengths},
      // With 16 of them, rows are a page apart.
      {.name = "time before the open batch",
       .text = text("f32[u0,2,9,16]{32,16,32*u0,1}", "f32[u0,2,9,16]{32,16,32*u0,1}", "f32[u0,2,9,16]{32,16,32*u0,1}",
                    "f32[u0,2,9,16]{32,16,32*u0,1}", "f32[u0,2,9]{2,1,2*u0}", "f32[u0,2,9,16]{32,16,32*u0,1}", full),
       .sizes = {{0}, {1}, {2}, {7}, {16}, {32}}},
      {.name = "depth is not the last in memory of open length",
       .text = text("f32[1,2,u0,16]{32*u0,16*u0,1,u0}", "f32[1,2,u0,16]{32*u0,16*u0,1,u0}", "f32[1,2,u0,16]{0,0,16,1}",
                    "f32[1,2,u0,16]{32*u0,16,32,1}", "f32[1,2,u0]{2*u0,1,2}", "f32[1,2,u0,16]{32*u0,16,32,1}", full),
       .sizes = lengths},
  };
  for (Dynamic& p : programs)
    if (p.name != "open f64") p.relative = p.absolute = 5e-5;
  return programs;
}

}  // namespace

TEST_CASE("attention and its backward") {
  check(programs());
  check_open(open_programs());
}

TEST_CASE("attention in the other sections") {
  check(programs(), {.isa = 0, .vector_bytes = 16, .flags = "-O1"});
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    const compiled::Options widest{
        .isa = 3, .vector_bytes = 64, .flags = "-O1 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mf16c"};
    check(programs(), widest);
    check_open(open_programs(), widest);
  }
}
