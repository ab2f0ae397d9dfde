#include "api/layouts.h"

#include <c10/core/MemoryFormat.h>

#include <algorithm>

#include "trace/geometry.h"

namespace precast::api {

using artifact::Result;
using artifact::Signature;

namespace {

/// A copy that contiguous() or reshape() made because of the layout.
bool asks_for_layout(const ir::Node& n) {
  const ir::Attr* format = n.op == "aten::clone" || n.op == "aten::_to_copy" ? n.find("memory_format") : nullptr;
  const auto* value = format ? std::get_if<int64_t>(format) : nullptr;
  return value && *value != static_cast<int64_t>(at::MemoryFormat::Preserve);
}

bool writes(const ir::Node& n, const ir::Slot& slot) {
  return std::any_of(n.writes.begin(), n.writes.end(), [&](const auto& w) { return w.slot == slot; });
}

}  // namespace

std::vector<int> fixed_layouts(const ir::Graph& g, const Signature& s) {
  std::vector<bool> settled(g.values.size());  // what tells its layout decides what happens
  const auto settle = [&](ir::ValueId id) {
    if (id != ir::kNoValue) settled[static_cast<size_t>(id)] = true;
  };
  std::vector<bool> returned(g.values.size());
  for (const Result& r : s.results)
    if (r.kind == Result::Kind::output || r.kind == Result::Kind::output_view) {
      const ir::ValueId id = g.outputs[static_cast<size_t>(r.index)];
      if (returned[static_cast<size_t>(id)]) settle(id);
      returned[static_cast<size_t>(id)] = true;
    }
  for (auto n = g.nodes.rbegin(); n != g.nodes.rend(); ++n) {
    bool matters = false;
    bool leaves = false;
    ir::for_each_definition(*n, [&](ir::ValueId id) {
      matters = matters || settled[static_cast<size_t>(id)];
      leaves = leaves || returned[static_cast<size_t>(id)];
    });
    if (leaves && n->op == "prim::view") returned[static_cast<size_t>(std::get<ir::Ref>(*n->find("base")).id)] = true;
    matters = matters || (leaves && asks_for_layout(*n));
    for (const ir::Shared& shared : n->shared) settle(shared.base);
    ir::for_each_operand(*n, [&](ir::Slot slot, ir::ValueId id) {
      if (matters || writes(*n, slot)) settle(id);
    });
  }
  std::vector<int> fixed;
  for (size_t i = 0; i < g.inputs.size(); ++i)
    if (settled[static_cast<size_t>(g.inputs[i])]) fixed.push_back(s.graph_inputs[i].source);
  for (const artifact::WriteBack& w : s.writes) fixed.push_back(w.source);
  for (const Result& r : s.results)
    if (r.kind == Result::Kind::source || r.kind == Result::Kind::source_view) fixed.push_back(r.index);
  std::sort(fixed.begin(), fixed.end());
  fixed.erase(std::unique(fixed.begin(), fixed.end()), fixed.end());
  return fixed;
}

void loosen_layouts(ir::Graph& g, const Signature& s) {
  std::vector<bool> fixed(g.values.size());
  const auto fix = [&](ir::ValueId id) { fixed[static_cast<size_t>(id)] = true; };
  for (ir::ValueId id : g.outputs) fix(id);
  for (const ir::Node& n : g.nodes) {
    for (const ir::Shared& shared : n.shared) fix(shared.base);
    ir::for_each_operand(n, [&](ir::Slot slot, ir::ValueId id) {
      if (id != ir::kNoValue && (writes(n, slot) || n.op.starts_with("prim::"))) fix(id);
    });
  }
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const int source = s.graph_inputs[i].source;
    const bool aliased = std::any_of(s.aliases.begin(), s.aliases.end(),
                                     [&](auto& a) { return a.shared && (a.a == source || a.b == source); });
    ir::Type& type = g.values[static_cast<size_t>(g.inputs[i])].type;
    if (!aliased && !fixed[static_cast<size_t>(g.inputs[i])] && trace::overlaps_itself(type))
      type.strides = ir::contiguous_strides(type.sizes);
  }
}

}  // namespace precast::api
