// From a core graph (docs/core-ops.md) to the text of its kernels: lowering, fusion, memory plan, emission.
#pragma once
#include <vector>

#include "emit/emitted.h"
#include "ir/choices.h"
#include "ir/graph.h"

namespace precast::emit {

struct LowerConfig {
  /// One per Graph::inputs: a parameter or buffer. What depends on these only may move to precast_prepare.
  /// Empty means none.
  std::vector<bool> constant_inputs{};
  /// Translation units that kernels are spread over.
  int parts = 2;
  ir::Choices choices{};         // those of the passes have been made already
  std::string* loops = nullptr;  // is given the kernels as loops, for people
};

/// A node that has no lowering rule becomes a host op; the rest becomes kernels. Throws InternalError when the graph
/// breaks the normal form.
Emitted lower(const ir::Graph& core, const LowerConfig& = {});

/// Emitted::preamble of kernels that call these routines.
std::string preamble_with(const std::set<std::string>& routines);

}  // namespace precast::emit
