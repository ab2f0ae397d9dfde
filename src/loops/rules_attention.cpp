// Attention that never stores its scores, and its backward. The depth of a head is a number, other sizes may be open.
#include <algorithm>
#include <cmath>

#include "loops/lowering.h"

namespace precast::loops {

namespace {

using ir::Dtype;

Size padded(const Size& n, int64_t to) { return ir::floor_div(n + (to - 1), to) * to; }

/// Sizes and strides by the names that the preamble's routines know.
struct Attention {
  Attention(Lowering& l, const ir::Node& n) : l(l), n(n) {}

  bool refused() {
    const ir::Type &q = l.type(tensor(n, "query")), &k = l.type(tensor(n, "key")), &v = l.type(tensor(n, "value"));
    if (q.dtype != Dtype::f32 && q.dtype != Dtype::f64) return !l.refuse("attention of another dtype than f32, f64");
    if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || q.sizes[1] != k.sizes[1] || q.sizes[3] != v.sizes[3])
      return !l.refuse("attention of tensors of other sizes than [batch, heads, length, depth]");
    if (q.sizes[3].is_symbolic() || q.sizes[3] == 0 || q.sizes[3] > 256)
      return !l.refuse("a head of " + ir::to_string(q.sizes[3]) + " numbers");
    if (number(n, "dropout_p") != 0) return !l.refuse("attention with dropout");
    for (const ir::Out& o : n.outs) {
      if (o.id == ir::kNoValue) return !l.refuse("attention without one of its results");
      const ir::Type& t = l.type(o.id);
      if (t.dtype != q.dtype || (t.dim() == 4 && t.sizes[3] > 1 && t.strides[3] != 1))
        return !l.refuse("attention into another dtype or layout");
    }
    r.dtype = q.dtype;
    r.sizes = {{"batch", q.sizes[0]}, {"heads", q.sizes[1]}, {"Tq", q.sizes[2]},
               {"Tk", k.sizes[2]},    {"D", q.sizes[3]},     {"causal", flag(n, "is_causal")}};
    r.sizes.emplace_back("Tq_low", q.sizes[2].lower());
    r.sizes.emplace_back("Tq_high", bound(q.sizes[2]));
    r.sizes.emplace_back("Tk_high", bound(k.sizes[2]));
    const ir::Attr* scale = n.find("scale");
    const bool given = scale && !std::holds_alternative<std::monostate>(*scale);
    r.reals = {{"scale", given ? number(n, "scale") : 1 / std::sqrt(static_cast<double>(q.sizes[3]))}};
    const ir::Attr* mask = n.find("attn_mask");
    const bool masked = mask && std::holds_alternative<ir::Ref>(*mask) && std::get<ir::Ref>(*mask).id != ir::kNoValue;
    r.sizes.emplace_back("masked", masked);
    if (masked) return add_mask(std::get<ir::Ref>(*mask).id);
    for (const char* name : {"m_b", "m_h", "m_q", "m_k"}) r.sizes.emplace_back(name, 0);
    return false;
  }

  void read(const char* name, ir::ValueId v) {
    Dims strides = l.type(v).strides;
    reads.push_back(strides.size() < 4 ? l.operand(v) : l.rows(v, strides));
    note(name, strides);
    r.reads.push_back({name, l.type(v).dtype});
  }
  /// A result in the recorded layout.
  void write(const char* name, size_t out) {
    const ir::ValueId v = n.outs[out].id;
    writes.push_back(l.make_buffer(v));
    note(name, l.type(v).strides);
    r.writes.push_back({name, l.type(v).dtype});
  }
  void done(const char* what) { l.add_routine(what, std::move(r), std::move(reads), std::move(writes)); }

  Lowering& l;
  const ir::Node& n;
  Routine r;
  std::vector<HostOperand> reads;
  std::vector<BufferId> writes;

  Size size(const char* name) const {
    return std::find_if(r.sizes.begin(), r.sizes.end(), [&](auto& s) { return s.first == name; })->second;
  }
  double products(double count) const {  // flops of so many products of all rows with all keys
    return 2 * count * static_cast<double>((size("batch") * size("heads") * size("Tq")).hint()) *
           static_cast<double>((size("Tk") * size("D")).hint()) / (size("causal") == 0 ? 1 : 2);
  }

 private:
  /// So large that tiles and blocks are whole ones anyway.
  static int64_t bound(const Size& length) { return std::clamp<int64_t>(length.upper(), 1, 1 << 20); }

  void note(const std::string& name, const Dims& strides) {
    r.sizes.emplace_back(name + "_b", strides[0]);
    r.sizes.emplace_back(name + "_h", strides[1]);
    r.sizes.emplace_back(name + "_t", strides[2]);
  }

  bool add_mask(ir::ValueId v) {
    const ir::Type& t = l.type(v);
    if (t.dtype != r.dtype || (t.dim() != 2 && t.dim() != 4)) return !l.refuse("a mask of another dtype or rank");
    Dims strides;
    reads.push_back(l.rows(v, strides));
    r.reads.push_back({"mask", t.dtype});
    const std::pair<const char*, Size> dims[] = {
        {"m_b", size("batch")}, {"m_h", size("heads")}, {"m_q", size("Tq")}, {"m_k", size("Tk")}};
    for (size_t d = 0; d < 4; ++d) {
      const auto& [name, whole] = dims[d];
      const size_t missing = 4 - t.sizes.size();
      const bool repeats = d < missing || t.sizes[d - missing] == 1;
      if (!repeats && t.sizes[d - missing] != whole) return !l.refuse("a mask whose sizes are open apart");
      r.sizes.emplace_back(name, repeats ? Size(0) : d == 3 ? Size(1) : strides[d - missing]);
    }
    return false;
  }
};

bool attention(Lowering& l, const ir::Node& n) {
  Attention a(l, n);
  if (a.refused()) return false;
  a.read("q", tensor(n, "query")), a.read("k", tensor(n, "key")), a.read("v", tensor(n, "value"));
  a.write("o", 0), a.write("l", 1);
  const Size heads = a.size("batch") * a.size("heads"), tk = a.size("Tk"), d = a.size("D");
  a.r.function = "attention";
  a.r.workspace_bytes = ir::max(heads * ir::itemsize(a.r.dtype) * (padded(tk, 32) * d + tk * (padded(d, 16) + 16)), 64);
  a.r.flops = a.products(2);
  a.done("attention");
  return true;
}

/// Keys of a block: what is kept of it stays in the second-level cache.
int64_t key_block(int64_t d) { return d <= 64 ? 128 : d <= 128 ? 64 : 32; }

bool attention_backward(Lowering& l, const ir::Node& n) {
  Attention a(l, n);
  if (a.refused()) return false;
  a.read("g", tensor(n, "grad_out"));
  a.read("q", tensor(n, "query")), a.read("k", tensor(n, "key")), a.read("v", tensor(n, "value"));
  a.read("o", tensor(n, "out")), a.read("l", tensor(n, "logsumexp"));
  a.write("dq", 0), a.write("dk", 1), a.write("dv", 2);
  const Size heads = a.size("batch") * a.size("heads"), tq = a.size("Tq"), d = a.size("D");
  const Size blocks = ir::floor_div(a.size("Tk") + (key_block(d) - 1), key_block(d));
  // Gradients of the queries are sums over the keys. Few heads are split by keys, and the parts added up.
  const bool open = (heads * tq * blocks).is_symbolic();
  const Size wanted = open || a.products(5) > 2e6 ? ir::floor_div(15 + heads, ir::max(heads, 1)) : Size(1);
  const Size parts = ir::max(ir::min(wanted, blocks), 1);
  a.r.function = "attention_backward";
  a.r.sizes.emplace_back("key_block", key_block(d));
  a.r.sizes.emplace_back("parts", parts);
  a.r.workspace_bytes = ir::max(heads * ir::itemsize(a.r.dtype) * (tq + parts * (tq + 7) * padded(d, 16)), 64);
  a.r.flops = a.products(5);
  a.done("attention_backward");
  return true;
}

}  // namespace

void add_attention_rules(Rules& rules) {
  rules["aten::_scaled_dot_product_flash_attention_for_cpu"] = attention;
  rules["aten::_scaled_dot_product_flash_attention_for_cpu_backward"] = attention_backward;
}

}  // namespace precast::loops
