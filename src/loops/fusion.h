// Groups steps into kernels: what runs over the same points runs in the same loops. A kernel's steps share loop
// variables, so a value one step stores and another reads at the same point stays in registers.
#pragma once
#include <vector>

#include "loops/program.h"

namespace precast::loops {

/// `outer` are the points computed independently. Where there are reductions (or values that do not vary along a row),
/// `inner` is the row: reductions run over it, and their results live on `outer`.
struct Kernel {
  std::vector<Atom> outer, inner;
  std::vector<Step> steps;  // in the kernel's variables, in order
  std::vector<int> ids;     // the program's steps
};

/// In a valid order. `epilogues`: what follows a matrix product element by element may join it.
std::vector<Kernel> fuse(Program&, bool epilogues = true);

/// Merges variables that every access walks as one. `groups` lists the variables that may be merged with each other.
void collapse(std::vector<Step*>, std::vector<std::vector<Atom>*> groups, Exprs&);

}  // namespace precast::loops
