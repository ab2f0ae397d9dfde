// The name of an artifact's one exported function: what may be chosen.
#pragma once
#include <string>

namespace precast::artifact {

/// Throws std::invalid_argument for what is no C identifier, and for names that C, C++, the C library or precast's own
/// headers have taken: the text would not compile, or the program that links it would call the wrong function.
void check_symbol(const std::string& symbol);

}  // namespace precast::artifact
