// PRECAST_LOGS=recompiles,guards,dynamic,graph,code,fusion,perf_hints: what the compiler does, as it does it, on
// stderr.
#pragma once
#include <string>
#include <string_view>

namespace precast::jit {

bool logs(std::string_view topic);
/// A line (or several) of this topic, if it is asked for.
void log(std::string_view topic, std::string_view text);

}  // namespace precast::jit
