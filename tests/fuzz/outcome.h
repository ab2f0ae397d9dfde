// Everything one run of a program leaves behind, and how two of them are compared.
#pragma once
#include <string>
#include <vector>

#include "program.h"

namespace precast::fuzz {

struct Outcome {
  std::vector<at::Tensor> results;
  std::vector<at::Tensor> inputs;     // as the run left them
  std::vector<at::Tensor> gradients;  // of each input; undefined where there is none
  std::string error;                  // what was thrown, if anything
};

/// Fresh inputs, all steps, backward; in plain eager. An exception passes through.
Outcome run_eager(const Program&, Variant, const Noise& = {});
/// The same, with an exception as part of the outcome.
Outcome try_eager(const Program&, Variant);

/// Takes the gradients that the run left on the inputs.
Outcome outcome_of(const std::vector<at::Tensor>& results, const std::vector<at::Tensor>& inputs);

/// "" when `found` equals `expected`: dtype, sizes, strides, aliasing, gradients, and values: integers and bools
/// exactly, floats within their tolerance plus `slack` (how far noise moved them). Otherwise says where they differ.
std::string difference(const Outcome& expected, const Outcome& found, const std::vector<double>& slack);

/// How far noise moves each tensor of the outcome (results, inputs, gradients): the largest absolute difference.
std::vector<double> slack_of(const Program&, Variant);

bool close_under_noise(const Outcome& clean, const Outcome& noisy);

}  // namespace precast::fuzz
