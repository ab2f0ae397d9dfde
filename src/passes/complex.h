// Complex values as pairs of real ones: windows on their bytes, and back.
#pragma once
#include "passes/builder.h"

namespace precast::passes {

/// The same elements in these strides, of a dense layout.
Val complex_copy(Val, const Dims& strides);

}  // namespace precast::passes
