// The grid of ops and dtypes, and programs made for one of its cells.
#pragma once
#include <vector>

#include "ops.h"

namespace precast::fuzz {

struct Target {
  const Family* family;
  const char* op;
  at::ScalarType dtype;  // of the op's first tensor
};
/// Each op of each family with each dtype of the grid.
const std::vector<Target>& targets();

/// Program kFirstTarget + i is made for targets()[i]. Smaller numbers are seeds.
constexpr uint64_t kFirstTarget = uint64_t{1} << 40;

}  // namespace precast::fuzz
