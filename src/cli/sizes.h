// Sizes that an artifact leaves to the call: in words, from inputs, and for inputs that are made up.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "artifact/metadata.h"
#include "io/input.h"

namespace precast::cli {

using SymbolValues = std::map<int, int64_t>;  // by id

/// "any size", "a size of 2 to 64"
std::string bounds_text(const ir::Symbol&);
/// What the inputs, one a leaf, say of the symbols.
SymbolValues sizes_of(const artifact::Metadata&, const std::vector<io::Input>&);
/// Sizes for the n-th round of inputs that are made up: first those that were captured.
SymbolValues sizes_of_round(const artifact::Metadata&, int round);
/// The type at these sizes; as it is where one is missing.
ir::Type at_sizes(const ir::Type&, const SymbolValues&);

}  // namespace precast::cli
