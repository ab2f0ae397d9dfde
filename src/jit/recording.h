// Records one call of a compiled function: what it computes, and where a result requires grad, how gradients flow back
// through it. The call really runs, once, and what it returned stays eager's own.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "artifact/signature.h"
#include "ir/graph.h"
#include "jit/guards.h"
#include "precast/detail/core.h"
#include "trace/replay.h"

namespace precast::jit {

struct Recorded {
  ir::Graph graph;                // with gradients: tangents are its last inputs
  artifact::Signature signature;  // of the call; results are the call's own
  std::vector<int> tangents;      // result that each is the gradient of
  /// One per source that a gradient flows to.
  struct Gradient {
    int source = 0;
    artifact::Result value;  // where it lies among the graph's outputs; kind none: nothing flows
  };
  std::vector<Gradient> gradients;
  std::vector<trace::FoundGradient> found_grads;  // as in trace::Recording
  std::vector<int> spent;  // results that require grad and whose backward the call has run itself
  bool random = false;     // draws random numbers
  double seconds = 0;      // that recording took, with the call itself
  std::shared_ptr<const trace::LaterReplay> replay;  // where verification was put off, and can be made up for
  bool discarded = false;  // the call must be made again: its results hold sizes that only a recording knows

  /// A condition is a real number: few calls have the same.
  bool reads_reals() const;
  bool differentiable() const { return !tangents.empty(); }
};

struct RecordOptions {
  /// Gives the arguments as they are now, modules left out.
  std::function<void(const std::function<void(const detail::Arguments&)>&)> arguments;
  bool verify = true;      // replay the recorded call and compare; false: that may be done later
  bool fullgraph = false;  // a tensor's value read as a number is refused
  OpenDims open{};         // recorded for all sizes of these
};
/// `run` calls fn and hands its result to the sink. The caller's grad mode holds. Throws trace::RanThrough when the
/// call cannot be recorded, and has been made: its result is eager's. Where that cannot be (open sizes, fullgraph, a
/// raw pointer to sealed memory), throws PrecompileError: then nothing has changed.
Recorded record(const detail::Arguments&, const std::function<void(const detail::ResultSink&)>& run,
                const RecordOptions& = {});

}  // namespace precast::jit
