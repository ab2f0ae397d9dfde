// compile() beside eager: steady state, time to the N-th call from nothing, the slowest call of an asynchronous start,
// and what a call costs that does next to nothing.
#pragma once
#include <string>
#include <vector>

namespace precast::bench {

/// The rows named in `wanted`; all, if it is empty.
void bench_jit(const std::vector<std::string>& wanted);

/// In a process of its own: the seconds of each of the first calls of a row, one a line on stdout. `how`: "eager",
/// "compiled" or "async".
int first_calls(const std::string& row, const std::string& how);

}  // namespace precast::bench
