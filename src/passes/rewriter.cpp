#include "passes/rewriter.h"

#include <numeric>

namespace precast::passes {

using ir::kNoValue;
using ir::Node;
using ir::Type;
using ir::ValueId;

Rewriter::Rewriter(ir::Graph& g)
    : g_(g), b_(g), maker_(g.values.size(), -1), readers_(g.values.size()), now_(g.values.size()) {
  std::iota(now_.begin(), now_.end(), 0);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const auto read = [&](ValueId v) {
      if (v != kNoValue) readers_[index(v)].push_back(static_cast<int>(i));
    };
    ir::for_each_operand(g.nodes[i], [&](ir::Slot, ValueId v) { read(v); });
    for (const ir::Shared& s : g.nodes[i].shared) read(s.base);
    ir::for_each_definition(g.nodes[i], [&](ValueId v) { maker_[index(v)] = static_cast<int>(i); });
  }
  for (const ValueId v : g.outputs) readers_[index(v)].push_back(-1);
}

ValueId Rewriter::base(ValueId v) const {
  const Node* n = maker(v);
  return n && n->op == "prim::view" ? ref(*n, "base") : v;
}

std::pair<int, int64_t> Rewriter::place(ValueId v) const {
  const ValueId from = base(v);
  return {maker_[index(from)], from == v ? 0 : integer(*maker(v), "offset")};
}

Node Rewriter::renamed(Node n) const {
  ir::for_each_operand(n, [&](ir::Slot, ValueId& v) {
    if (v != kNoValue) v = now_[index(v)];
  });
  for (ir::Shared& s : n.shared) s.base = now_[index(s.base)];
  return n;
}

void Rewriter::finish(std::vector<Node> nodes) {
  for (ValueId& v : g_.outputs) v = now_[index(v)];
  for (ir::Value& v : b_.added) g_.values.push_back(std::move(v));
  g_.nodes = std::move(nodes);
}

std::optional<Val> Rewriter::in_line(const std::vector<ValueId>& values) {
  const ValueId from = base(values[0]);
  Type t = type(values[0]);
  const int64_t first = place(values[0]).second, step = values.size() > 1 ? place(values[1]).second - first : 0;
  if (step <= 0 || step % ir::itemsize(t.dtype) != 0) return {};
  for (size_t i = 0; i < values.size(); ++i) {
    const Node* n = maker(values[i]);
    if (!n || n->op != "prim::view" || base(values[i]) != from || type(values[i]) != t ||
        place(values[i]).second != first + static_cast<int64_t>(i) * step)
      return {};
  }
  t.sizes.insert(t.sizes.begin(), static_cast<int64_t>(values.size()));
  t.strides.insert(t.strides.begin(), step / ir::itemsize(t.dtype));
  return b_.view(val(from), std::move(t), first);
}

}  // namespace precast::passes
