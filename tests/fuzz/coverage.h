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

/// Why there is no program: op -> dtype -> reason.
using Holes = std::map<std::string, std::map<std::string, std::string>>;

const std::vector<std::pair<at::ScalarType, std::string>>& grid_dtypes();
std::string dtype_name(at::ScalarType);
/// The name of the dtype of its first tensor; "none" without one.
std::string dtype_of(const Step&, const std::vector<at::Tensor>& values);

Coverage coverage(const std::vector<Program>&);
/// A point is a cell without a program for a reason, which is printed below; a dash, one without a reason.
void print_grid(const Coverage&, const Holes&, std::ostream&);

}  // namespace precast::fuzz
