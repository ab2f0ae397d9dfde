// Checks that a graph is well formed: each value defined once and before use, types known,
// prim windows inside their base, outputs defined. Run after every pass in tests and debug builds.
#pragma once
#include "ir/graph.h"

namespace precast::ir {
/// Throws precast::InternalError naming `where`, the node and the rule that is broken.
void verify(const Graph&, const char* where);
}  // namespace precast::ir
