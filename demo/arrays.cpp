#include <precast/precast.h>

#include "host_torch/tensor_types.h"
#include "io/npy.h"
#include "models/workload.h"
#include "pair.h"

namespace precast::demo {
namespace {

std::filesystem::path write(const at::Tensor& tensor, const std::filesystem::path& path) {
  const at::Tensor t = tensor.detach().contiguous();
  io::write_npy(path, {host_torch::type_of(t), static_cast<std::byte*>(t.data_ptr()), nullptr});
  return path;
}

}  // namespace

Arrays write_arrays(const std::string& name, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const Workload& w = workload(name);
  AnyModule module = w.make_module();
  const Tensors inputs = w.make_inputs();

  Arrays arrays{folder / "weights.safetensors", {}, {}};
  std::visit([&](const auto& m) { save_weights(m, arrays.weights); }, module);
  for (size_t i = 0; i < inputs.size(); ++i)
    arrays.inputs.push_back(write(inputs[i], folder / ("input" + std::to_string(i) + ".npy")));
  const Tensors results = w.run(module, inputs);
  for (size_t i = 0; i < results.size(); ++i)
    arrays.results.push_back(write(results[i], folder / ("result" + std::to_string(i) + ".npy")));
  return arrays;
}

}  // namespace precast::demo
