// Random programs through compile(): called twice with each of several kinds of inputs, and again with the first.
#pragma once
#include <cstdint>

namespace precast::fuzz {

/// Programs `seed`, `seed + 1`, ...: most on graphs run op by op, each twentieth on compiled kernels. How many failed.
int run_jit(uint64_t seed, int programs);

}  // namespace precast::fuzz
