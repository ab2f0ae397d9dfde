// Complex values as pairs of real ones: windows on their bytes, and back.
#pragma once
#include <string_view>

#include "passes/rules.h"

namespace precast::passes {

/// nullptr when no table has the op for complex values.
Rule find_complex_rule(std::string_view op);

/// The same elements in these strides, of a dense layout.
Val complex_copy(Val, const Dims& strides);

}  // namespace precast::passes
