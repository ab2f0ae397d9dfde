#include "host_torch/host_op.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "host_torch/tensor_types.h"

namespace precast::host_torch {

at::Tensor borrow(void* data, const ir::Type& type) {
  at::Tensor t = at::from_blob(data, ir::numbers(type.sizes), ir::numbers(type.strides), options_of(type));
  if (type.conj) t._set_conj(true);
  if (type.neg) t._set_neg(true);
  return t;
}

void separate(std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto shares = [&](const at::Tensor& t) { return t.is_alias_of(outputs[i]); };
    if (std::any_of(inputs.begin(), inputs.end(), shares) ||
        std::any_of(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i), shares))
      outputs[i] = clone_bytes(outputs[i]);
  }
}

std::vector<at::Tensor> run_host_op(const GraphExecutor& executor, void* const* in, void** out) {
  const ir::Graph& g = executor.graph();
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < g.inputs.size(); ++i) inputs.push_back(borrow(in[i], g.type(g.inputs[i])));
  std::vector<at::Tensor> outputs = executor.run(inputs);
  separate(outputs, inputs);  // the artifact reuses the memory of the inputs while an output is still needed
  for (size_t i = 0; i < outputs.size(); ++i) out[i] = const_cast<void*>(outputs[i].const_data_ptr());
  return outputs;
}

}  // namespace precast::host_torch
