// One compiled variant of a function: its lowered forward, and its backward where results require grad.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "api/structure_nodes.h"
#include "ir/choices.h"
#include "jit/partition.h"
#include "jit/recording.h"
#include "jit/trace_folder.h"
#include "jit/undefined_tangents.h"
#include "precast/compile.h"

namespace precast::jit {

struct Lowering {
  std::string backend = "inductor";  // or "eager": graphs are run op by op, or by what `function` makes of them
  BackendFunction function{};
  const TraceFolder* trace = nullptr;  // where what is made is written, too
  bool draw = false;
  bool step_memory = false;  // results live until the next step begins
  ir::Choices choices{};
  bool autotune = false;  // what is faster here than these is measured
};

/// What lowering made of a recording, for people.
struct Account {
  int ops = 0, kernels = 0, host_ops = 0;
  std::vector<std::string> host_reasons, kernel_names;  // "aten::fft: FFT"; "k3: add relu"
  std::vector<std::string> tuning;                      // what autotune measured
  std::vector<std::string> misses;                      // of the disk cache, one a graph; empty: a hit
  int saved = 0, recomputed = 0;
  double saved_bytes = 0, seconds = 0;
  std::vector<std::pair<std::string, double>> phases;  // seconds of each, in order; together for both directions
  void add(const std::string& phase, double seconds);
};

/// Runs the call eagerly once more, for gradients of gradients; gives its result. Throws PrecompileError where it would
/// not be the same call.
using Again = std::function<void(const detail::ResultSink&)>;

class Program : public std::enable_shared_from_this<Program> {
 public:
  /// Lowers and compiles. Throws PrecompileError when that fails.
  Program(Recorded, const Lowering&);
  ~Program();

  /// `sources` are all tensors of the call: parameters, buffers, tensor leaves. `again` is kept by results that
  /// require grad; empty: gradients of gradients are refused. Throws PrecompileError before anything has changed.
  /// The modules have passed check().
  void call(const detail::Arguments&, std::span<const at::Tensor* const> sources, Again again,
            std::span<detail::ResultLeaf> results) const;

  /// Throws PrecompileError where these are modules of another structure.
  void check(std::span<const detail::ModuleRef>) const;
  std::span<const detail::Node> result_structure() const { return structure_->nodes(); }
  size_t result_leaves() const { return recorded_.signature.results.size(); }
  bool differentiable() const { return recorded_.differentiable(); }
  const Recorded& recorded() const { return recorded_; }
  const Account& account() const { return account_; }

 private:
  friend class BackwardNode;
  void lower_ops(ir::Graph&, const Lowering&, const ir::Choices&);
  Joint joint(ir::Graph core, artifact::Signature& forward) const;
  ir::Choices tune(const ir::Choices& first);
  void lower_both(const Lowering&, const ir::Choices&);
  /// A backward for calls in which some results get no gradient.
  struct Backward {
    detail::RunnablePtr run;
    std::string spec;
    bool pruned = false;          // it takes the tangents that are there, then `zeros`; else all
    std::vector<ir::Type> zeros;  // arguments that are zero
    std::vector<char> defined;    // by gradient
  };
  /// Compiled when first asked for. undefined: by tangent.
  const Backward& backward(const std::vector<char>& undefined) const;
  Backward prune(const std::vector<char>& undefined) const;
  static Pruned without(const std::vector<char>& undefined, const ir::Graph&, size_t first);
  void carry_sizes(ir::Graph& backward);

  Recorded recorded_;
  Account account_;
  std::unique_ptr<api::StructureNodes> structure_;
  detail::RunnablePtr forward_;
  Lowering later_;  // what compiles backwards
  ir::Choices choices_;
  ir::Graph back_;
  size_t first_tangent_ = 0;  // among the inputs of back_
  mutable std::mutex backwards_mutex_;
  mutable std::map<std::vector<char>, Backward> backwards_;  // by tangents that are undefined
  std::vector<int> saved_sources_;                           // sources that backward reads
  std::vector<int> gradient_sources_;                        // one per result of backward
  std::vector<int> other_sources_;                           // the rest
  std::vector<ir::Type> tangent_types_;
  /// Where backward gets the sizes that are open: a source and its dim, for each symbol.
  std::vector<std::pair<int64_t, int64_t>> size_sources_;
};

}  // namespace precast::jit
