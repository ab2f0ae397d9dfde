// One loaded artifact, called from several threads at once.
#pragma once
#include <string>
#include <vector>

namespace precast::bench {

/// The rows named in `wanted`; all, if it is empty.
void bench_threads(const std::vector<std::string>& wanted);

}  // namespace precast::bench
