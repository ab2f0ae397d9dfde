// Cuts a joint graph, of a call and of its gradients, in two: the forward graph gives the results and what the backward
// graph needs; the backward graph gets that and the tangents. What is cheap is computed again rather than saved.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace precast::jit {

struct Joint {
  ir::Graph graph;             // core ops; tangents are the last inputs
  int tangents = 0;            // how many
  std::vector<int> results;    // graph outputs that the call itself leaves: results, writes, gradients it makes
  std::vector<int> gradients;  // graph outputs that only a backward wants; may repeat
};

struct Halves {
  ir::Graph forward;              // outputs: Joint::results in order, then what is saved
  ir::Graph backward;             // inputs: `inputs`, what is saved, all tangents; outputs: Joint::gradients in order
  std::vector<int> inputs;        // of the joint graph, that backward reads
  int saved = 0, recomputed = 0;  // recomputed: nodes that stand in both
  double saved_bytes = 0;
};

/// Throws PrecompileError when a result depends on a tangent.
Halves partition(const Joint&);

}  // namespace precast::jit
