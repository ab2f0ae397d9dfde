// A few composite kernels read the values of an argument through a pointer, unseen, and go by them: the batch sizes of
// a packed sequence, the indices of tensor_split. Those values become a condition of the graph.
#pragma once
#include "trace/op_recorder.h"

namespace precast::trace {

/// Records the conditions of one composite op, and keeps the memory open while its kernel runs.
class ValueConditions {
 public:
  ValueConditions(OpRecorder&, const OpInfo&, const torch::jit::Stack&);
  ~ValueConditions();
  ValueConditions(const ValueConditions&) = delete;
  ValueConditions& operator=(const ValueConditions&) = delete;

  /// What the kernel returned. Tensors that it filled through a pointer follow from those values: they are constants.
  void take_results(const torch::jit::Stack&);

 private:
  void fix_values(const at::Tensor&, const std::string& argument);

  OpRecorder& r_;
  const OpInfo& info_;
  std::vector<StorageState*> open_;
};

/// Autograd would decompose these ops before they are seen: here they pass it by. Once a process.
void register_value_conditions();
/// Gives an `empty` that such a kernel has filled through a pointer its values as constants. False: it cannot.
bool become_constant(GraphBuilder&, StorageState&, const at::Tensor&);

}  // namespace precast::trace
