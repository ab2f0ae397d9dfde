// compile() beside eager: steady state, time to the N-th call from nothing, the slowest call of an asynchronous start.
#pragma once
#include <string>
#include <vector>

namespace precast::bench {

/// The rows named in `wanted`; all, if it is empty.
void bench_jit(const std::vector<std::string>& wanted);

}  // namespace precast::bench
