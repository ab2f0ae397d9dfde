// Sharing of equal nodes and removal of dead ones.
#include <algorithm>
#include <unordered_map>

#include "ir/print.h"
#include "passes/passes.h"

namespace precast::passes {
namespace {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

// Ops that draw random numbers, by parts of their names; too many only keep a node longer.
bool may_be_random(std::string_view op) {
  static constexpr std::string_view kParts[] = {
      "rand",   "bernoulli", "normal",   "uniform", "dropout", "exponential", "geometric", "cauchy",    "multinomial",
      "random", "poisson",   "binomial", "rrelu",   "gamma",   "dirichlet",   "attention", "fractional"};
  return std::ranges::any_of(kParts, [&](std::string_view part) { return op.find(part) != op.npos; });
}

// Ops whose result is as large as the values say, by their beginnings: the function may have read that size as a
// number.
bool counts_values(std::string_view op) {
  static constexpr std::string_view kOps[] = {"aten::nonzero",    "aten::masked_select", "aten::_unique",
                                              "aten::unique_dim", "aten::unique_cons",   "aten::repeat_interleave",
                                              "aten::bincount",   "aten::argwhere"};
  return std::ranges::any_of(kOps, [&](std::string_view name) { return op.starts_with(name); });
}

bool has_effect(const Node& n) {
  if (core_family(n.op)) return false;
  if (!n.op.starts_with("aten::") || may_be_random(n.op) || counts_values(n.op)) return true;
  if (n.outs.empty() && n.writes.empty() && n.shared.empty()) return true;  // it only raises errors
  return std::ranges::any_of(n.outs,
                             [](const ir::Out& o) { return !std::holds_alternative<std::monostate>(o.expect); });
}

}  // namespace

void share_equal_nodes(Graph& g) {
  std::vector<ValueId> now(g.values.size());
  for (size_t i = 0; i < now.size(); ++i) now[i] = static_cast<ValueId>(i);
  auto rename = [&](ValueId& id) {
    if (id != kNoValue) id = now[static_cast<size_t>(id)];
  };
  std::unordered_map<std::string, ValueId> seen;  // by text, which tells -0 from 0 and NaN from NaN
  std::vector<Node> nodes;
  for (Node& n : g.nodes) {
    ir::for_each_operand(n, [&](ir::Slot, ValueId& id) { rename(id); });
    for (ir::Shared& s : n.shared) rename(s.base);
    if (core_family(n.op) && n.outs.size() == 1 && n.outs[0].id != kNoValue && n.writes.empty() && n.shared.empty()) {
      ValueId id = n.outs[0].id;
      Node anonymous{n.op, n.args, {}, {}, {}};
      auto [it, first] = seen.emplace(ir::to_string(g.type(id)) + " = " + ir::print(g, anonymous), id);
      if (!first) {
        now[static_cast<size_t>(id)] = it->second;
        continue;
      }
    }
    nodes.push_back(std::move(n));
  }
  for (ValueId& id : g.outputs) rename(id);
  g.nodes = std::move(nodes);
}

void drop_dead_nodes(Graph& g) {
  std::vector<bool> used(g.values.size());
  auto use = [&](ValueId id) {
    if (id != kNoValue) used[static_cast<size_t>(id)] = true;
  };
  for (ValueId id : g.outputs) use(id);
  std::vector<Node> kept;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    Node& n = g.nodes[i];
    auto defined = ir::defined_values(n);
    bool alive =
        has_effect(n) || std::ranges::any_of(defined, [&](ValueId id) { return used[static_cast<size_t>(id)]; });
    if (!alive) continue;
    ir::for_each_read(n, use);
    kept.push_back(std::move(n));
  }
  std::ranges::reverse(kept);
  g.nodes = std::move(kept);
}

}  // namespace precast::passes
