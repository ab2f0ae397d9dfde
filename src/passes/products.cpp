// Products of a few rows each with the same matrix, none of which waits for another, are one product of all rows: what
// a loop multiplies step by step is multiplied before or behind the loop.
#include <algorithm>
#include <map>
#include <queue>

#include "passes/passes.h"
#include "passes/rewriter.h"
#include "util/errors.h"

namespace precast::passes {
namespace {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

constexpr int64_t kFewRows = 64;  // more keep a product busy by themselves

/// The nodes in an order that lets each see its operands, as near to this one as can be. What is no core op keeps its
/// order.
std::vector<Node> in_order(const Graph& g, std::vector<Node> nodes) {
  std::vector<int> maker(g.values.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i)
    ir::for_each_definition(nodes[i], [&](ValueId v) { maker[static_cast<size_t>(v)] = static_cast<int>(i); });
  std::vector<std::vector<int>> readers(nodes.size());
  std::vector<int> waits(nodes.size());
  int last = -1;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto wait = [&](int other) {
      if (other >= 0) readers[static_cast<size_t>(other)].push_back(static_cast<int>(i)), ++waits[i];
    };
    ir::for_each_operand(nodes[i], [&](ir::Slot, ValueId v) {
      if (v != kNoValue) wait(maker[static_cast<size_t>(v)]);
    });
    for (const ir::Shared& s : nodes[i].shared) wait(maker[static_cast<size_t>(s.base)]);
    if (!core_family(nodes[i].op)) wait(std::exchange(last, static_cast<int>(i)));
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] == 0) ready.push(static_cast<int>(i));
  std::vector<Node> ordered;
  while (!ready.empty()) {
    const auto i = static_cast<size_t>(ready.top());
    ready.pop();
    for (const int r : readers[i])
      if (--waits[static_cast<size_t>(r)] == 0) ready.push(r);
    ordered.push_back(std::move(nodes[i]));
  }
  PRECAST_CHECK(ordered.size() == nodes.size(), "nodes wait for each other");
  return ordered;
}

/// The products with one matrix.
class Products : Rewriter {
 public:
  using Rewriter::Rewriter;

  /// False where there is nothing to do.
  bool run(ValueId matrix) {
    std::map<int, std::vector<int>> waves = independent(matrix);
    std::erase_if(waves, [](const auto& wave) { return wave.second.size() < 2; });
    if (waves.empty()) return false;
    std::map<int, std::vector<Node>> made;  // in place of these nodes
    for (auto& [depth, wave] : waves) {
      multiply(wave, matrix);
      made[*std::ranges::min_element(wave)] = take();
      for (const int i : wave) made[i];
    }
    std::vector<Node> nodes;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const auto at = made.find(static_cast<int>(i));
      if (at == made.end())
        nodes.push_back(renamed(g_.nodes[i]));
      else
        std::ranges::move(at->second, std::back_inserter(nodes));
    }
    finish(std::move(nodes));
    g_.nodes = in_order(g_, std::move(g_.nodes));
    return true;
  }

  /// Matrices that several products of few rows share.
  static std::vector<ValueId> shared(const Graph& g) {
    std::map<ValueId, int> count;
    for (const Node& n : g.nodes)
      if (takes_part(g, n)) ++count[ref(n, "mat2")];
    std::erase_if(count, [](const auto& entry) { return entry.second < 2; });
    std::vector<ValueId> found;
    for (const auto& [v, times] : count) found.push_back(v);
    return found;
  }

 private:
  static bool takes_part(const Graph& g, const Node& n) {
    return n.op == "aten::mm" && n.writes.empty() && n.shared.empty() && g.type(ref(n, "self")).sizes[0] < kFewRows &&
           g.type(n.outs[0].id).is_contiguous();
  }

  /// Nodes by how many others they wait for, one after the other: those of one number do not wait for each other.
  std::map<int, std::vector<int>> independent(ValueId matrix) const {
    std::map<int, std::vector<int>> found;
    std::vector<int> depth(g_.values.size());
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      int deepest = 0;
      const auto see = [&](ValueId v) {
        if (v != kNoValue) deepest = std::max(deepest, depth[index(v)]);
      };
      ir::for_each_operand(n, [&](ir::Slot, ValueId v) { see(v); });
      for (const ir::Shared& s : n.shared) see(s.base);
      if (takes_part(g_, n) && ref(n, "mat2") == matrix) found[deepest++].push_back(static_cast<int>(i));
      ir::for_each_definition(n, [&](ValueId v) { depth[index(v)] = deepest; });
    }
    return found;
  }

  const Node& node(int i) const { return g_.nodes[static_cast<size_t>(i)]; }

  void multiply(std::vector<int> wave, ValueId matrix) {
    std::ranges::stable_sort(wave, {}, [&](int i) { return place(ref(node(i), "self")); });
    std::vector<Val> rows;
    std::vector<ValueId> inputs;
    for (const int i : wave) inputs.push_back(ref(node(i), "self")), rows.push_back(val(inputs.back()));
    const auto together = in_line(inputs);
    const Val product = together ? einsum("tmk,kn->tmn", *together, val(matrix)) : mm(cat(rows, 0), val(matrix));
    int64_t at = 0;
    for (const int i : wave) {
      const ValueId out = node(i).outs[0].id;
      rename(out, b_.view(product, type(out), at).id);
      at += type(out).span_bytes();
    }
  }
};

}  // namespace

void multiply_at_once(Graph& g) {
  for (const ValueId matrix : Products::shared(g)) Products(g).run(matrix);
}

}  // namespace precast::passes
