#define FMT_HEADER_ONLY
#include "emit/gemm_sized.h"

#include <fmt/format.h>

#include <algorithm>

#include "emit/merged.h"
#include "emit/size_text.h"
#include "util/errors.h"

namespace precast::emit {
namespace {

using ir::Dims;
using ir::Size;

constexpr int64_t kWidestPanel = 128;  // bytes: two vectors of the widest ISA
constexpr int64_t kMostSplits = 16;    // as in preamble/gemm_sized.inc

std::string scalar(ir::Dtype dtype) { return std::string(ir::name(dtype)); }
bool one(const Size& s) { return s == 1; }

struct Walk {
  Dims sizes, strides;
  Size run() const { return sizes.empty() ? Size(1) : sizes.back(); }  // elements before the stride changes
  Size step() const { return strides.empty() ? Size(1) : strides.back(); }
};

Walk walk(const Dims& sizes, const Dims& strides) {
  auto [merged_sizes, merged_strides] = merged(sizes, strides, one);
  return {merged_sizes, merged_strides};
}

std::string offset(const std::string& x, const Walk& w) {
  std::string sum;
  for (size_t v = 0; v < w.sizes.size(); ++v)
    if (w.strides[v] != 0)
      sum += fmt::format("{}{} * {}", sum.empty() ? "" : " + ", digit(x, w.sizes, v), number(w.strides[v]));
  return sum.empty() ? "0" : sum;
}

Size b_batch(const GemmSpec& s) {
  const bool shared =
      std::all_of(s.b.batch_strides.begin(), s.b.batch_strides.end(), [](const Size& x) { return x == 0; });
  return shared ? Size(1) : ir::product(s.batch);
}

/// Members of the struct: known ones are constants, others are computed when the kernel starts.
struct Members {
  std::string text, values;
  void add(const std::string& name, const Size& value) {
    if (!value.is_symbolic()) {
      text += fmt::format("  static constexpr i64 {} = {}LL;\n", name, int64_t{value});
      return;
    }
    text += fmt::format("  i64 {};\n", name);
    values += ", " + emit::text(value);
  }
};

/// The address of an element and how far its strides hold, as gemm.inc asks for them.
void add_operand(const GemmSpec& s, const GemmOperand& x, char name, char i_name, const Walk& i, const Walk& k,
                 Members& members, std::string& functions) {
  const std::string type = scalar(x.dtype);
  const std::string at = fmt::format("return (const {}*)({}) + ({}) + ({}) + ({});", type, x.pointer,
                                     offset("b", walk(s.batch, x.batch_strides)), offset("i", i), offset("k", k));
  functions += fmt::format("  PRECAST_MEMBER const {}* {}_at(i64 b, i64 i, i64 k) const {{\n{}{}\n  }}\n", type, name,
                           declare_sizes(at, s.symbols, "S"), at);
  for (const auto& [axis, w] : {std::pair{i_name, &i}, std::pair{'k', &k}}) {
    members.add(fmt::format("{}_{}", name, axis), w->step());
    members.add(fmt::format("{}_{}_run", name, axis), w->run());
  }
}

Size own_packed_bytes(const GemmSpec& s) {
  const int64_t columns = kWidestPanel / ir::itemsize(s.dtype);
  return b_batch(s) * ir::floor_div(s.N + (columns - 1), columns) * ir::product(s.K) * kWidestPanel;
}

/// Sums of parts of K apart, where few rows and columns are known to be few.
bool may_split(const GemmSpec& s) {
  const Size rows = ir::product(s.M), batch = ir::product(s.batch);
  if (rows.is_symbolic() || s.N.is_symbolic() || batch.is_symbolic() || !ir::is_symbolic(s.K)) return false;
  return batch == 1 && rows * s.N * ir::itemsize(s.dtype) <= 1000000;
}
Size sums_bytes(const GemmSpec& s) {
  if (!may_split(s)) return 0;
  const int64_t columns = kWidestPanel / ir::itemsize(s.dtype);
  return ir::product(s.M) * ir::floor_div(s.N + (columns - 1), columns) * (kMostSplits * kWidestPanel);
}

}  // namespace

Size sized_workspace_bytes(const GemmSpec& s) { return own_packed_bytes(s) + sums_bytes(s); }

std::string sized_kernel(const GemmSpec& s) {
  PRECAST_CHECK(s.a.fetch.empty() && s.b.fetch.empty() && !s.b.packed, "an operand of a sized product is in memory");
  const Walk a_rows = walk(s.M, s.a.i_strides), a_depth = walk(s.K, s.a.k_strides);
  const Walk b_columns = walk({s.N}, s.b.i_strides), b_depth = walk(s.K, s.b.k_strides);
  const auto plain = [&](const GemmOperand& x) { return x.dtype == s.dtype; };
  Members m;
  std::string functions;
  m.add("batch", ir::product(s.batch)), m.add("M", ir::product(s.M)), m.add("N", s.N), m.add("K", ir::product(s.K));
  m.add("b_batch", b_batch(s));
  m.add("m_lanes", s.along_m && !s.M.empty() ? s.M.back() : Size(0));
  add_operand(s, s.a, 'a', 'm', a_rows, a_depth, m, functions);
  add_operand(s, s.b, 'b', 'n', b_columns, b_depth, m, functions);
  const bool a_along_k = one(a_depth.step()) || !one(a_rows.step());
  const bool b_along_k = !one(s.b.i_strides.empty() ? Size(1) : s.b.i_strides[0]) && one(b_depth.step());
  const std::string type = s.name + "_product", t = scalar(s.dtype);
  std::string text = fmt::format("struct {} {{\n  typedef {} T;\n", type, t), params, arguments;
  for (const GemmParam& p : s.params) {
    text += fmt::format("  {} {};\n", p.type, p.name);
    params += fmt::format(", {} {}", p.type, p.name);
    arguments += (arguments.empty() ? "" : ", ") + p.name;
  }
  text += m.text;
  const std::pair<const char*, bool> flags[] = {{"a_along_k", a_along_k},   {"a_plain", plain(s.a)},
                                                {"a_computed", false},      {"b_along_k", b_along_k},
                                                {"b_plain", plain(s.b)},    {"b_computed", false},
                                                {"b_in_order", true},       {"along_m", s.along_m && !s.M.empty()},
                                                {"may_split", may_split(s)}};
  for (const auto& [name, value] : flags) text += fmt::format("  static constexpr bool {} = {};\n", name, value);
  text += "  static constexpr i64 b_place(i64 k) { return k; }\n" + functions;
  text += fmt::format(
      "  template <int W> PRECAST_MEMBER void done(i64 b, i64 m, i64 n, vec<T, W> acc, int len) const {{\n{}\n  "
      "}}\n}};\n",
      s.epilogue);
  const std::string sums = emit::text(own_packed_bytes(s));
  const std::string call = fmt::format("  multiply_sized(host, {}{{{}{}}}, ({}*)workspace, ({}*)(workspace + {}));\n",
                                       type, arguments, m.values, t, t, sums);
  return text + fmt::format("void {}(const precast_host* host, char* workspace{}) {{\n{}{}}}\n", s.name, params,
                            declare_sizes(call, s.symbols, "S"), call);
}

}  // namespace precast::emit
