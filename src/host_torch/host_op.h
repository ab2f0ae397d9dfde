// A host op: a graph of one node, run through the dispatcher on memory that an artifact owns.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "host_torch/graph_executor.h"

namespace precast::host_torch {

/// The i-th input is what stands at in[i], laid out as the graph says. out[i] becomes the address of the i-th result,
/// which lives as long as the tensors returned.
std::vector<at::Tensor> run_host_op(const GraphExecutor&, void* const* in, void** out);

/// Copies each output that shares memory with an input or with an earlier output.
void separate(std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs);

/// A tensor of this type on borrowed memory.
at::Tensor borrow(void* data, const ir::Type&);

}  // namespace precast::host_torch
