#include "plugin/host_ops.h"

#include <ATen/ATen.h>

#include "artifact/compose.h"
#include "host_torch/host_op.h"
#include "host_torch/tensor_types.h"
#include "ir/print.h"
#include "util/files.h"

namespace precast::plugin {
namespace {

using host_torch::GraphExecutor;

at::Tensor borrow(const precast_tensor& t) {
  ir::Type type;
  type.dtype = static_cast<ir::Dtype>(t.dtype);
  type.sizes.assign(t.sizes, t.sizes + t.ndim);
  type.strides.assign(t.strides, t.strides + t.ndim);
  return host_torch::borrow(t.data, type);
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
  for (at::Tensor& t : host_torch::run_host_op(ops_.at(static_cast<size_t>(index)), in, out))
    made_.push_back(std::move(t));
}

void HostOps::run_graph(void* const* in, void** out) {
  const ir::Graph& g = whole_->graph();
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const at::Tensor source = borrow(*static_cast<const precast_tensor*>(in[i]));
    inputs.push_back(host_torch::window(source, metadata_.signature.graph_inputs[i].offset_bytes, g.type(g.inputs[i])));
  }
  std::vector<at::Tensor> outputs = whole_->run(inputs);
  host_torch::separate(outputs, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    static_cast<precast_tensor*>(out[i])->data = outputs[i].mutable_data_ptr();
    made_.push_back(outputs[i]);
  }
}

}  // namespace precast::plugin
