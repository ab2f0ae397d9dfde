// Test lines with a size that only a call knows: the line is recorded at several sizes, and what follows the size
// becomes an expression of u0.
#pragma once
#include <optional>
#include <vector>

#include "op_cases.h"

namespace precast::host_torch {

struct SizedForm {
  ir::Graph graph;             // recorded, with u0
  std::vector<int64_t> sizes;  // to try
  std::vector<Case> at;        // the line at each of them
};

/// Varies the first size of the first operand, with others that must be equal to it. Nothing where eager refuses that,
/// or sizes follow in a way that no polynomial says.
std::optional<SizedForm> sized_form(const Case&);

}  // namespace precast::host_torch
