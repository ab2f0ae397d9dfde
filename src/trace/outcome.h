// What a call leaves behind, as graph outputs: results, write-backs and gradients, each with the
// tensor that really came out, for verification.
#pragma once
#include <vector>

#include "trace/gradients.h"
#include "trace/graph_inputs.h"
#include "trace/inputs.h"
#include "trace/op_recorder.h"
#include "trace/recorder.h"

namespace precast::trace {

class Outcome {
 public:
  struct Expected {
    std::string what;     // "result 0", "parameter 'fc.weight'", "the gradient of ..."
    at::Tensor real;      // undefined: not compared (parts of it are unknown)
    at::Tensor added_to;  // gradients that were added to the caller's: real = added_to + output
  };

  Outcome(OpRecorder&, const Inputs&, const Gradients&);

  void add_results(const std::vector<Leaf>&);
  void add_writes();
  void add_gradients();
  /// Gives the graph its final inputs and fills in the rest of the signature.
  void finish(const Sources&);
  /// Refuses tensors made in the call that somebody still holds.
  void check_escapes(const std::vector<Leaf>&) const;

  artifact::Signature signature;
  std::vector<Expected> expected;              // one per graph output
  std::vector<GraphInputs::One> graph_inputs;  // of each graph input

 private:
  int add_output(ir::ValueId, Expected);
  artifact::Result source_result(const Leaf&, const Inputs::Group&) const;

  OpRecorder& r_;
  const Inputs& inputs_;
  const Gradients& gradients_;
};

}  // namespace precast::trace
