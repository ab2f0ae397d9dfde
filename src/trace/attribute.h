// From the dispatcher's values to the graph's: numbers keep their kind, enumerations stay numbers,
// dtypes and devices get their own kind.
#pragma once
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <optional>

#include "ir/graph.h"

namespace precast::trace {

/// Nothing when the graph has no form for such a value (objects, storages, other generators than the default one).
std::optional<ir::Attr> to_attribute(const c10::IValue&, const c10::Type&);

/// The number a 0-dim CPU tensor holds, read past any seal.
c10::Scalar number_in(const at::Tensor&);
ir::Attr to_attribute(const c10::Scalar&);

}  // namespace precast::trace
