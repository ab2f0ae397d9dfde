// What a random program works on.
#pragma once
#include <vector>

#include "ops.h"

namespace precast::fuzz {

/// Inputs that fit each other often; those of `theme` fit its ops. All but indices and masks have `dtype`, if given.
std::vector<Input> random_inputs(Random&, Theme, std::optional<at::ScalarType> dtype = {});

}  // namespace precast::fuzz
