#include "jit/undefined_tangents.h"

#include <algorithm>
#include <map>

namespace precast::jit {
namespace {

using ir::kNoValue;
using ir::Node;
using ir::ValueId;

size_t index(ValueId v) { return static_cast<size_t>(v); }

class Pruning {
 public:
  Pruning(const ir::Graph& g, const std::vector<ValueId>& tangents, const std::vector<ValueId>& undefined)
      : g_(g), late_(g.values.size()), undefined_(g.values.size()) {
    for (const ValueId v : tangents) late_[index(v)] = true;
    for (const ValueId v : undefined) undefined_[index(v)] = true;
    for (ValueId v = 0; v < static_cast<ValueId>(g.values.size()); ++v) now_.push_back(v);
  }

  Pruned run() {
    std::vector<Node> nodes;
    for (const Node& from : g_.nodes) {
      Node n = from;
      bool late = false, defined = false;
      ir::for_each_read(n, [&](ValueId& v) {
        v = now_[index(v)];
        late = late || late_[index(v)];
        defined = defined || (late_[index(v)] && !undefined_[index(v)]);
      });
      ir::for_each_definition(n, [&](ValueId v) { late_[index(v)] = late, undefined_[index(v)] = late && !defined; });
      if ((late && !defined) || is_sum_of_one(n)) continue;
      if (late) ir::for_each_read(n, [&](ValueId& v) { v = undefined_[index(v)] ? zeros(v) : v; });
      nodes.push_back(std::move(n));
    }
    Pruned out{std::move(g_), {}, {}};
    out.graph.nodes = std::move(nodes);
    std::vector<ValueId> outputs;
    for (const ValueId v : out.graph.outputs) {
      const ValueId now = now_[index(v)];
      out.defined_outputs.push_back(!undefined_[index(now)]);
      if (out.defined_outputs.back()) outputs.push_back(now);
    }
    out.graph.outputs = std::move(outputs);
    for (const auto& [of, zero] : zeros_) out.zeros.push_back(zero);
    std::erase_if(out.graph.inputs, [&](ValueId v) { return undefined_[index(v)]; });
    out.graph.inputs.insert(out.graph.inputs.end(), out.zeros.begin(), out.zeros.end());
    return out;
  }

 private:
  /// a + an undefined gradient: it is a.
  bool is_sum_of_one(const Node& n) {
    if (n.op != "aten::add.Tensor" || n.outs.size() != 1 || !n.writes.empty() || !n.shared.empty()) return false;
    const auto operand = [&](std::string_view name) {
      const ir::Attr* a = n.find(name);
      const ir::Ref* ref = a ? std::get_if<ir::Ref>(a) : nullptr;
      return ref ? ref->id : kNoValue;
    };
    const ValueId a = operand("self"), b = operand("other"), sum = n.outs[0].id;
    if (a == kNoValue || b == kNoValue || sum == kNoValue) return false;
    const ir::Attr* alpha = n.find("alpha");
    const bool plain = !alpha || *alpha == ir::Attr(int64_t{1}) || *alpha == ir::Attr(1.0);
    const ValueId left = undefined_[index(b)] ? a : undefined_[index(a)] && plain ? b : kNoValue;
    if (left == kNoValue || !(g_.type(left) == g_.type(sum))) return false;
    now_[index(sum)] = left;
    return true;
  }

  ValueId zeros(ValueId of) {
    const auto [at, is_new] = zeros_.try_emplace(of, kNoValue);
    if (is_new) {
      const ir::Type type = g_.type(of);
      at->second = g_.add_value(type);
      late_.push_back(false), undefined_.push_back(false), now_.push_back(at->second);
    }
    return at->second;
  }

  ir::Graph g_;
  std::vector<char> late_, undefined_;  // by value
  std::vector<ValueId> now_;            // what stands for a value
  std::map<ValueId, ValueId> zeros_;
};

}  // namespace

Pruned without_tangents(const ir::Graph& backward, const std::vector<ValueId>& tangents,
                        const std::vector<ValueId>& undefined) {
  return Pruning(backward, tangents, undefined).run();
}

}  // namespace precast::jit
