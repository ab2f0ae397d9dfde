// Which ops ran on which dtypes: what the programs of a run covered.
#pragma once
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "program.h"

namespace precast::fuzz {

/// op -> dtype of its first tensor ("f32", ...) -> how many steps; "backward" counts steps of programs with backward.
using Coverage = std::map<std::string, std::map<std::string, int>>;

Coverage coverage(const std::vector<Program>&);
void print_grid(const Coverage&, std::ostream&);

}  // namespace precast::fuzz
