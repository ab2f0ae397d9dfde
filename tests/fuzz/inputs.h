// What a random program works on.
#pragma once
#include <vector>

#include "ops.h"

namespace precast::fuzz {

/// Inputs that fit each other often; those of `theme` fit its ops.
std::vector<Input> random_inputs(Random&, Theme);

}  // namespace precast::fuzz
