// Checks that a graph is well formed: each value defined once and before use, types known,
// prim windows inside their base, outputs defined. Run after every pass in tests and debug builds.
#pragma once
#include <optional>
#include <string>

#include "ir/graph.h"

namespace precast::ir {

struct Fault {
  int node = -1;  // index in Graph::nodes; -1: inputs or outputs
  std::string message;
};
/// The first rule that is broken, if any. For graphs from outside (parse uses it).
std::optional<Fault> find_fault(const Graph&);

/// Throws precast::InternalError naming `where`, the node and the rule that is broken.
void verify(const Graph&, const char* where);

}  // namespace precast::ir
