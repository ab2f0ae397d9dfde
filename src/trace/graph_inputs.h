// The graph's inputs in their final form. While recording there is one per storage; where nothing
// writes that storage, the tensors that share it can be inputs of their own, free of each other.
#pragma once
#include <vector>

#include "artifact/signature.h"
#include "trace/inputs.h"

namespace precast::trace {

struct GraphInputs {
  struct One {
    int group, source;  // the source whose first byte the offset counts from
    Window window;
  };
  std::vector<One> inputs;  // of each graph input that is left
  std::vector<bool> read;   // of each source
  std::vector<artifact::Alias> aliases;
};

/// Drops what nothing needs from the graph and numbers its values anew.
GraphInputs finish_inputs(ir::Graph&, const Inputs&);

}  // namespace precast::trace
