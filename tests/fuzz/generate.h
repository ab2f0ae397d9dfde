// Random programs that eager accepts, from a seed.
#pragma once
#include "program.h"

namespace precast::fuzz {

/// The same number gives the same program, whatever was generated before. Numbers from kFirstTarget (targets.h) on are
/// for one op and dtype each; where there is none, the program has no steps and says why.
Program generate(uint64_t seed);

/// Whether comparing says something: the program runs on the values of the capture and twice on others, and noise on
/// its inexact steps does not change much.
bool well_conditioned(const Program&);

}  // namespace precast::fuzz
