// What a call leaves behind, as graph outputs: results, write-backs and gradients, each with the
// tensor that really came out, for verification.
#pragma once
#include <map>
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
  std::vector<FoundGradient> found_grads;      // Recording::found_grads

 private:
  std::string name_of(const Gradients::Slot&) const;
  int add_output(ir::ValueId, Expected);
  artifact::Result source_result(const at::Tensor&, const Inputs::Group&) const;
  artifact::Result place(const at::Tensor&, const std::string& what);
  void add_gradient(const Gradients::Slot&, const at::Tensor& now);
  bool is_new_gradient(const Gradients::Slot&, const at::Tensor& now) const;

  OpRecorder& r_;
  const Inputs& inputs_;
  const Gradients& gradients_;
  std::map<const StorageState*, int> sharing_;       // how many objects that leave the call lie in a storage
  std::map<const StorageState*, int> whole_;         // graph output that holds a shared storage's whole root
  std::map<const void*, artifact::Result> objects_;  // what an object that leaves the call is
};

}  // namespace precast::trace
