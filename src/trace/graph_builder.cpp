#include "trace/graph_builder.h"

#include <algorithm>

#include "util/errors.h"

namespace precast::trace {

namespace {

bool can_be_dropped(const ir::Node& n) {
  return n.op.starts_with("prim::") || n.op == "aten::empty_strided" || n.op == "aten::scalar_tensor";
}

}  // namespace

ir::ValueId GraphBuilder::add_node(std::string op, std::vector<ir::Arg> args, ir::Type result) {
  const ir::ValueId id = graph.add_value(std::move(result));
  ir::Node n;
  n.op = std::move(op);
  n.args = std::move(args);
  n.outs.resize(1);
  n.outs[0].id = id;
  graph.nodes.push_back(std::move(n));
  return id;
}

ir::ValueId GraphBuilder::empty(const ir::Type& type) {
  return add_node("aten::empty_strided",
                  {{"size", type.sizes},
                   {"stride", type.strides},
                   {"dtype", type.dtype},
                   {"layout", {}},
                   {"device", type.device},
                   {"pin_memory", {}}},
                  type);
}

ir::ValueId GraphBuilder::number(const ir::Attr& value, ir::Dtype dtype) {
  return add_node("aten::scalar_tensor",
                  {{"s", value}, {"dtype", dtype}, {"layout", {}}, {"device", ir::Device{}}, {"pin_memory", {}}},
                  ir::contiguous(dtype, {}));
}

ir::ValueId GraphBuilder::view(ir::ValueId base, int64_t offset, const ir::Type& type) {
  return add_node("prim::view", {{"base", refer(base)}, {"offset", offset}}, type);
}

ir::ValueId GraphBuilder::scatter(ir::ValueId base, ir::ValueId src, int64_t offset) {
  const ir::Type& window = graph.type(src);
  return add_node("prim::scatter",
                  {{"base", refer(base)},
                   {"src", refer(src)},
                   {"offset", offset},
                   {"sizes", window.sizes},
                   {"strides", window.strides}},
                  graph.type(base));
}

bool GraphBuilder::is_constant(const std::vector<ir::ValueId>& ids) const {
  std::vector<bool> asked(graph.values.size(), false);
  const auto ask = [&](ir::ValueId id) {
    if (id != ir::kNoValue) asked[static_cast<size_t>(id)] = true;
  };
  for (ir::ValueId id : ids) ask(id);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const ir::Node& n = graph.nodes[i];
    bool makes_it = false;
    ir::for_each_definition(n, [&](ir::ValueId id) { makes_it = makes_it || asked[static_cast<size_t>(id)]; });
    if (!makes_it) continue;
    if (random_nodes.count(i)) return false;
    ir::for_each_operand(n, [&](ir::Slot, ir::ValueId id) { ask(id); });
    for (const ir::Shared& s : n.shared) ask(s.base);
  }
  return std::none_of(graph.inputs.begin(), graph.inputs.end(),
                      [&](ir::ValueId id) { return asked[static_cast<size_t>(id)]; });
}

ir::ValueId GraphBuilder::root(StorageState& s) {
  if (s.value == ir::kNoValue) s.value = empty(s.root.type);
  return s.value;
}

ir::ValueId GraphBuilder::read(StorageState& s, const at::Tensor& t) {
  if (s.root.is(t)) return root(s);
  for (const auto& [window, value] : s.views)
    if (window.is(t)) return value;
  return read(s, window_of(t));
}

void GraphBuilder::cover(StorageState& s, const Window& w) {
  if (!s.root.bytes().contains(w.bytes())) grow(s, s.size);
  PRECAST_CHECK(s.root.bytes().contains(w.bytes()), "a window reaches beyond its storage");
}

ir::ValueId GraphBuilder::read(StorageState& s, const Window& w) {
  cover(s, w);
  if (s.root == w) return root(s);
  for (const auto& [window, value] : s.views)
    if (window == w) return value;
  const ir::ValueId id = w.bytes().empty() ? empty(w.type) : view(root(s), w.offset - s.root.offset, w.type);
  s.views.emplace_back(w, id);
  return id;
}

void GraphBuilder::write(StorageState& s, const Window& w, ir::ValueId value) {
  if (w.bytes().empty()) return;
  cover(s, w);
  if (w == s.root) return replace(s, w, value);
  s.value = scatter(root(s), value, w.offset - s.root.offset);
  s.views.clear();
  s.views.emplace_back(w, value);
  s.known.add(w);
}

void GraphBuilder::replace(StorageState& s, Window root, ir::ValueId value) {
  s.root = std::move(root);
  s.value = value;
  s.views.clear();
  s.known.add(s.root);
}

void GraphBuilder::grow(StorageState& s, int64_t size) {
  const Window old = s.root;
  const ir::ValueId old_value = s.value;
  const bool nothing_known = s.known.none() || old.bytes().empty() || old_value == ir::kNoValue;
  s.size = size;
  s.known.resize(size);
  s.root = {ir::contiguous(old.type.dtype, {size / ir::itemsize(old.type.dtype)}), 0};
  s.root.type.device = old.type.device;
  s.value = ir::kNoValue;
  s.views.clear();
  if (nothing_known) return;
  PRECAST_CHECK(!overlaps_itself(old.type) && !old.type.conj && !old.type.neg, "an unusual root grows");
  s.value = scatter(root(s), old_value, old.offset);
}

std::vector<bool> remove_dead(ir::Graph& g) {
  std::vector<bool> needed(g.values.size(), false);
  const auto need = [&](ir::ValueId id) {
    if (id != ir::kNoValue) needed[static_cast<size_t>(id)] = true;
  };
  for (ir::ValueId id : g.outputs) need(id);
  std::vector<bool> keep(g.nodes.size());
  for (size_t i = g.nodes.size(); i-- > 0;) {
    const ir::Node& n = g.nodes[i];
    keep[i] = !can_be_dropped(n) || needed[static_cast<size_t>(n.outs[0].id)];
    if (!keep[i]) continue;
    ir::for_each_operand(n, [&](ir::Slot, ir::ValueId id) { need(id); });
    for (const ir::Shared& s : n.shared) need(s.base);
  }
  size_t i = 0;
  std::erase_if(g.nodes, [&](const ir::Node&) { return !keep[i++]; });
  std::vector<bool> unread;
  for (ir::ValueId id : g.inputs) unread.push_back(!needed[static_cast<size_t>(id)]);
  return unread;
}

}  // namespace precast::trace
