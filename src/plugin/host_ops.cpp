#include "plugin/host_ops.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "artifact/compose.h"
#include "host_torch/tensor_types.h"
#include "ir/print.h"
#include "util/files.h"

namespace precast::plugin {
namespace {

using host_torch::GraphExecutor;

at::Tensor borrow(void* data, const ir::Type& type) {
  at::Tensor t = at::from_blob(data, type.sizes, type.strides, host_torch::options_of(type));
  if (type.conj) t._set_conj(true);
  if (type.neg) t._set_neg(true);
  return t;
}

at::Tensor borrow(const precast_tensor& t) {
  ir::Type type;
  type.dtype = static_cast<ir::Dtype>(t.dtype);
  type.sizes.assign(t.sizes, t.sizes + t.ndim);
  type.strides.assign(t.strides, t.strides + t.ndim);
  return borrow(t.data, type);
}

// The artifact may reuse the memory of inputs while an output is still needed, and each output is its own.
void separate(std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto shares = [&](const at::Tensor& t) { return t.is_alias_of(outputs[i]); };
    if (std::any_of(inputs.begin(), inputs.end(), shares) ||
        std::any_of(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i), shares))
      outputs[i] = host_torch::clone_bytes(outputs[i]);
  }
}

}  // namespace

HostOps::HostOps(const char* artifact_path) {
  const std::string code = read_text_file(artifact_path, "artifact");
  artifact::Text text = artifact::read_artifact_text(code, artifact_path);
  metadata_ = std::move(text.metadata);
  for (const artifact::HostOpText& op : metadata_.host_ops) ops_.emplace_back(ir::parse(op.graph));
  whole_.emplace(ir::parse(text.graph));
}

void HostOps::run(int index, void* const* in, void** out) {
  if (index < 0) return run_graph(in, out);
  const GraphExecutor& executor = ops_.at(static_cast<size_t>(index));
  const ir::Graph& g = executor.graph();
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < g.inputs.size(); ++i) inputs.push_back(borrow(in[i], g.type(g.inputs[i])));
  std::vector<at::Tensor> outputs = executor.run(inputs);
  separate(outputs, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    out[i] = const_cast<void*>(outputs[i].const_data_ptr());
    made_.push_back(outputs[i]);
  }
}

void HostOps::run_graph(void* const* in, void** out) {
  const ir::Graph& g = whole_->graph();
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const at::Tensor source = borrow(*static_cast<const precast_tensor*>(in[i]));
    inputs.push_back(host_torch::window(source, metadata_.signature.graph_inputs[i].offset_bytes, g.type(g.inputs[i])));
  }
  std::vector<at::Tensor> outputs = whole_->run(inputs);
  separate(outputs, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    static_cast<precast_tensor*>(out[i])->data = outputs[i].mutable_data_ptr();
    made_.push_back(outputs[i]);
  }
}

}  // namespace precast::plugin
