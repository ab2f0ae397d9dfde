#include "jit/partition.h"

#include <algorithm>

#include "passes/passes.h"
#include "precast/error.h"
#include "util/errors.h"

namespace precast::jit {
namespace {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

size_t index(int i) { return static_cast<size_t>(i); }

/// Cheaper to compute again than to keep in memory.
bool is_cheap(const Node& n) {
  if (!n.writes.empty() || !n.shared.empty() || n.outs.size() != 1 || n.outs[0].id == kNoValue) return false;
  if (n.op == "prim::view" || n.op == "aten::full" || n.op == "aten::arange") return true;
  return passes::core_family(n.op) == passes::Family::pointwise;
}

class Partition {
 public:
  explicit Partition(const Joint& joint) : joint_(joint), g_(joint.graph), maker_(g_.values.size(), -1) {
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      ir::for_each_definition(g_.nodes[i], [&](ValueId v) { maker_[index(v)] = static_cast<int>(i); });
    late_ = ir::dependents(g_, {g_.inputs.end() - joint.tangents, g_.inputs.end()});
    mark_forward();
  }

  Halves run() {
    collect_backward();
    save_less();
    return halves();
  }

 private:
  const Node* maker(ValueId v) const { return maker_[index(v)] < 0 ? nullptr : &g_.nodes[index(maker_[index(v)])]; }
  ValueId output(int i) const { return g_.outputs[index(i)]; }

  // ---- Which side a node is on

  /// What the results need. Nodes that may not run twice and need no tangent run with them.
  void mark_forward() {
    forward_.resize(g_.nodes.size());
    std::vector<bool> wanted(g_.values.size());
    for (const int r : joint_.results) wanted[index(output(r))] = true;
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      const Node& n = g_.nodes[i];
      bool wants = false, late = false;
      ir::for_each_definition(n, [&](ValueId v) { wants = wants || wanted[index(v)], late = late || late_[index(v)]; });
      if (!wants && (late || passes::core_family(n.op))) continue;
      if (late) throw PrecompileError("a result of the call depends on the gradient of another result");
      forward_[i] = true;
      ir::for_each_read(n, [&](ValueId v) { wanted[index(v)] = true; });
    }
  }

  /// From the gradients back to what forward has.
  void collect_backward() {
    backward_.resize(g_.nodes.size());
    saved_.resize(g_.values.size());
    std::vector<bool> wanted(g_.values.size());
    const auto want = [&](ValueId v) {
      const Node* n = maker(v);
      if (n && forward_[index(maker_[index(v)])])
        saved_[index(v)] = true;
      else
        wanted[index(v)] = true;  // an input, or a node that only backward has
    };
    for (const int i : joint_.gradients) want(output(i));
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      bool wants = false;
      ir::for_each_definition(g_.nodes[i], [&](ValueId v) { wants = wants || wanted[index(v)]; });
      if (!wants) continue;
      backward_[i] = true;
      ir::for_each_read(g_.nodes[i], want);
    }
  }

  double bytes(ValueId v) const { return static_cast<double>(g_.type(v).span_bytes().hint()); }

  /// A cheap value is computed again where that saves memory: its operands are there, or together smaller.
  void save_less() {
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      const Node& n = g_.nodes[i];
      if (!forward_[i] || !is_cheap(n) || !saved_[index(n.outs[0].id)]) continue;
      double more = 0;
      std::vector<ValueId> operands;
      ir::for_each_read(n, [&](ValueId v) {
        if (!maker(v) || saved_[index(v)] || std::ranges::find(operands, v) != operands.end()) return;
        operands.push_back(v);
        more += bytes(v);
      });
      const bool view = n.op == "prim::view";
      if (!view && more >= bytes(n.outs[0].id) && more > 0) continue;
      saved_[index(n.outs[0].id)] = false;
      backward_[i] = true;
      ++recomputed_;
      for (const ValueId v : operands) saved_[index(v)] = true;
    }
  }

  // ---- The two graphs

  Halves halves() const {
    Halves h;
    h.recomputed = recomputed_;
    std::vector<ValueId> saved;
    for (const Node& n : g_.nodes)
      ir::for_each_definition(n, [&](ValueId v) {
        if (saved_[index(v)]) saved.push_back(v), h.saved_bytes += bytes(v);
      });
    h.saved = static_cast<int>(saved.size());

    h.forward = side(forward_);
    const auto first_tangent = g_.inputs.end() - joint_.tangents;
    h.forward.inputs.assign(g_.inputs.begin(), first_tangent);
    for (const int r : joint_.results) h.forward.outputs.push_back(output(r));
    h.forward.outputs.insert(h.forward.outputs.end(), saved.begin(), saved.end());

    h.backward = side(backward_);
    std::vector<bool> read(g_.values.size());
    for (const Node& n : h.backward.nodes) ir::for_each_read(n, [&](ValueId v) { read[index(v)] = true; });
    for (const int i : joint_.gradients) {
      h.backward.outputs.push_back(output(i));
      read[index(output(i))] = true;
    }
    for (auto at = g_.inputs.begin(); at != first_tangent; ++at)
      if (read[index(*at)]) {
        h.inputs.push_back(static_cast<int>(at - g_.inputs.begin()));
        h.backward.inputs.push_back(*at);
      }
    h.backward.inputs.insert(h.backward.inputs.end(), saved.begin(), saved.end());
    h.backward.inputs.insert(h.backward.inputs.end(), first_tangent, g_.inputs.end());

    for (Graph* half : {&h.forward, &h.backward}) {
      passes::drop_dead_nodes(*half);
      ir::renumber(*half);
    }
    return h;
  }

  Graph side(const std::vector<bool>& has) const {
    Graph half;
    half.symbols = g_.symbols;
    half.values = g_.values;
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      if (has[i]) half.nodes.push_back(g_.nodes[i]);
    return half;
  }

  const Joint& joint_;
  const Graph& g_;
  std::vector<int> maker_;                // node that defines a value; -1: an input
  std::vector<bool> late_, saved_;        // by value
  std::vector<bool> forward_, backward_;  // by node
  int recomputed_ = 0;
};

}  // namespace

Halves partition(const Joint& joint) { return Partition(joint).run(); }

}  // namespace precast::jit
