// Between at::Tensor and ir::Type: geometry in words of the graph, raw windows on memory, exact clones.
// All of it works below autograd on strided tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

#include "ir/type.h"

namespace precast::host_torch {

ir::Type type_of(const at::Tensor&);
at::TensorOptions options_of(const ir::Type&);
at::Tensor empty(const ir::Type&);

/// An alias of base's memory with the geometry, dtype and bits of `type`, `offset_bytes` after base's first element.
/// Where the dtype's alignment does not allow an alias of this storage it is a copy.
at::Tensor window(const at::Tensor& base, int64_t offset_bytes, const ir::Type& type);

/// Same geometry and bits on memory of its own; bytes between the elements are kept as well.
at::Tensor clone_bytes(const at::Tensor&);

/// `dst` gets src's bytes element by element; conj and neg bits play no part. Sizes and dtype are equal.
void copy_window(const at::Tensor& dst, const at::Tensor& src);

/// `t` with exactly the layout and bits of `type`: itself, an alias or a copy. Throws PrecompileError that starts
/// with `what` when sizes, dtype or device differ.
at::Tensor conform(const at::Tensor& t, const ir::Type& type, const std::string& what);

}  // namespace precast::host_torch
