// Text form of a graph. print(parse(t)) is canonical; parse(print(g)) equals g, renumbered (graph.h).
//
//   graph(%0: f32[64,784] "x", %1: f32[256,784] "fc1.weight") {
//     %2: f32[784,256]{1,784} = prim::view(base=%1, offset=0)
//     %3: f32[64,256] = aten::mm(self=%0, mat2=%2)
//     _ = aten::add_.Tensor(self=%3 -> %4: f32[64,256], other=%0, alpha=1)
//     [2.5] = aten::_local_scalar_dense(self=%4)
//     (%5: f32[2], %6: f32[2]) = aten::some_list_op(tensors=[%4, None], dims=int[], eps=1e-05, dtype=f32)
//     return (%4, %5)
//   }
//
// Sizes, strides, offsets and integer arguments may be expressions (size.h) over symbols, which stand before the graph
// with their bounds and the value they had when it was recorded:
//   symbols: u0 in [0, inf) hint 8, u1 in [2, 64] hint 16
//   graph(%0: f32[u0,3]) {
//     %1: f32[3*u0] = prim::view(base=%0, offset=0)
// A symbol named like a dtype stands in parentheses where it is an argument: size=(u8).
//
// Returns: a value; `_` (no new value); `[condition]`; `(a list, ...)`; several are separated by commas,
// none at all leaves the ` = ` out. `a -> %n: type` is a write. Arguments:
//   None true -1 2.5 1e-05 inf -inf nan complex(1.0, -0.0) "text\n" f32 cpu cuda:0 %3 undefined
//   [%1, None] [1, 2] [0.5] [true]   and empty: Tensor[] int[] float[] bool[]
// Operands that share memory follow the arguments, `argument[entry] @ byte offset: type of the view`:
//   ... aten::op(a=%1, b=[%2]) shared(%0 -> %7: f32[4], a @ 0: f32[2], b[0] @ 8: f32[2])
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
