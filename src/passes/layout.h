// Strides that ATen gives to results. Restated from what TensorIterator and empty_like do, so that a rewritten
// node's type is the one the recorded node had.
#pragma once
#include <optional>
#include <vector>

#include "ir/type.h"

namespace precast::passes {

using ir::Dims;
using ir::Size;

/// Result of broadcasting; nothing when the sizes do not match.
std::optional<Dims> broadcast_sizes(const std::vector<const ir::Type*>& operands);
/// Strides of a new pointwise result of these sizes (TensorIterator).
Dims pointwise_strides(const std::vector<const ir::Type*>& operands, const Dims& sizes);
/// Strides of a copy in preserve_format: the same if dense, else the same order without gaps.
Dims preserved_strides(const ir::Type&);
/// Strides of a copy in the given c10::MemoryFormat.
std::optional<Dims> format_strides(const ir::Type&, int64_t memory_format);

/// No two elements share a place and there are no gaps: a permutation of a contiguous block.
bool is_dense(const ir::Type&);
/// Two elements may share a place.
bool overlaps(const ir::Type&);
/// Equal up to dims of size 1, whose strides never matter, or both empty.
bool same_layout(const Dims& sizes, const Dims& a, const Dims& b);
/// Strides that show the elements in their order under other sizes, if no copy is needed.
std::optional<Dims> reshaped_strides(const ir::Type&, const Dims& sizes);

}  // namespace precast::passes
