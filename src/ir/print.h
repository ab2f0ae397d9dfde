// Text form of a graph. parse(print(g)) equals g; print(parse(t)) is canonical.
//
//   graph(%0: f32[64,784] "x", %1: f32[256,784] "fc1.weight") {
//     %2: f32[784,256]{1,784} = prim::view(base=%1, offset=0)
//     %3: f32[64,256] = aten::mm(self=%0, mat2=%2)
//     _ = aten::add_.Tensor(self=%3 -> %4: f32[64,256], other=%0, alpha=1)
//     [2.5] = aten::_local_scalar_dense(self=%4)
//     return (%4)
//   }
#pragma once
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace precast::ir {

std::string print(const Graph&);
std::string print(const Graph&, const Node&);  // one line, no newline
/// Throws precast::PrecompileError naming line, column and what was expected.
Graph parse(std::string_view text);

}  // namespace precast::ir
