// Runs any graph node by node through LibTorch's dispatcher, below autograd: the meaning of a graph.
// It serves backend="eager", verification by replay, host ops, and artifacts without a usable compiler.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "ir/graph.h"

namespace precast::host_torch {

class GraphExecutor {
 public:
  /// Looks up every operator and lays out its arguments. Throws PrecompileError naming what LibTorch does not have.
  explicit GraphExecutor(ir::Graph);
  ~GraphExecutor();
  GraphExecutor(GraphExecutor&&) noexcept;

  /// One tensor per graph output; outputs may share memory with each other and with inputs, none of which changes.
  /// Inputs of another layout are laid out as recorded first. Throws PrecompileError naming the input whose shape,
  /// dtype or device differs, or the op whose recorded number does (a condition). Safe from many threads.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;

  const ir::Graph& graph() const;
  /// Some op draws random numbers.
  bool draws() const;

 private:
  struct Program;
  std::unique_ptr<const Program> program_;
};

}  // namespace precast::host_torch
