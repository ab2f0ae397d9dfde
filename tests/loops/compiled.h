// Compiles lowered graphs, many to a shared object, and runs them with a small host.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "emit/lower.h"
#include "precast/artifact_abi.h"
#include "reference.h"

namespace compiled {

struct Options {
  int isa = 2, vector_bytes = 32;  // as in emitted.h
  std::string flags = "-O1 -mavx2 -mfma -mf16c";
  std::string compiler = "g++";
};
/// PRECAST_LOOPS_FLAGS in the environment is added to the flags: "-fsanitize=undefined".

/// Graphs added by text, compiled together, then run by number.
class Batch {
 public:
  explicit Batch(Options o = {}) : options_(std::move(o)) {}
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  int add(const std::string& graph_text, const precast::emit::LowerConfig& = {});
  void compile();

  const precast::ir::Graph& graph(int i) const { return cases_[static_cast<size_t>(i)].graph; }
  const precast::emit::Emitted& emitted(int i) const { return cases_[static_cast<size_t>(i)].emitted; }

  struct Result {
    int code = 0;
    std::string message;  // of the failure
    std::vector<reference::Tensor> outputs;
    std::vector<int> host_ops;  // in the order they ran
  };
  /// `pieces`: how parallel loops are cut up, run last to first; so many threads if negative. Host ops run in the
  /// reference interpreter.
  Result run(int i, const std::vector<reference::Tensor>& inputs, int pieces = 1, bool frozen = false) {
    return run(i, graph(i), inputs, pieces, frozen, {});
  }
  /// The same for these values of the graph's symbols.
  Result run(int i, const std::vector<int64_t>& sizes, const std::vector<reference::Tensor>& inputs, int pieces = 1) {
    return run(i, with_sizes(i, sizes), inputs, pieces, false, sizes);
  }
  precast::ir::Graph with_sizes(int i, const std::vector<int64_t>& sizes) const;

 private:
  struct Case {
    precast::ir::Graph graph;
    precast::emit::Emitted emitted;
    void* run = nullptr;
    void* prepare = nullptr;
  };
  Result run(int i, const precast::ir::Graph&, const std::vector<reference::Tensor>& inputs, int pieces, bool frozen,
             const std::vector<int64_t>& sizes);

  Options options_;
  std::vector<Case> cases_;
  std::vector<void*> libraries_;
};

/// Pseudo-random contents: floats in [-2, 2], integers in [-9, 9] (index tensors of `below` > 0: [0, below)).
reference::Tensor random_tensor(const precast::ir::Type&, uint32_t seed, int64_t below = 0);

/// Largest disagreement in units of what is allowed: <= 1 is equal. Integers and bools exactly; NaN equals NaN.
double disagreement(const reference::Tensor& found, const reference::Tensor& expected, double relative,
                    double absolute);

}  // namespace compiled
