// Programs as one function of a module and a list of tensors: how they are captured and called.
#pragma once
#include <precast/precast.h>
#include <torch/torch.h>

#include "program.h"

namespace precast::fuzz {

/// Inputs of all programs: parameters and buffers in a module, the rest in a list.
struct Inputs : torch::nn::Module {
  std::vector<std::vector<at::Tensor>> of_program;
  std::vector<at::Tensor> user;

  Inputs(const std::vector<Program>& programs, const std::vector<Variant>& variants) {
    for (size_t p = 0; p < programs.size(); ++p) {
      of_program.push_back(make_inputs(programs[p], variants[p]));
      for (size_t i = 0; i < of_program[p].size(); ++i) {
        at::Tensor& t = of_program[p][i];
        const std::string name = "p" + std::to_string(p) + "_v" + std::to_string(i);
        switch (programs[p].inputs[i].role) {
          case Role::user:
            user.push_back(t);
            break;
          case Role::buffer:
            t = register_buffer(name, t);
            break;
          case Role::parameter:
            t = register_parameter(name, t, t.requires_grad());
            break;
        }
      }
    }
  }
};

/// All results of all programs. Reads the inputs through the arguments, as a model would.
inline std::vector<at::Tensor> run_all(const std::vector<Program>& programs, Inputs& module,
                                       const std::vector<at::Tensor>& user) {
  std::vector<at::Tensor> results;
  size_t next_user = 0;
  for (size_t p = 0; p < programs.size(); ++p) {
    std::vector<at::Tensor> inputs = module.of_program[p];
    for (size_t i = 0; i < inputs.size(); ++i)
      if (programs[p].inputs[i].role == Role::user) inputs[i] = user[next_user++];
    for (const at::Tensor& r : pick_results(programs[p], run_steps(programs[p], inputs))) results.push_back(r);
  }
  return results;
}

using Signature = std::vector<at::Tensor>(Inputs&, std::vector<at::Tensor>);
using Runnable = PrecompiledRunnable<Signature>;

}  // namespace precast::fuzz
