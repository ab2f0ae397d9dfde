// Optimizer steps over lists: each entry becomes the op on one tensor.
#include "passes/rules.h"

namespace precast::passes {

std::span<const Row> optimizer_rules() { return {}; }

}  // namespace precast::passes
