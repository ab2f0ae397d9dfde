// One network through precast: the training step captured through the C++ interface, and eager beside it.
#pragma once
#include <filesystem>
#include <functional>
#include <set>

#include "comparison.h"
#include "network.h"
#include "precast/precast.h"

namespace precast::zoo {

using Tensors = std::vector<at::Tensor>;
using demo::Comparison;
using demo::Named;

/// Inference or the training step, with what it takes.
struct Task {
  const Network& network;
  Size size;
  bool training;
  /// Without gradients and in eval mode; or loss and backward in training mode.
  at::Tensor operator()(Module module, const Tensors& in) const;
  Module module() const;
  Tensors inputs(uint64_t seed) const;  // in training the target too, as the last
};

using Call = std::function<at::Tensor(Module, Tensors)>;

/// Calls both twice, from equal modules, inputs and random numbers: results, inputs, parameters, buffers, gradients.
Comparison compare_with_eager(const Task&, const Call& ours);

/// Ops that may stay with the host: factorizations, FFT, quantized and random ops, sizes that depend on data, values
/// read on the host.
bool may_stay(const std::string& op);
/// Names of the host ops of a pair, and how many ops it has, from its metadata.
struct Coverage {
  std::set<std::string> host_ops;  // without those that may stay
  int ops = 0, lowered = 0, kernels = 0;
  bool needs_torch = false;
};
Coverage coverage_of(const std::string& metadata);

}  // namespace precast::zoo
