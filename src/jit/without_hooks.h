// Takes the hooks of tensors away for a while.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace precast::jit {

/// While it lives, gradients that flow to these tensors meet none of their hooks, retained gradients among them:
/// autograd calls those, with what the compiled backward gives.
class WithoutHooks {
 public:
  explicit WithoutHooks(const std::vector<at::Tensor>& primals) {
    for (const at::Tensor& t : primals) {
      auto node = torch::autograd::impl::gradient_edge(t).function;
      if (!node || !seen_.insert(node.get()).second) continue;
      kept_.push_back({std::move(node), {}, {}, {}});
    }
    swap();
  }
  ~WithoutHooks() { swap(); }
  WithoutHooks(const WithoutHooks&) = delete;
  WithoutHooks& operator=(const WithoutHooks&) = delete;

 private:
  using Hooks = std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>>;
  struct Kept {
    c10::intrusive_ptr<torch::autograd::Node> node;
    Hooks tensor_hooks, hooks;
    std::unordered_map<size_t, std::unique_ptr<torch::autograd::FunctionPreHook>> retaining;
  };
  void swap() {
    for (Kept& k : kept_) {
      std::swap(k.node->tensor_pre_hooks(), k.tensor_hooks);
      std::swap(k.node->pre_hooks(), k.hooks);
      std::swap(k.node->retains_grad_hooks(), k.retaining);
    }
  }
  std::vector<Kept> kept_;
  std::unordered_set<const void*> seen_;
};

}  // namespace precast::jit
