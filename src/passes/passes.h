// From a recorded graph to core ops (docs/core-ops.md). Each pass leaves a graph that still computes the same.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ir/choices.h"
#include "ir/graph.h"

namespace precast::passes {

/// The pipeline: decompose, simplify, choose layouts, share equal nodes, drop dead ones, renumber. A node that no rule
/// handles exactly stays as it was recorded and becomes a host op.
/// `seen` is shown the graph after each pass.
using SeePass = std::function<void(const std::string& pass, const ir::Graph&)>;
void to_core(ir::Graph&, const ir::Choices& = {}, const SeePass& seen = {});

/// Rewrites in-place and compound ops into core ops; the tables are in the files named after their families.
void decompose(ir::Graph&);
/// Composes views, drops casts, copies and arithmetic that change nothing (bit for bit).
void simplify(ir::Graph&);
/// Reads what was written into a window, or joined, from where it came from.
void forward_writes(ir::Graph&);
/// Gives the terms of a sum at once where one operation can.
void sum_at_once(ir::Graph&);
/// Multiplies the rows of independent products with one matrix at once.
void multiply_at_once(ir::Graph&);
/// Gives values between contractions the layout in which the contractions leave them. `padded`: with rows that do not
/// begin whole pages apart.
void relayout(ir::Graph&, bool padded = false);
/// Makes equal nodes one. Random ops and host ops are never merged.
void share_equal_nodes(ir::Graph&);
/// Drops nodes without use. Random ops, conditions and ops that may have other effects stay.
void drop_dead_nodes(ir::Graph&);

enum class Family { pointwise, creation, reduction, scan, order, matrix, index, shape, layer };
/// The family of a core op of docs/core-ops.md or a prim; nothing for other ops.
std::optional<Family> core_family(std::string_view op);
/// Whether the elements of the operands count, and not how they lie in memory.
bool reads_elements(const ir::Node&);
/// Why decompose leaves this node to the host; empty for a node in core normal form and for one it would rewrite.
std::string why_kept(const ir::Graph&, const ir::Node&);

}  // namespace precast::passes
