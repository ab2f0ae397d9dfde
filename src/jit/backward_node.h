// The autograd node of a compiled call: its backward is a compiled graph of its own.
#pragma once
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <span>
#include <vector>

#include "jit/program.h"

namespace precast::jit {

class BackwardNode : public torch::autograd::Node {
 public:
  BackwardNode(const Program&, std::span<const at::Tensor* const> sources, std::vector<at::Tensor> saved, Again again);

  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;
  void release_variables() override;
  std::string name() const override { return "CompiledBackward"; }

 private:
  torch::autograd::variable_list apply_again(const torch::autograd::variable_list& tangents);

  std::shared_ptr<const Program> program_;
  std::vector<torch::autograd::SavedVariable> sources_, saved_;   // what backward reads of the arguments, and the rest
  std::vector<torch::autograd::SavedVariable> primals_, others_;  // for gradients of gradients: all sources
  std::vector<const void*> memory_;                               // where these lay
  std::vector<at::Tensor> sizes_;                                 // empty ones that show the open sizes
  Again again_;
};

/// One of several results: its hooks are called only where its gradient is asked for.
class ResultNode : public torch::autograd::Node {
 public:
  ResultNode(const c10::intrusive_ptr<BackwardNode>& call, uint32_t result);
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
  std::string name() const override { return "CompiledResult"; }
};

/// Of a result whose backward the call has run itself.
class SpentNode : public torch::autograd::Node {
 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override;
  std::string name() const override { return "CompiledSpent"; }
};

}  // namespace precast::jit
