// Layouts inside the graph are free: only its inputs and outputs, and what the host or a window on bytes sees, have the
// recorded strides. Contractions leave channels last, and what is computed from them element by element follows, so
// that no transposing copy stands between two of them.
#include <algorithm>
#include <numeric>

#include "passes/layout.h"
#include "passes/passes.h"

namespace precast::passes {
namespace {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::Ref;
using ir::Type;
using ir::ValueId;

ValueId operand(const Node& n, const char* arg) {
  const ir::Attr* a = n.find(arg);
  auto* r = a ? std::get_if<Ref>(a) : nullptr;
  return r ? r->id : kNoValue;
}

/// Dense strides for `sizes` in the order of the strides of `like`, which has as many dims.
Dims strides_like(const Dims& sizes, const Type& like) {
  Type t = like;
  t.sizes = sizes;
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return ir::roughly_less(like.strides[b], like.strides[a]); });
  Dims strides(sizes.size());
  Size next = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = next;
    if (sizes[order[i]] != 0) next *= sizes[order[i]];
  }
  return strides;
}

/// A window on the bytes of a dense tensor, as the same elements of the tensor in another layout.
class Remap {
 public:
  Remap(const Type& from, const Type& to) : from_(from), to_(to), start_(from.sizes.size()), used_(from.sizes.size()) {
    for (size_t d = 0; d < from.sizes.size(); ++d)
      if (from.sizes[d] != 1 && from.sizes[d] != 0) order_.push_back(d);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return ir::roughly_less(from.strides[b], from.strides[a]); });
  }

  /// Rewrites type and offset (in bytes); false where the elements are not one window of the other layout.
  bool run(Type& window, Size& offset) {
    try {
      return rewrite(window, offset);
    } catch (const ir::Undecided&) {
      return false;
    }
  }

 private:
  bool rewrite(Type& window, Size& offset) {
    const int64_t size = ir::itemsize(from_.dtype);
    if (window.dtype != from_.dtype || !is_dense(from_) || window.numel() == 0 || offset % size != 0) return false;
    int64_t rest = offset / size, moved = 0;
    for (const size_t d : order_) {
      start_[d] = rest / from_.strides[d];
      rest %= from_.strides[d];
      moved += start_[d] * to_.strides[d];
    }
    if (rest != 0) return false;
    for (size_t d = 0; d < window.sizes.size(); ++d)
      if (window.sizes[d] > 1 && window.strides[d] != 0 && !step(window.sizes[d], window.strides[d])) return false;
    for (const size_t d : order_)
      if (start_[d] + used_[d] >= from_.sizes[d]) return false;
    offset = moved * size;
    return true;
  }

  /// The stride of `count` elements in the other layout.
  bool step(int64_t count, Size& stride) {
    int64_t rest = stride, moved = 0;
    std::vector<std::pair<size_t, int64_t>> digits;
    for (size_t i = 0; i < order_.size(); ++i) {
      const size_t d = order_[i];
      if (rest < from_.strides[d]) continue;
      digits.emplace_back(i, rest / from_.strides[d]);
      moved += digits.back().second * to_.strides[d];
      rest %= from_.strides[d];
    }
    if (rest != 0 || digits.empty()) return false;
    stride = moved;
    if (digits.size() == 1) return walk(digits[0].first, digits[0].second, count);
    for (const auto& [i, q] : digits) used_[order_[i]] += q * (count - 1);
    return true;
  }

  /// `count` steps of q along a dim; more than it has go on in the next dim out, if both layouts agree on that.
  bool walk(size_t i, int64_t q, int64_t count) {
    const size_t d = order_[i];
    if (start_[d] + used_[d] + q * (count - 1) < from_.sizes[d]) {
      used_[d] += q * (count - 1);
      return true;
    }
    if (i == 0 || start_[d] != 0 || used_[d] != 0 || from_.sizes[d] % q != 0) return false;
    const int64_t inside = from_.sizes[d] / q;
    if (count % inside != 0 || to_.strides[order_[i - 1]] != to_.strides[d] * from_.sizes[d]) return false;
    used_[d] = q * (inside - 1);
    return walk(i - 1, 1, count / inside);
  }

  const Type &from_, &to_;
  std::vector<size_t> order_;  // dims of more than one element, outermost first
  Dims start_, used_;          // by dim: where the window starts, how far it reaches
};

/// Rows apart by a little more where they begin whole pages apart: equal places of such rows share the sets of a cache.
Dims padded_rows(const Type& t) {
  constexpr int64_t kPage = 4096, kLine = 64, kFewRows = 8;
  const int64_t size = ir::itemsize(t.dtype);
  size_t row = t.sizes.size();
  for (size_t d = 0; d < t.sizes.size(); ++d)
    if (t.strides[d] > 1 && t.sizes[d] > 1 && (row == t.sizes.size() || t.strides[d] < t.strides[row])) row = d;
  if (row == t.sizes.size() || t.strides[row] * size % kPage != 0 || t.numel() < kFewRows * t.strides[row])
    return t.strides;
  Dims strides = t.strides;
  for (Size& s : strides)
    if (s >= t.strides[row]) s = ir::floor_div(s, t.strides[row]) * (t.strides[row] + kLine / size);
  return strides;
}

class Relayout {
 public:
  Relayout(Graph& g, bool padded)
      : g_(g), padded_(padded), free_(g.values.size(), kNoValue), made_(g.values.size()), follows_(g.values.size()) {
    for (const ValueId v : g.inputs) made_[index(v)] = true;
  }

  void run() {
    for (Node& n : g_.nodes) place(n);
    for (const ValueId v : g_.outputs) need(v);
    g_.nodes = std::move(nodes_);
  }

 private:
  static size_t index(ValueId v) { return static_cast<size_t>(v); }
  const Type& type(ValueId v) const { return g_.type(v); }

  ValueId add(const Type& t) {
    const ValueId v = g_.add_value(t);
    free_.push_back(kNoValue), made_.push_back(true), follows_.push_back(false);
    return v;
  }
  void push(Node n) {
    for (const ValueId v : ir::defined_values(n)) made_[index(v)] = true;
    nodes_.push_back(std::move(n));
  }

  /// The value in whatever layout it has.
  ValueId any(ValueId v) const { return v != kNoValue && free_[index(v)] != kNoValue ? free_[index(v)] : v; }
  /// Makes the value in its recorded layout.
  void need(ValueId v) {
    if (v == kNoValue || made_[index(v)]) return;
    Node copy{"aten::clone", {{"self", Ref{free_[index(v)]}}, {"memory_format", {}}}, {}, {}, {}};
    copy.outs.emplace_back().id = v;
    push(std::move(copy));
  }

  void place(Node& n) {
    const auto family = core_family(n.op);
    if (n.op == "prim::view") return view(n);
    if (!reads_elements(n)) {
      ir::for_each_operand(n, [&](ir::Slot, ValueId v) { need(v); });
      for (const ir::Shared& s : n.shared) need(s.base);
      return push(std::move(n));
    }
    ir::for_each_operand(n, [&](ir::Slot, ValueId& v) { v = any(v); });
    const ValueId out = n.outs.size() == 1 ? n.outs[0].id : kNoValue;
    if (out == kNoValue) return push(std::move(n));
    if (n.op == "aten::clone") return clone(n);
    const ValueId leader = leading_operand(n, type(out));
    if (n.op == "aten::einsum" || (leader != kNoValue && family == Family::reduction)) follows_[index(out)] = true;
    if (family == Family::matrix && padded_) return lay_out(n, type(out).strides);
    const bool pointwise = family == Family::pointwise, moves = n.op == "aten::cat" || n.op == "aten::constant_pad_nd";
    if (leader == kNoValue || !(pointwise || moves)) return push(std::move(n));
    lay_out(n, strides_like(type(out).sizes, type(leader)));
  }

  /// The first operand that came out of a contraction and has the result's dims (pointwise: its sizes).
  ValueId leading_operand(const Node& n, const Type& result) const {
    ValueId found = kNoValue;
    const auto family = core_family(n.op);
    ir::for_each_operand(n, [&](ir::Slot, ValueId v) {
      if (found != kNoValue || v == kNoValue || !follows_[index(v)]) return;
      const Dims& sizes = type(v).sizes;
      if (family == Family::pointwise ? sizes == result.sizes
                                      : family == Family::reduction || sizes.size() == result.sizes.size())
        found = v;
    });
    return found;
  }

  /// The node with its result in these strides.
  void lay_out(Node& n, const Dims& strides) {
    const ValueId out = n.outs[0].id;
    Type t = type(out);
    t.strides = strides;
    if (padded_) t.strides = padded_rows(t);
    follows_[index(out)] = true;
    if (!same_layout(t.sizes, t.strides, type(out).strides)) {
      n.outs[0].id = add(t);
      free_[index(out)] = n.outs[0].id;
      follows_[index(n.outs[0].id)] = true;
    }
    push(std::move(n));
  }

  /// A copy into another layout is no copy any more, unless it asks for its layout.
  void clone(Node& n) {
    const ValueId from = operand(n, "self"), out = n.outs[0].id;
    const auto* format = std::get_if<int64_t>(n.find("memory_format"));
    if (format) {
      follows_[index(out)] = true;
      return push(std::move(n));
    }
    if (!follows_[index(from)]) return push(std::move(n));
    if (!is_dense(type(from))) return lay_out(n, strides_like(type(from).sizes, type(from)));
    free_[index(out)] = from;
    follows_[index(out)] = true;
  }

  void view(Node& n) {
    const ValueId base = operand(n, "base"), now = any(base), out = n.outs[0].id;
    Type t = type(out);
    Size offset = *ir::as_size(*n.find("offset"));
    if (now != base && Remap(type(base), type(now)).run(t, offset)) {
      n.args = {{"base", Ref{now}}, {"offset", offset}};
      if (t != type(out)) n.outs[0].id = add(t), free_[index(out)] = n.outs[0].id;
      follows_[index(out)] = follows_[index(n.outs[0].id)] = true;
    } else {
      need(base);
      follows_[index(out)] = follows_[index(base)] && now == base;
    }
    push(std::move(n));
  }

  Graph& g_;
  const bool padded_;
  std::vector<ValueId> free_;  // by value: the one that holds its elements in another layout
  std::vector<bool> made_;     // by value: a node makes it, in its recorded layout
  std::vector<bool> follows_;  // by value: its layout goes back to a contraction
  std::vector<Node> nodes_;
};

}  // namespace

void relayout(Graph& g, bool padded) { Relayout(g, padded).run(); }

}  // namespace precast::passes
