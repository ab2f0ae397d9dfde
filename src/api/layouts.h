// Which inputs an artifact takes in another layout than the captured one. Where nothing is written, a layout changes no
// value. Where something is, it tells whether contiguous() or reshape() gave the tensor itself or a copy of it.
#pragma once
#include "artifact/signature.h"
#include "ir/graph.h"

namespace precast::api {

/// Sources whose layout must be the captured one, whatever the backend: written ones, those that a result is (or lies
/// in), and those whose layout may have come down to a tensor that is written, that two results share, or that is a
/// copy for its layout's sake.
std::vector<int> fixed_layouts(const ir::Graph&, const artifact::Signature&);

/// For the eager backend, which takes any layout of the others: an expanded input that is read only as a whole may be
/// dense as well, so the graph then reads it as dense.
void loosen_layouts(ir::Graph&, const artifact::Signature&);

}  // namespace precast::api
