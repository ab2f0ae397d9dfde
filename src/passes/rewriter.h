// What passes share that put one node in the place of several: who makes and who reads a value, new nodes, and new
// names.
#pragma once
#include <optional>

#include "passes/builder.h"

namespace precast::passes {

class Rewriter {
 public:
  explicit Rewriter(ir::Graph& g);

 protected:
  static size_t index(ir::ValueId v) { return static_cast<size_t>(v); }
  static ir::ValueId ref(const ir::Node& n, const char* arg) { return std::get<ir::Ref>(*n.find(arg)).id; }
  static int64_t integer(const ir::Node& n, const char* arg) { return *ir::as_size(*n.find(arg)); }
  const ir::Type& type(ir::ValueId v) const { return g_.type(v); }

  const ir::Node* maker(ir::ValueId v) const {
    return maker_[index(v)] < 0 ? nullptr : &g_.nodes[index(maker_[index(v)])];
  }
  bool single(ir::ValueId v) const { return readers_[index(v)].size() == 1; }
  /// What the value is a window on, or the value itself.
  ir::ValueId base(ir::ValueId) const;
  /// Where the value stands among others: its base's node, then its offset there.
  std::pair<int, int64_t> place(ir::ValueId) const;

  /// The value under its name now.
  Val val(ir::ValueId v) { return b_.value(now_[index(v)]); }
  void rename(ir::ValueId from, ir::ValueId to) { now_[index(from)] = to; }
  ir::Node renamed(ir::Node) const;
  /// The nodes made since the last call.
  std::vector<ir::Node> take() { return std::exchange(b_.nodes, {}); }
  void finish(std::vector<ir::Node>);

  /// The values, of equal sizes, along a new first dim without a copy: evenly spaced windows on one value, in order.
  std::optional<Val> in_line(const std::vector<ir::ValueId>&);

  ir::Graph& g_;
  Builder b_;
  std::vector<int> maker_;                 // by value: its node; -1: an input
  std::vector<std::vector<int>> readers_;  // by value: nodes; -1: an output

 private:
  std::vector<ir::ValueId> now_;
};

}  // namespace precast::passes
