// Random programs that eager accepts, from a seed.
#pragma once
#include "program.h"

namespace precast::fuzz {

/// The same seed gives the same program, whatever was generated before.
Program generate(uint64_t seed);

/// Whether comparing says something: the program runs on the values of the capture and twice on others, and noise on
/// its inexact steps does not change much.
bool well_conditioned(const Program&);

}  // namespace precast::fuzz
