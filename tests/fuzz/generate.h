// Random programs that eager accepts, from a seed.
#pragma once
#include "program.h"

namespace precast::fuzz {

/// The same seed gives the same program, whatever was generated before.
Program generate(uint64_t seed);

/// Largest disagreement of each returned tensor, written input and gradient with the same program under noise on its
/// inexact steps: how much of a difference in the last bits may show at the end. Empty if the program is so sensitive
/// that comparing it would say nothing.
bool well_conditioned(const Program&);

}  // namespace precast::fuzz
