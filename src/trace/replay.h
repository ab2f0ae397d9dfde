// Verification: the graph, run through the dispatcher on the inputs as they were, must give what the
// call really gave. It finds effects that no op shows.
#pragma once
#include <memory>

#include "trace/outcome.h"
#include "trace/random_state.h"

namespace precast::trace {

class Replay {
 public:
  /// What went in, and what really came out. Nothing is copied but what the call wrote.
  Replay(const Inputs&, const Outcome&);

  /// Throws PrecompileError that names the first difference. `random` where the graph draws: it is left as it was
  /// found.
  void verify(const ir::Graph&, RandomState* random) const;

 private:
  std::vector<at::Tensor> args_;
  std::vector<Outcome::Expected> expected_;
};

/// A verification that another thread may do while the program goes on, of a call that draws no random numbers.
class LaterReplay {
 public:
  LaterReplay(ir::Graph, const Inputs&, const Outcome&);
  /// False: it differs, or somebody has written to a tensor of the call meanwhile, so nothing can be said.
  bool verifies() const;

 private:
  bool is_untouched() const;

  ir::Graph graph_;
  Replay replay_;
  bool watched_ = true;                                   // all tensors count their writes
  std::vector<std::pair<at::Tensor, int64_t>> versions_;  // of what went in and came out
};

}  // namespace precast::trace
