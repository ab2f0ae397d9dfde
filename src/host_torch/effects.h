// After a successful call: the caller's objects get what eager would have left, and fn's result is put together.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

#include "artifact/signature.h"
#include "precast/artifact_abi.h"
#include "precast/detail/leaf.h"

namespace precast::host_torch {

/// Every tensor the caller passed, by source index: parameters, buffers, tensor leaves.
using SourceTensors = std::span<const at::Tensor* const>;

/// What the symbols are in this call.
using Values = std::function<int64_t(const ir::Symbol&)>;

/// Sources that the artifact has written count as written for autograd.
void mark_written(const artifact::Signature&, SourceTensors);

/// Which gradients are in an output that nothing else of the signature names, so that .grad may take it as it is.
std::vector<char> exclusive_gradients(const artifact::Signature&);

/// Refuses gradients that the call could not change once it has run. PrecompileError.
void check_gradients(const artifact::Signature&, SourceTensors);

/// Gradients onto .grad exactly as eager's AccumulateGrad leaves them.
void deliver_gradients(const artifact::Signature&, const std::vector<char>& exclusive, SourceTensors,
                       const precast_tensor* outputs, const Values&);

/// fn's result: the caller's very object where fn returned it, views of what fn's results were views of.
void pack_results(const artifact::Signature&, SourceTensors, const precast_tensor* outputs, const Values&,
                  std::span<detail::ResultLeaf>);

}  // namespace precast::host_torch
