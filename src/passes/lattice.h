// Two windows on the same memory, compared element by element: their strides count in one system of digits.
#pragma once
#include <optional>

#include "passes/layout.h"

namespace precast::passes {

/// In elements of one dtype.
struct Window {
  int64_t offset = 0;
  Dims sizes, strides;
};

/// Whether the windows are known to have no element in common.
bool apart(const Window&, const Window&);

/// Where the elements of `part` stand in a tensor with these strides that was written into `whole`: a window on that
/// tensor with the sizes of `part`. Nothing where `part` has elements outside, or no strides show them.
std::optional<Window> inside(const Window& part, const Window& whole, const Dims& strides);

}  // namespace precast::passes
