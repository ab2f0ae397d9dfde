// A backward where some results of the call got no gradient: what flows from them alone is undefined, as in eager, and
// computes nothing.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace precast::jit {

struct Pruned {
  ir::Graph graph;                    // inputs: those of the backward graph that are there, then `zeros`
  std::vector<ir::ValueId> zeros;     // inputs that are zero: undefined gradients that an op wants to read
  std::vector<char> defined_outputs;  // of the backward graph's outputs, which this one has
};

/// `undefined`: inputs that are tangents and are not there; `tangents`: all of them. Backward is linear in its
/// tangents, so what reads undefined ones and no others is undefined.
Pruned without_tangents(const ir::Graph& backward, const std::vector<ir::ValueId>& tangents,
                        const std::vector<ir::ValueId>& undefined);

}  // namespace precast::jit
