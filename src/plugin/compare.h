// Two tensors that should be equal: how far apart they are, and in which respect they differ.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace precast::plugin {

struct Comparison {
  double difference = 0;  // largest |a - b|; infinity where one alone is NaN
  std::string why;        // empty when equal within the tolerance
};

/// Floats within absolute + relative * |expected| (for f16 and bf16 a few of their own steps), all else exactly.
/// Dtype, sizes and strides count too.
Comparison compare(const at::Tensor& expected, const at::Tensor& found, double relative, double absolute);

std::string words(const at::Tensor&);  // "f32[2,3]"

}  // namespace precast::plugin
