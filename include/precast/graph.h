// A recorded graph as a value: text that a person reads, and that can be run, rewritten and parsed back.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}

namespace precast {

namespace ir {
struct Graph;
}

/// Immutable; copies share it. The text is one line an operation (docs/architecture.md, "Rules of the graph"):
///   graph(%0: f32[2,3] "argument 0") {
///     %1: f32[2,3] = aten::relu(self=%0)
///     return (%1)
///   }
class Graph {
 public:
  /// Throws PrecompileError naming line, column and what was expected.
  explicit Graph(std::string_view text);
  explicit Graph(std::shared_ptr<const ir::Graph> graph) : graph_(std::move(graph)) {}

  std::string text() const;
  /// Operators in program order, with their overloads ("aten::add.Tensor"); views are "prim::view".
  std::vector<std::string> ops() const;
  /// Types as in the text ("f32[2,3]").
  std::vector<std::string> input_types() const;
  std::vector<std::string> output_types() const;
  /// Runs it op by op through LibTorch, below autograd. Throws PrecompileError naming an input that does not fit.
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& inputs) const;

  const ir::Graph& internal() const { return *graph_; }

 private:
  std::shared_ptr<const ir::Graph> graph_;
};

}  // namespace precast
