// Turns reads and writes of memory into values: a write makes a new version of the whole storage,
// a read is a window on the current one. The graph that comes out is purely functional.
#pragma once
#include <string>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"
#include "trace/storage_table.h"

namespace precast::trace {

inline ir::Attr refer(ir::ValueId id) { return ir::Ref{id}; }

class GraphBuilder {
 public:
  ir::Graph graph;
  std::unordered_set<size_t> random_nodes;  // places in graph.nodes

  /// The value that `w` of this storage has now.
  ir::ValueId read(StorageState&, const Window& w);
  ir::ValueId read(StorageState&, const at::Tensor&);
  /// The whole root; makes an uninitialized value where nothing has been written yet.
  ir::ValueId root(StorageState&);
  /// `w` now holds `value` (of w's type, bits off, no self-overlap).
  void write(StorageState&, const Window& w, ir::ValueId value);
  /// The storage consists of `root`, which holds `value`.
  void replace(StorageState&, Window root, ir::ValueId value);
  /// The storage now has `size` bytes, the old contents in front.
  void grow(StorageState&, int64_t size);

  ir::ValueId empty(const ir::Type&);
  ir::ValueId number(const ir::Attr&, ir::Dtype);
  ir::ValueId view(ir::ValueId base, int64_t offset, const ir::Type&);
  ir::ValueId scatter(ir::ValueId base, ir::ValueId src, int64_t offset);
  ir::ValueId add_node(std::string op, std::vector<ir::Arg> args, ir::Type result);
  /// These depend on no input and on no random op.
  bool is_constant(const std::vector<ir::ValueId>&) const;

 private:
  void cover(StorageState&, const Window&);  // makes the root reach that far
};

/// Drops prims and empties that nothing needs, then numbers the values anew. Inputs stay; `unread[i]` tells which
/// inputs nothing reads.
std::vector<bool> remove_dead(ir::Graph&);

}  // namespace precast::trace
