#define FMT_HEADER_ONLY
#include "emit/gemm.h"

#include <fmt/format.h>

#include <algorithm>

#include "util/errors.h"

namespace precast::emit {
namespace {

using ir::Dtype;

constexpr int64_t kFewRows = 12;    // rows up to which B is read as it is: packing would cost as much as it saves
constexpr int64_t kDenseRow = 128;  // elements between rows of B up to which reading it as it is stays cheap
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

bool plain(const GemmSpec& spec, const GemmOperand& x) { return x.fetch.empty() && x.dtype == spec.dtype; }

/// Vectors of a strided operand run along its unit stride.
bool along_k(const GemmOperand& x, int64_t i_size) {
  if (!x.fetch.empty()) return x.along_k;
  return x.k_stride == 1 || x.i_stride != 1 || i_size == 1;
}

/// Rows whose distance is a multiple of a page fall into one set of the first-level cache.
bool thrashes(int64_t stride, Dtype dtype) { return stride * ir::itemsize(dtype) % 2048 == 0; }

std::string_view a_form(const GemmSpec& s) {
  if (!plain(s, s.a)) return "A_COPIED";
  const bool few = s.M <= 2 || s.N <= 64;
  if (s.a.k_stride == 1 && (few || !thrashes(s.a.i_stride, s.dtype))) return "A_DIRECT_K";
  if (s.a.i_stride == 1 && few) return "A_DIRECT_M";
  return "A_COPIED";
}

std::string_view b_form(const GemmSpec& s) {
  if (s.b.packed) return "B_PREPACKED";
  if (!plain(s, s.b)) return "B_PACKED";
  if ((s.M <= kDotRows || s.N <= kDotRows) && s.K > 1 && s.b.k_stride == 1 && plain(s, s.a) && s.a.k_stride == 1)
    return "B_DOT";
  if (s.b.i_stride == 1 && (s.M <= kFewRows || s.b.k_stride <= kDenseRow)) return "B_DIRECT";
  return "B_PACKED";
}

int64_t b_batch(const GemmSpec& s) { return s.b.batch_stride == 0 ? 1 : s.batch; }

/// Body of a<W>() or b<W>().
std::string fetch_text(const GemmOperand& x, int64_t i_size) {
  if (!x.fetch.empty()) return x.fetch;
  const bool k = along_k(x, i_size);
  const int64_t step = k ? x.k_stride : x.i_stride;
  const std::string at = fmt::format("(const {}*)({}) + b * {}LL + i * {}LL + k * {}LL", scalar(x.dtype), x.pointer,
                                     x.batch_stride, x.i_stride, x.k_stride);
  return step == 1
             ? fmt::format("return convert<T, W>(load<{}, W>({}, len));", scalar(x.dtype), at)
             : fmt::format("return convert<T, W>(load_strided<{}, W>({}, {}LL, len));", scalar(x.dtype), at, step);
}

std::string operand_text(const GemmSpec& s, const GemmOperand& x, char name, char i_name, int64_t i_size) {
  std::string text = fmt::format("  static constexpr bool {}_along_k = {};\n", name, along_k(x, i_size));
  if (!x.packed)
    text += fmt::format("  template <int W> PRECAST_MEMBER vec<T, W> {}(i64 b, i64 i, i64 k, int len) const {{ {} }}\n",
                        name, fetch_text(x, i_size));
  if (plain(s, x) && !x.packed) {
    text +=
        fmt::format("  static constexpr i64 {}_{} = {}LL, {}_k = {}LL;\n", name, i_name, x.i_stride, name, x.k_stride);
    text += fmt::format(
        "  PRECAST_MEMBER const T* {}_at(i64 b, i64 i, i64 k) const {{ return (const T*)({}) + b * {}LL + i * {}LL + k "
        "* {}LL; }}\n",
        name, x.pointer, x.batch_stride, x.i_stride, x.k_stride);
  }
  return text;
}

void check(const GemmSpec& s) {
  PRECAST_CHECK(s.dtype == Dtype::f32 || s.dtype == Dtype::f64, "a product accumulates in f32 or f64");
  PRECAST_CHECK(s.batch >= 0 && s.M >= 0 && s.N >= 0 && s.K >= 0, "negative size of a product");
  PRECAST_CHECK(!s.a.packed, "only B can be packed beforehand");
}

/// The struct P that the preamble's templates work on; `member` holds what differs between kernel and packer.
std::string product_struct(const GemmSpec& s, const std::string& name, const std::string& member) {
  std::string params;
  for (const GemmParam& p : s.params) params += fmt::format("  {} {};\n", p.type, p.name);
  return fmt::format(
      "struct {} {{\n  typedef {} T;\n{}"
      "  static constexpr i64 batch = {}LL, M = {}LL, N = {}LL, K = {}LL, b_batch = {}LL;\n{}}};\n",
      name, scalar(s.dtype), params, s.batch, s.M, s.N, s.K, b_batch(s), member);
}

std::string joined(const std::vector<GemmParam>& params, bool types) {
  std::string text;
  for (const GemmParam& p : params)
    text += types ? fmt::format(", {} {}", p.type, p.name) : (text.empty() ? p.name : ", " + p.name);
  return text;
}

}  // namespace

int64_t gemm_packed_bytes(const GemmSpec& s) {
  const int64_t columns = kWidestPanel / ir::itemsize(s.dtype), panels = (s.N + columns - 1) / columns;
  return b_batch(s) * panels * s.K * kWidestPanel;
}

int64_t gemm_workspace_bytes(const GemmSpec& s) { return b_form(s) == "B_PACKED" ? gemm_packed_bytes(s) : 0; }

std::string gemm_kernel(const GemmSpec& s) {
  check(s);
  std::string member = fmt::format("  static constexpr a_form a_reads = {};\n  static constexpr b_form b_reads = {};\n",
                                   a_form(s), b_form(s));
  member += operand_text(s, s.a, 'a', 'm', s.M) + operand_text(s, s.b, 'b', 'n', s.N);
  member += fmt::format(
      "  template <int W> PRECAST_MEMBER void done(i64 b, i64 m, i64 n, vec<T, W> acc, int len) const {{\n{}\n  }}\n",
      s.epilogue);
  const std::string type = s.name + "_product";
  const std::string packed = s.b.packed ? fmt::format("({0}*)({1})", scalar(s.dtype), s.b.pointer)
                                        : fmt::format("({}*)workspace", scalar(s.dtype));
  return product_struct(s, type, member) + fmt::format(
                                               "void {}(const precast_host* host, char* workspace{}) {{\n  "
                                               "(void)workspace;\n  multiply(host, {}{{{}}}, {});\n}}\n",
                                               s.name, joined(s.params, true), type, joined(s.params, false), packed);
}

std::string gemm_pack(const GemmSpec& original) {
  GemmSpec s = original;
  s.b.packed = false;
  check(s);
  const std::string type = s.name + "_packing";
  std::string member =
      "  static constexpr a_form a_reads = A_COPIED;\n  static constexpr b_form b_reads = B_PACKED;\n"
      "  static constexpr bool a_along_k = true;\n";
  member += operand_text(s, s.b, 'b', 'n', s.N);
  return product_struct(s, type, member) +
         fmt::format("void {}_pack(const precast_host* host, {}* packed{}) {{ pack(host, {}{{{}}}, packed); }}\n",
                     s.name, scalar(s.dtype), joined(s.params, true), type, joined(s.params, false));
}

}  // namespace precast::emit
