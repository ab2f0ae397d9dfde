// The tensors of a module, as artifacts name them: named_parameters() then named_buffers(), duplicates kept. A
// TorchScript module also has tensor attributes and the constants of its methods; both count as buffers.
#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "precast/detail/leaf.h"

namespace precast::host_torch {

struct ModuleTensor {
  std::string name;
  int module = 0;  // index among the module arguments
  bool is_buffer = false;
  at::Tensor tensor;
};

/// All modules' parameters (module by module), then all modules' buffers.
std::vector<ModuleTensor> module_tensors(std::span<const detail::ModuleRef>);

/// What a model looked like: names and identities in the order of a walk. Comparing a model with its imprint builds
/// no strings and counts no references, so it can be done at each call. It does not keep the model's memory.
class ModuleImprint {
 public:
  explicit ModuleImprint(std::span<const detail::ModuleRef>);

  /// Whether these are the very same modules with the very same tensors; `at` then points at the tensor of each place
  /// of the walk, in the modules themselves.
  bool matches(std::span<const detail::ModuleRef>, c10::SmallVectorImpl<const at::Tensor*>& at) const;
  /// The place of this tensor in the walk, or -1 (a constant of a TorchScript method and an entry of a list have none).
  int place(const at::Tensor&) const;

 private:
  struct Mark {
    const void* identity = nullptr;
    const std::string* address = nullptr;  // of the key in the module: the same place is the same key
    bool is_tensor = false;
  };
  /// A torch::nn::Module of the walk, and where its own entries lie. A walk over these needs no recursion and compares
  /// no strings; where it fails, the marks decide.
  struct Held {
    const torch::nn::Module* module = nullptr;
    const void *parameters = nullptr, *buffers = nullptr, *children = nullptr;
    size_t n_parameters = 0, n_buffers = 0, n_children = 0;
    size_t first_mark = 0, first_child = 0;  // in marks_ (parameters, then buffers), in children_
    bool training = false;
  };
  void hold(const torch::nn::Module&, size_t& mark);
  bool matches_held(std::span<const detail::ModuleRef>, c10::SmallVectorImpl<const at::Tensor*>& at) const;

  std::vector<Held> modules_;  // parents first; empty where a TorchScript module is among them
  std::vector<const torch::nn::Module*> children_;
  std::vector<const torch::nn::Module*> roots_;
  std::vector<Mark> marks_;
  std::vector<std::string> keys_;
  std::vector<c10::weak_intrusive_ptr<at::TensorImpl>> held_;  // so that no address is used again
};

}  // namespace precast::host_torch
