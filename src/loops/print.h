// Kernels as text for people: loops, what each step stores, from what. For trace folders and tests.
#pragma once
#include <string>
#include <vector>

#include "loops/fusion.h"

namespace precast::loops {

/// A line for each buffer, then for each kernel its loops and steps. Buffers are b0, b1, ..., loop variables i0, i1,
/// ..., values used more than once in a step v0, v1, ...
std::string print(const std::vector<Kernel>&, const Program&);

}  // namespace precast::loops
