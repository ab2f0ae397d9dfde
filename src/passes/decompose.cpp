// Runs each node's rule, and makes the values it gives meet the recorded types exactly. An in-place or out=
// node is its functional twin, and what it wrote is the twin's result in the written operand's type.
#include <algorithm>
#include <unordered_map>

#include "passes/complex.h"
#include "passes/forms.h"
#include "passes/passes.h"
#include "passes/rules.h"
#include "util/errors.h"

namespace precast::passes {
namespace {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::Type;
using ir::ValueId;

bool is_lowered(const Type& t) {
  using D = ir::Dtype;
  bool number = ir::is_float(t.dtype) || t.dtype == D::b8 || (t.dtype >= D::u8 && t.dtype <= D::i64);
  bool pair = t.dtype == D::c64 || t.dtype == D::c128;
  return (pair || (number && !t.conj)) && !t.neg && t.device.type == 0;
}

}  // namespace

class Decomposer {
 public:
  Decomposer(const Graph& g, const Node& n, const Origins* origins = nullptr)
      : builder(g, origins), node_(n), op_(builder, n) {}

  /// Fills builder.nodes and `values`: (recorded, new) pairs. Throws Declined.
  void run() {
    try {
      rewrite();
    } catch (const ir::Undecided& u) {
      decline("dynamic size: " + u.expression);
    }
  }

  Builder builder;
  std::vector<std::pair<ValueId, ValueId>> values;

 private:
  void rewrite() {
    if (!node_.shared.empty()) return run_shared();
    for (const ir::Out& o : node_.outs)
      if (!std::holds_alternative<std::monostate>(o.expect)) decline("its result is a number");
    const auto find = has_complex() ? find_complex_rule : find_rule;
    // The writes that take results: that of self in an in-place form, the last ones in an out= form.
    size_t first = 0, count = 0;
    if (!find(node_.op) && !node_.writes.empty()) {
      std::string twin;
      if (written_arg(0) == "self") twin = in_place_twin(node_.op), count = 1;
      if (!find(twin)) twin = out_twin(node_.op, find), first = first_out_form(), count = node_.writes.size() - first;
      if (twin.empty()) count = 0;
      op_.row_ = twin;
      for (size_t i = 0; i < count; ++i) op_.wanted_.push_back(builder.type(node_.writes[first + i].value));
    }
    apply(find(op_.name()), op_);
    for (size_t i = 0; i < node_.outs.size() && count == 0; ++i) add_out(node_.outs[i], i);
    for (size_t i = 0; i < node_.writes.size(); ++i)
      add_write(i, i >= first && i < first + count ? op_.result_at(i - first) : op_.writes_[i]);
  }

  void apply(Rule rule, Op& op) {
    if (!rule) decline(has_complex() ? "complex numbers" : "no lowering rule");
    ir::for_each_operand(node_, [&](ir::Slot, ValueId id) {
      if (id != kNoValue) check_lowered(id);
    });
    for (ValueId id : ir::defined_values(node_)) check_lowered(id);
    rule(op);
  }
  bool has_complex() const { return passes::has_complex(builder, node_); }
  std::string_view written_arg(size_t i) const {
    return node_.args[static_cast<size_t>(node_.writes[i].slot.arg)].name;
  }
  // The arguments of an out= form that take results are the last ones.
  size_t first_out_form() const {
    size_t n = node_.writes.size(), arg = node_.args.size();
    while (n > 0 && node_.writes[n - 1].slot.arg == static_cast<int>(arg) - 1) --n, --arg;
    return n;
  }

  // An op in place whose other operands show the same memory: it reads what was there before, so it is its twin, if no
  // element that it writes stands at another place of an operand.
  void run_shared() {
    const std::string both = "operands share memory and one of them is written";
    if (node_.shared.size() != 1 || !node_.writes.empty()) decline(both);
    for (const ir::Out& o : node_.outs)
      if (o.id != kNoValue || o.is_list || !std::holds_alternative<std::monostate>(o.expect)) decline(both);
    const ir::Shared& s = node_.shared[0];
    const ir::Shared::View* self = nullptr;
    for (const ir::Shared::View& v : s.views)
      if (node_.args[static_cast<size_t>(v.slot.arg)].name == "self") self = &v;
    const Type& base = builder.type(s.base);
    if (!self || self->type.dtype != base.dtype || !written_apart(s, *self)) decline(both);
    Node before = node_;  // the op on the windows as they were
    before.shared.clear();
    for (const ir::Shared::View& v : s.views) {
      ir::Ref window{builder.view(builder.value(s.base), v.type, v.offset_bytes).id};
      ir::Attr& a = before.args[static_cast<size_t>(v.slot.arg)].value;
      if (auto* list = std::get_if<std::vector<ir::Ref>>(&a))
        (*list)[static_cast<size_t>(v.slot.item)] = window;
      else
        a = window;
    }
    Op op(builder, before);
    op.row_ = in_place_twin(node_.op);
    apply((has_complex() ? find_complex_rule : find_rule)(op.row_), op);
    Val v = op.result_at(0);
    if (!v) decline("the rule does not give what the op writes");
    v = expand(converted(v, base.dtype), self->type.sizes);
    add(s.value, written(builder.value(s.base), v, self->offset_bytes, self->type.strides));
  }

  bool written_apart(const ir::Shared& s, const ir::Shared::View& self) const {
    constexpr int64_t kMost = int64_t{1} << 26;
    int64_t bytes = builder.type(s.base).span_bytes();
    if (bytes > kMost) return false;
    std::vector<bool> written(static_cast<size_t>(bytes));
    bool apart = true;
    auto each = [&](const ir::Shared::View& v, auto f) {
      int64_t size = ir::itemsize(v.type.dtype);
      for_each_offset(v.type, [&](int64_t element) {
        for (int64_t i = 0; i < size; ++i) f(static_cast<size_t>(v.offset_bytes + element * size + i));
      });
    };
    each(self, [&](size_t i) {
      apart = apart && !written[i];
      written[i] = true;
    });
    for (const ir::Shared::View& v : s.views)
      if (v.offset_bytes != self.offset_bytes || v.type != self.type)
        each(v, [&](size_t i) { apart = apart && !written[i]; });
    return apart;
  }

  template <class F>
  static void for_each_offset(const Type& t, F f, size_t d = 0, int64_t at = 0) {
    if (d == t.sizes.size()) return f(at);
    for (int64_t i = 0; i < t.sizes[d]; ++i) for_each_offset(t, f, d + 1, at + i * t.strides[d]);
  }

  void check_lowered(ValueId id) const {
    const Type& t = builder.type(id);
    if (!is_lowered(t)) decline("values of type " + ir::to_string(t) + " are not lowered");
  }

  void add(ValueId recorded, Val v) {
    if (!v) decline("the rule does not give one of its results");
    values.emplace_back(recorded, v.id);
  }

  void add_out(const ir::Out& o, size_t i) {
    const std::vector<Val>& given = op_.outs_[i];
    auto meet = [&](ValueId id, size_t k) {
      if (id != kNoValue) add(id, k < given.size() ? met(given[k], builder.type(id)) : Val{});
    };
    if (!o.is_list) return meet(o.id, 0);
    for (size_t k = 0; k < o.list.size(); ++k) meet(o.list[k].id, k);
  }

  void add_write(size_t i, Val v) {
    if (!v) decline("the rule does not give what the op writes");
    const ir::Write& w = node_.writes[i];
    const ir::Attr& a = node_.args[static_cast<size_t>(w.slot.arg)].value;
    auto* list = std::get_if<std::vector<ir::Ref>>(&a);
    Val before = builder.value(list ? (*list)[static_cast<size_t>(w.slot.item)].id : std::get<ir::Ref>(a).id);
    const Type& want = builder.type(w.value);
    if (want != before.type()) decline("the op changes the geometry of what it writes");
    v = expand(converted(v, want.dtype), want.sizes);
    add(w.value, is_dense(want) ? met(v, want) : written(before, v, 0, want.strides));
  }

  static Val written(Val base, Val v, int64_t offset, const Dims& strides) {
    return (ir::is_complex(v.dtype()) ? complex_scatter : scatter_window)(base, v, offset, strides);
  }

  // v in exactly this type.
  Val met(Val v, const Type& want) {
    if (!v) return v;
    if (v.dtype() != want.dtype || v.sizes() != want.sizes)
      decline("the rule gives " + ir::to_string(v.type()) + " for " + ir::to_string(want));
    if (v.type() == want) return v;
    if (same_layout(want.sizes, v.type().strides, want.strides)) return builder.view(v, want);
    if (!is_dense(want)) return with_gaps(v, want);
    if (can_take_any_layout(v)) {
      builder.added_type(v.id).strides = want.strides;
      return v;
    }
    return ir::is_complex(v.dtype()) ? complex_copy(v, want.strides) : copy(v, want.strides);
  }

  // A copy of a window keeps its strides: the window of as many elements.
  Val with_gaps(Val v, const Type& want) {
    if (overlaps(want)) decline("the result overlaps itself");
    const int64_t n = want.span_bytes() / ir::itemsize(want.dtype);
    Val all = converted(builder.full({n}, 0, part_of(want.dtype)), want.dtype);
    return builder.view(written(all, v, 0, want.strides), want);
  }

  // A pointwise node of this rule makes v, and nothing else reads it.
  bool can_take_any_layout(Val v) const {
    bool made_here = false;
    for (const Node& n : builder.nodes) {
      made_here |= n.outs[0].id == v.id && (core_family(n.op) == Family::pointwise || n.op == "aten::full");
      bool reads = false;
      ir::for_each_operand(n, [&](ir::Slot, ValueId id) { reads |= id == v.id; });
      if (reads) return false;
    }
    return made_here && std::ranges::none_of(values, [&](auto& pair) { return pair.second == v.id; });
  }

  const Node& node_;
  Op op_;
};

namespace {

// The rule's nodes that its results need, operands first, left to right. (A formula appends them in an order that C++
// leaves open.)
std::vector<Node> needed(Builder& b, const std::vector<std::pair<ValueId, ValueId>>& results) {
  std::unordered_map<ValueId, Node*> makers;
  for (Node& n : b.nodes)
    for (const ir::Out& o : n.outs) makers[o.id] = &n;
  std::vector<Node> ordered;
  auto visit = [&](auto& self, ValueId id) -> void {
    auto it = makers.find(id);
    if (it == makers.end()) return;
    Node* n = it->second;
    for (const ir::Out& o : n->outs) makers.erase(o.id);
    ir::for_each_operand(*n, [&](ir::Slot, ValueId operand) { self(self, operand); });
    ordered.push_back(std::move(*n));
  };
  for (auto [recorded, made] : results) visit(visit, made);
  return ordered;
}

}  // namespace

void decompose(Graph& g) {
  std::vector<ValueId> now(g.values.size());
  for (size_t i = 0; i < now.size(); ++i) now[i] = static_cast<ValueId>(i);
  auto rename = [&](ValueId& id) {
    if (id != kNoValue) id = now[static_cast<size_t>(id)];
  };
  std::vector<Node> nodes;
  Origins origins;
  for (Node& n : g.nodes) {
    ir::for_each_operand(n, [&](ir::Slot, ValueId& id) { rename(id); });
    for (ir::Shared& s : n.shared) rename(s.base);
    Decomposer d(g, n, &origins);
    if (n.op.starts_with("prim::") && !(n.op == "prim::scatter" && has_complex(d.builder, n))) {
      nodes.push_back(std::move(n));
      continue;
    }
    try {
      d.run();
    } catch (const Declined&) {
      nodes.push_back(std::move(n));
      continue;
    }
    for (ir::Value& v : d.builder.added) {
      now.push_back(static_cast<ValueId>(g.values.size()));
      g.values.push_back(std::move(v));
    }
    for (Node& made : needed(d.builder, d.values)) nodes.push_back(std::move(made));
    for (auto [recorded, made] : d.values) now[static_cast<size_t>(recorded)] = made;
    for (size_t i = 0; i < n.outs.size(); ++i)
      if (n.outs[i].id != kNoValue) origins[now[static_cast<size_t>(n.outs[i].id)]] = {n, i};
  }
  for (ValueId& id : g.outputs) rename(id);
  g.nodes = std::move(nodes);
}

std::string why_kept(const Graph& g, const Node& n) {
  if (n.op.starts_with("prim::")) return {};
  try {
    Decomposer(g, n).run();
  } catch (const Declined& d) {
    return d.why;
  }
  return {};
}

}  // namespace precast::passes
