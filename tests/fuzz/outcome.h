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

/// Fresh inputs, all steps, backward, `runs` times on the same inputs; in plain eager. An exception passes through.
Outcome run_eager(const Program&, Variant, int runs = 1, const Noise& = {});
/// The same, with an exception as part of the outcome.
Outcome try_eager(const Program&, Variant, int runs = 1);
Outcome try_eager(const Program&, const std::vector<at::Tensor>& inputs, const Swap&);

/// Takes the gradients that the run left on the inputs.
Outcome outcome_of(const std::vector<at::Tensor>& results, const std::vector<at::Tensor>& inputs);

/// How far each tensor of an outcome (results, inputs, gradients) may be from eager's, besides the tolerance of its
/// dtype; kExact where it may not be at all.
using Slack = std::vector<double>;
constexpr double kExact = -1;

/// "" when `found` equals `expected`: dtype, sizes, strides, aliasing, gradients, and values: integers and bools
/// exactly, floats within their tolerance plus `slack`. Otherwise says where they differ.
/// `small`: an open size is 0 or 1, where eager may return a view and strides that are chance.
std::string difference(const Outcome& expected, const Outcome& found, const Slack& slack, bool small = false);

/// Four times as far as noise moves each tensor; kExact for results and inputs without an inexact step in their past.
Slack slack_of(const Program&, Variant, int runs, const Outcome& clean);

bool close_under_noise(const Outcome& clean, const Outcome& noisy);

}  // namespace precast::fuzz
