// Pairs from the text of a graph with symbols, called at many sizes and compared with the graph of those sizes, op by
// op.
#pragma once
#include <map>
#include <vector>

#include "api/support.h"
#include "artifact/signature.h"

namespace precast::testing {

using Tensors = std::vector<at::Tensor>;

struct FromText {
  std::string name, graph;                       // fn(model, [the inputs that are no weights]) -> [outputs]
  std::vector<std::string> params{}, buffers{};  // names of the first inputs
  std::vector<artifact::WriteBack> writes{};     // sources are the inputs, in order
  std::vector<artifact::Gradient> grads{};       //
  std::vector<artifact::Result> results{};       // the outputs, if none are given
  std::map<size_t, int64_t> below{};             // input -> its integers are in [0, below)
  std::vector<std::vector<int64_t>> sizes = {{7}, {2}, {1}, {0}, {100}};  // of the symbols, a call each
  int host_ops = 0;
  double relative = 1e-4, absolute = 1e-5;
};

using Model = torch::nn::Module;
using FromTextRunnable = PrecompiledRunnable<Tensors(Model&, Tensors)>;

Pair build(const FromText&, const std::string& backend = "inductor");

/// One call's world: weights, arguments, and what the graph of these sizes makes of them.
struct AtSizes {
  std::shared_ptr<Model> model = std::make_shared<Model>();
  Tensors inputs;     // weights, then arguments
  Tensors arguments;  // the same objects
  Tensors outputs;    // of the graph, run op by op
};
AtSizes at_sizes(const FromText&, const std::vector<int64_t>& sizes, uint64_t seed = 1);

/// Calls f there: results, writes and gradients must be those of the graph.
void check_call(const FromText&, const FromTextRunnable& f, const std::vector<int64_t>& sizes);
/// Builds with both backends and checks a call for each of the program's sizes.
void check(const FromText&);

}  // namespace precast::testing
