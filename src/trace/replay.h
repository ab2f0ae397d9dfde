// Verification: the graph, run through the dispatcher on the inputs as they were, must give what the
// call really gave. It finds effects that no op shows.
#pragma once
#include "trace/outcome.h"
#include "trace/random_state.h"

namespace precast::trace {

/// Throws PrecompileError that names the first difference. `random` where the graph draws: it is left as it was found.
void verify_by_replay(const ir::Graph&, const Inputs&, const Outcome&, RandomState* random);

}  // namespace precast::trace
