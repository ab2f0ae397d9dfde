#include "precast/graph.h"

#include "host_torch/graph_executor.h"
#include "ir/print.h"

namespace precast {

namespace {

std::vector<std::string> types(const ir::Graph& g, const std::vector<ir::ValueId>& values) {
  std::vector<std::string> texts;
  for (const ir::ValueId v : values) texts.push_back(ir::to_string(g.type(v)));
  return texts;
}

}  // namespace

Graph::Graph(std::string_view text) : graph_(std::make_shared<const ir::Graph>(ir::parse(text))) {}

std::string Graph::text() const { return ir::print(*graph_); }

std::vector<std::string> Graph::ops() const {
  std::vector<std::string> names;
  for (const ir::Node& n : graph_->nodes) names.push_back(n.op);
  return names;
}

std::vector<std::string> Graph::input_types() const { return types(*graph_, graph_->inputs); }
std::vector<std::string> Graph::output_types() const { return types(*graph_, graph_->outputs); }

std::vector<at::Tensor> Graph::operator()(const std::vector<at::Tensor>& inputs) const {
  return host_torch::GraphExecutor(*graph_).run(inputs);
}

}  // namespace precast
