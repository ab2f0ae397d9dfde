// Whether a compiled call and eager's agree: what is compared, and how closely.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "jit/recording.h"
#include "jit/variant.h"

namespace precast::jit {

/// Gradients that the call itself accumulates cannot be taken back, so such calls cannot.
bool can_be_compared(const artifact::Signature&);

/// Of the results that carry gradients, weighted with numbers of either sign, to the sources. The graph stays.
std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& results, const Recorded&, const Seen&);

/// To rounding of long sums: 1e-4 of each element and of the largest one, for 16-bit floats 2e-2.
bool close(const at::Tensor& a, const at::Tensor& b);

}  // namespace precast::jit
