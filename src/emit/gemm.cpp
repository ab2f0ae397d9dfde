#define FMT_HEADER_ONLY
#include "emit/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "emit/gemm_sized.h"
#include "emit/merged.h"
#include "emit/size_text.h"
#include "util/errors.h"

namespace precast::emit {
namespace {

using ir::Dtype;
using Sizes = std::vector<int64_t>;
using Spec = GemmSpecOf<int64_t>;  // all of it known
using Operand = GemmOperandOf<int64_t>;

constexpr int64_t kFewRows = 12;    // rows up to which B is read as it is: packing would cost as much as it saves
constexpr int64_t kDenseRow = 128;  // elements between rows of B up to which reading it as it is stays cheap
constexpr int64_t kFullTile = 10;   // rows one behind the other that keep a tile of A read as it is busy
constexpr int64_t kLongRun = 128;   // elements along K between two changes of stride
constexpr int64_t kDotRows = 4;
constexpr int64_t kWidestPanel = 128;  // bytes: two vectors of the widest ISA

std::string_view scalar(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16:
      return "f16";
    case Dtype::bf16:
      return "bf16";
    case Dtype::f32:
      return "f32";
    case Dtype::f64:
      return "f64";
    default:
      PRECAST_CHECK(false, "no matrix product of " + std::string(ir::name(dtype)));
  }
}

int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// ---- Counting over several variables ----

struct Walk {
  Sizes sizes, strides;
  int64_t run() const { return sizes.empty() ? 1 : sizes.back(); }  // elements before the stride changes
  int64_t step() const { return strides.empty() ? 1 : strides.back(); }
  bool simple() const { return sizes.size() <= 1; }
  int64_t next_run() const { return simple() ? 1 : sizes[sizes.size() - 2]; }  // runs before the next change
  int64_t next_step() const { return simple() ? 0 : strides[strides.size() - 2]; }
};

Walk walk(const Sizes& sizes, const Sizes& strides) {
  if (product(sizes) == 0) return {};
  auto [merged_sizes, merged_strides] = merged(sizes, strides, [](int64_t n) { return n == 1; });
  return {merged_sizes, merged_strides};
}

std::string offset(const std::string& x, const Walk& w) {
  std::string text;
  for (size_t v = 0; v < w.sizes.size(); ++v)
    if (w.strides[v] != 0)
      text += fmt::format("{}{} * {}LL", text.empty() ? "" : " + ", digit(x, ir::sizes(w.sizes), v), w.strides[v]);
  return text.empty() ? "0" : text;
}

/// B's k in the order of its memory: `source` walks it, `place` gives the k that stands there. Strides are positive:
/// what runs backwards starts `shift` elements further down.
struct Source {
  Walk source, place;
  int64_t shift = 0, turned = 0;
};

Source source_of(const Spec& s) {
  struct Variable {
    int64_t size, stride, weight;
  };
  std::vector<Variable> all;
  Source r;
  int64_t weight = product(s.K);
  for (size_t v = 0; v < s.K.size(); ++v) {
    weight /= std::max<int64_t>(s.K[v], 1);
    int64_t stride = s.b.k_strides[v], own = weight;
    if (stride < 0) {
      r.shift += stride * (s.K[v] - 1), r.turned += own * (s.K[v] - 1);
      stride = -stride, own = -own;
    }
    all.push_back({s.K[v], stride, own});
  }
  if (s.b.fetch.empty()) std::stable_sort(all.begin(), all.end(), [](auto& x, auto& y) { return x.stride > y.stride; });
  Sizes sizes, strides, weights;
  for (const Variable& v : all) sizes.push_back(v.size), strides.push_back(v.stride), weights.push_back(v.weight);
  r.source = walk(sizes, strides), r.place = walk(sizes, weights);
  return r;
}

// ---- Forms ----

bool plain(const Spec& spec, const Operand& x) { return x.fetch.empty() && x.dtype == spec.dtype; }

bool in_order(const Source& s) { return s.place.simple() && s.place.step() == 1; }

Walk a_rows(const Spec& s) { return walk(s.M, s.a.i_strides); }
Walk a_depth(const Spec& s) { return walk(s.K, s.a.k_strides); }

/// Vectors of a strided operand run along its unit stride.
bool a_along_k(const Spec& s) {
  if (!s.a.fetch.empty()) return s.a.along_k;
  return a_depth(s).step() == 1 || a_rows(s).step() != 1 || product(s.M) == 1;
}
bool b_along_k(const Spec& s) {
  if (!s.b.fetch.empty()) return s.b.along_k;
  if (s.N == 1) return true;
  if (s.b.i_strides[0] == 1) return false;
  const Walk k = source_of(s).source;
  return k.step() == 1 && (k.simple() || k.run() >= 16);
}

std::string_view b_form(const Spec& s) {
  if (s.b.packed) return "B_PREPACKED";
  if (!plain(s, s.b)) return "B_PACKED";
  const Source b = source_of(s);
  using enum ir::Choices::Packing;
  if (!b.source.simple() || !in_order(b) || s.packing == always) return "B_PACKED";
  const int64_t M = product(s.M), K = product(s.K);
  if ((M <= kDotRows || s.N <= kDotRows) && K > 1 && b.source.step() == 1 && plain(s, s.a) && a_rows(s).simple() &&
      a_depth(s).simple() && a_depth(s).step() == 1)
    return "B_DOT";
  if (s.b.i_strides[0] == 1 && (M <= kFewRows || b.source.step() <= kDenseRow || s.packing == never)) return "B_DIRECT";
  return "B_PACKED";
}

/// Parts of K that are summed apart: where rows and columns alone give too few tasks.
int64_t splits(const Spec& s) {
  const int64_t M = product(s.M), K = product(s.K);
  const bool panels = M <= 512 && s.N >= 256;  // tasks enough, each with its own part of B
  const int64_t blocks = (M + 383) / 384 * ((s.N + 127) / 128);
  if (product(s.batch) != 1 || K < 4096 || panels || blocks >= 8 || M * s.N * ir::itemsize(s.dtype) > 1000000 ||
      b_form(s) == "B_DOT")
    return 1;
  return std::min<int64_t>(16, K / 1024);
}

int64_t b_batch(const Spec& s) {
  const bool shared = std::all_of(s.b.batch_strides.begin(), s.b.batch_strides.end(), [](int64_t x) { return x == 0; });
  return shared ? 1 : product(s.batch);
}

// ---- Text ----

/// What the preamble asks of an operand in memory: the address of an element, and how far its strides hold.
std::string memory_text(const Spec& s, const Operand& x, char name, char i_name, const Walk& i, const Walk& k,
                        int64_t shift) {
  const std::string_view type = scalar(x.dtype);
  std::string text = fmt::format("  typedef {} {}_type;\n", type, name);
  text += fmt::format(
      "  PRECAST_MEMBER const {0}* {1}_at(i64 b, i64 i, i64 k) const {{ return (const {0}*)({2}) + ({3}) + ({4}) + "
      "({5}) + {6}LL; }}\n",
      type, name, x.pointer, offset("b", walk(s.batch, x.batch_strides)), offset("i", i), offset("k", k), shift);
  for (const auto& [axis, w] : {std::pair{i_name, &i}, std::pair{'k', &k}})
    text += fmt::format(
        "  static constexpr i64 {0}_{1} = {2}LL, {0}_{1}_run = {3}LL, {0}_{1}2 = {4}LL, {0}_{1}2_run = {5}LL;\n", name,
        axis, w->step(), w->run(), w->next_step(), w->next_run());
  return text;
}

std::string fetch_text(const Operand& x, char name) {
  return fmt::format("  template <int W> PRECAST_MEMBER vec<T, W> {}(i64 b, i64 i, i64 k, int len) const {{ {} }}\n",
                     name, x.fetch);
}

std::string a_text(const Spec& s) {
  std::string text = fmt::format("  static constexpr bool a_along_k = {}, a_computed = {}, a_plain = {};\n",
                                 a_along_k(s), !s.a.fetch.empty(), plain(s, s.a));
  if (!s.a.fetch.empty()) return text + fetch_text(s.a, 'a');
  int64_t span = 1;  // elements between the first and the last
  for (const Walk& w : {a_rows(s), a_depth(s)})
    for (size_t v = 0; v < w.sizes.size(); ++v) span += (w.sizes[v] - 1) * std::abs(w.strides[v]);
  text += fmt::format("  static constexpr i64 a_span = {}LL;\n", span);
  return text + memory_text(s, s.a, 'a', 'm', a_rows(s), a_depth(s), 0);
}

std::string b_text(const Spec& s) {
  if (s.b.packed) return {};
  const Source source = source_of(s);
  std::string text = fmt::format("  static constexpr bool b_along_k = {}, b_computed = {}, b_in_order = {};\n",
                                 b_along_k(s), !s.b.fetch.empty(), in_order(source));
  text += fmt::format("  static constexpr i64 b_place(i64 k) {{ return {} + {}LL; }}\n", offset("k", source.place),
                      source.turned);
  if (!s.b.fetch.empty()) return text + fetch_text(s.b, 'b');
  return text + memory_text(s, s.b, 'b', 'n', walk({s.N}, s.b.i_strides), source.source, source.shift);
}

void check(const Spec& s) {
  PRECAST_CHECK(s.dtype == Dtype::f32 || s.dtype == Dtype::f64, "a product accumulates in f32 or f64");
  for (const Sizes* sizes : {&s.batch, &s.M, &s.K})
    for (const int64_t size : *sizes) PRECAST_CHECK(size >= 0, "negative size of a product");
  PRECAST_CHECK(s.N >= 0, "negative size of a product");
  PRECAST_CHECK(!s.a.packed, "only B can be packed beforehand");
}

/// The struct P that the preamble's templates work on; `member` holds what differs between kernel and packer.
std::string product_struct(const Spec& s, const std::string& name, const std::string& member) {
  std::string params;
  for (const GemmParam& p : s.params) params += fmt::format("  {} {};\n", p.type, p.name);
  return fmt::format(
      "struct {} {{\n  typedef {} T;\n{}"
      "  static constexpr i64 batch = {}LL, M = {}LL, N = {}LL, K = {}LL, b_batch = {}LL, splits = {}LL;\n"
      "  static constexpr i64 m_lanes = {}LL;\n  static constexpr bool along_m = m_lanes > 0;\n{}}};\n",
      name, scalar(s.dtype), params, product(s.batch), product(s.M), s.N, product(s.K), b_batch(s), splits(s),
      s.along_m && !s.M.empty() ? s.M.back() : 0, member);
}

int64_t packed_bytes(const Spec& s) {
  const int64_t columns = kWidestPanel / ir::itemsize(s.dtype), panels = (s.N + columns - 1) / columns;
  return b_batch(s) * panels * product(s.K) * kWidestPanel;
}

/// What the workspace holds: B in panels, then the sums of the splits.
int64_t own_packed_bytes(const Spec& s) { return b_form(s) == "B_PACKED" ? packed_bytes(s) : 0; }
int64_t sums_bytes(const Spec& s) {
  const int64_t columns = kWidestPanel / ir::itemsize(s.dtype), panels = (s.N + columns - 1) / columns;
  return splits(s) > 1 ? splits(s) * product(s.M) * panels * kWidestPanel : 0;
}

std::string joined(const std::vector<GemmParam>& params, bool types) {
  std::string text;
  for (const GemmParam& p : params)
    text += types ? fmt::format(", {} {}", p.type, p.name) : (text.empty() ? p.name : ", " + p.name);
  return text;
}

Operand known(const GemmOperand& x) {
  Operand o;
  o.pointer = x.pointer, o.dtype = x.dtype;
  o.batch_strides = ir::numbers(x.batch_strides), o.i_strides = ir::numbers(x.i_strides);
  o.k_strides = ir::numbers(x.k_strides);
  o.fetch = x.fetch, o.along_k = x.along_k, o.packed = x.packed;
  return o;
}
Spec known(const GemmSpec& x) {
  Spec s;
  s.name = x.name, s.params = x.params;
  s.batch = ir::numbers(x.batch), s.M = ir::numbers(x.M), s.K = ir::numbers(x.K), s.N = x.N;
  s.dtype = x.dtype, s.a = known(x.a), s.b = known(x.b), s.epilogue = x.epilogue, s.along_m = x.along_m;
  s.packing = x.packing;
  check(s);
  return s;
}

}  // namespace

std::string digit(const std::string& x, const ir::Dims& sizes, size_t variable) {
  ir::Size below = 1;
  for (size_t v = variable + 1; v < sizes.size(); ++v) below *= sizes[v];
  if (sizes.size() == 1) return x;
  if (ir::is_symbolic(sizes)) {
    std::string text = "(i64)((u64)" + x;
    if (below != 1) text += " / (u64)" + emit::text(below);
    if (variable > 0) text += " % (u64)" + emit::text(sizes[variable]);
    return text + ")";
  }
  const bool small = ir::product(sizes) < (int64_t{1} << 31);  // division of 32 bits is quicker
  std::string text = small ? "(i64)((u32)" + x : "(i64)((u64)" + x;
  if (below > 1) text += " / " + emit::text(below) + "u";
  if (variable > 0) text += " % " + emit::text(sizes[variable]) + "u";
  return text + ")";
}

bool gemm_is_sized(const GemmSpec& s) {
  bool sized = s.N.is_symbolic();
  for (const ir::Dims* d : {&s.batch, &s.M, &s.K, &s.a.batch_strides, &s.a.i_strides, &s.a.k_strides,
                            &s.b.batch_strides, &s.b.i_strides, &s.b.k_strides})
    sized |= ir::is_symbolic(*d);
  return sized;
}

ir::Size gemm_packed_bytes(const GemmSpec& s) { return packed_bytes(known(s)); }

ir::Size gemm_workspace_bytes(const GemmSpec& spec) {
  if (gemm_is_sized(spec)) return sized_workspace_bytes(spec);
  const Spec s = known(spec);
  return own_packed_bytes(s) + sums_bytes(s);
}

bool gemm_packs_b(const GemmSpec& s) { return !gemm_is_sized(s) && own_packed_bytes(known(s)) > 0; }

std::string gemm_kernel(const GemmSpec& spec) {
  if (gemm_is_sized(spec)) return sized_kernel(spec);
  const Spec s = known(spec);
  std::string member = fmt::format("  static constexpr b_form b_reads = {};\n", b_form(s)) + a_text(s) + b_text(s);
  member += fmt::format(
      "  template <int W> PRECAST_MEMBER void done(i64 b, i64 m, i64 n, vec<T, W> acc, int len) const {{\n{}\n  }}\n",
      s.epilogue);
  const std::string type = s.name + "_product";
  const std::string packed = s.b.packed ? fmt::format("({0}*)({1})", scalar(s.dtype), s.b.pointer)
                                        : fmt::format("({}*)workspace", scalar(s.dtype));
  return product_struct(s, type, member) +
         fmt::format(
             "void {}(const precast_host* host, char* workspace{}) {{\n  (void)workspace;\n"
             "  multiply(host, {}{{{}}}, {}, ({}*)(workspace + {}LL));\n}}\n",
             s.name, joined(s.params, true), type, joined(s.params, false), packed, scalar(s.dtype),
             own_packed_bytes(s));
}

std::string gemm_pack(const GemmSpec& original) {
  Spec s = known(original);
  s.b.packed = false;
  const std::string type = s.name + "_packing";
  std::string member =
      "  static constexpr b_form b_reads = B_PACKED;\n"
      "  static constexpr bool a_along_k = true, a_plain = false;\n";
  member += b_text(s);
  return product_struct(s, type, member) +
         fmt::format("void {}_pack(const precast_host* host, {}* packed{}) {{ pack(host, {}{{{}}}, packed); }}\n",
                     s.name, scalar(s.dtype), joined(s.params, true), type, joined(s.params, false));
}

}  // namespace precast::emit
