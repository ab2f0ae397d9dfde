// Writes a module's tensors to a .safetensors file, under the names that artifacts use: weights for programs without
// LibTorch.
#pragma once
#include <filesystem>

#include "precast/detail/leaf.h"

namespace precast::host_torch {

/// Parameters, then buffers; a tied tensor once, by its first name. Returns how many. Throws PrecompileError.
int save_weights(const detail::ModuleRef&, const std::filesystem::path&);

}  // namespace precast::host_torch
