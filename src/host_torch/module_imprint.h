// What a model looked like: names and identities in the order of a walk. Comparing a model with its imprint builds no
// strings and counts no references, so it can be done at each call. It does not keep the model's memory.
#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "precast/detail/leaf.h"

namespace precast::host_torch {

class ModuleImprint {
 public:
  /// `wanted`: tensors of these modules.
  explicit ModuleImprint(std::span<const detail::ModuleRef>, const std::vector<at::Tensor>& wanted = {});
  ModuleImprint(const ModuleImprint&) = delete;
  ModuleImprint& operator=(const ModuleImprint&) = delete;

  /// Whether these are the very same modules with the very same tensors; then appends where the wanted ones are: in the
  /// modules themselves, or here (a constant of a TorchScript method, an entry of a list).
  bool matches(std::span<const detail::ModuleRef>, c10::SmallVectorImpl<const at::Tensor*>& tensors) const;

 private:
  struct Mark {
    const void* identity = nullptr;
    const std::string* address = nullptr;  // of the key in the module: the same place is the same key
    const at::Tensor* tensor = nullptr;    // where it lay
  };
  /// A torch::nn::Module of the walk, and where its own entries lie. While they lie there, only identities are
  /// compared; where that fails, the marks decide.
  struct Held {
    const torch::nn::Module* module = nullptr;
    const void *parameters = nullptr, *buffers = nullptr, *children = nullptr;
    size_t n_parameters = 0, n_buffers = 0, n_children = 0;
    size_t first_child = 0;  // in children_
    bool training = false;
  };
  struct Entry {
    const at::Tensor* where = nullptr;
    const void* identity = nullptr;
  };
  void hold(const torch::nn::Module&);
  bool lies_as_before(std::span<const detail::ModuleRef>) const;
  int place(const at::Tensor&) const;

  std::vector<Held> modules_;  // parents first; empty where a TorchScript module is among them
  std::vector<Entry> entries_;
  std::vector<const torch::nn::Module*> children_, roots_;
  std::vector<Mark> marks_;
  std::vector<std::string> keys_;
  std::vector<c10::weak_intrusive_ptr<at::TensorImpl>> held_;  // so that no address is used again
  std::vector<int> places_;                                    // of the wanted tensors in the walk, or -1:
  std::vector<at::Tensor> constants_;                          // it is this one
  std::vector<const at::Tensor*> wanted_;                      // where they lay
};

}  // namespace precast::host_torch
