#include <ATen/ATen.h>

#include <unordered_map>

#include "host_torch/module_tensors.h"
#include "host_torch/tensor_types.h"
#include "io/safetensors.h"
#include "plugin/commands.h"
#include "plugin/script.h"

namespace precast::plugin {

int weights(const precast_callable& callable, const char* out_path) {
  Script script(callable);
  const detail::ModuleRef module{nullptr, &script.module()};
  std::vector<io::NamedArray> arrays;
  std::unordered_map<const void*, std::string> named;  // a tied tensor is stored once, by its first name
  for (const host_torch::ModuleTensor& t : host_torch::module_tensors({&module, 1})) {
    if (!named.emplace(t.tensor.unsafeGetTensorImpl(), t.name).second) continue;
    const auto kept = std::make_shared<at::Tensor>(t.tensor.detach().resolve_conj().resolve_neg().contiguous());
    arrays.push_back({t.name, {host_torch::type_of(*kept), static_cast<std::byte*>(kept->data_ptr()), kept}});
  }
  io::write_safetensors(out_path, arrays, {{"format", "pt"}});
  return static_cast<int>(arrays.size());
}

}  // namespace precast::plugin
