#include "plugin/host_ops.h"

#include <ATen/ATen.h>

#include "host_torch/host_op.h"
#include "host_torch/tensor_types.h"
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

HostOps::HostOps(const char* artifact_path)
    : text_(artifact::read_artifact_text(read_text_file(artifact_path, "artifact"), artifact_path)),
      executors_(text_.metadata.host_ops.size() + 1) {}

void HostOps::run(int index, const precast_i64* symbols, void* const* in, void** out) {
  const std::string& graph = index < 0 ? text_.graph : text_.metadata.host_ops.at(static_cast<size_t>(index)).graph;
  const auto executor = executors_.at(static_cast<size_t>(index + 1)).get(text_.metadata, graph, symbols);
  if (index < 0) return run_graph(*executor, in, out);
  for (at::Tensor& t : host_torch::run_host_op(*executor, in, out)) made_.push_back(std::move(t));
}

void HostOps::run_graph(const GraphExecutor& executor, void* const* in, void** out) {
  const ir::Graph& g = executor.graph();
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const at::Tensor source = borrow(*static_cast<const precast_tensor*>(in[i]));
    inputs.push_back(
        host_torch::window(source, text_.metadata.signature.graph_inputs[i].offset_bytes, g.type(g.inputs[i])));
  }
  std::vector<at::Tensor> outputs = executor.run(inputs);
  host_torch::separate(outputs, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    static_cast<precast_tensor*>(out[i])->data = outputs[i].mutable_data_ptr();
    made_.push_back(outputs[i]);
  }
}

}  // namespace precast::plugin
