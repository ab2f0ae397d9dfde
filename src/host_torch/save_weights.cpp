#include "host_torch/save_weights.h"

#include <ATen/ATen.h>

#include <unordered_set>

#include "host_torch/module_tensors.h"
#include "host_torch/tensor_types.h"
#include "io/safetensors.h"

namespace precast::host_torch {

int save_weights(const detail::ModuleRef& module, const std::filesystem::path& path) {
  std::vector<io::NamedArray> arrays;
  std::unordered_set<const void*> saved;
  for (const ModuleTensor& t : module_tensors({&module, 1})) {
    if (!saved.insert(t.tensor.unsafeGetTensorImpl()).second) continue;
    const auto kept = std::make_shared<at::Tensor>(t.tensor.detach().resolve_conj().resolve_neg().contiguous());
    arrays.push_back({t.name, {type_of(*kept), static_cast<std::byte*>(kept->data_ptr()), kept}});
  }
  io::write_safetensors(path, arrays, {{"format", "pt"}});
  return static_cast<int>(arrays.size());
}

}  // namespace precast::host_torch
