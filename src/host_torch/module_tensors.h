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

/// Throws PrecompileError where module argument `i` is an empty handle.
void require_module(const detail::ModuleRef&, size_t i);

}  // namespace precast::host_torch
