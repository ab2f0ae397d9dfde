// From an argument of the graph to the dispatcher's value, as the schema wants it.
#pragma once
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <string>

#include "ir/graph.h"

namespace precast::host_torch {

/// The value of a non-tensor argument; a number for a Tensor parameter becomes a wrapped number.
/// Throws PrecompileError that starts with `what` when the schema does not take such a value.
c10::IValue to_ivalue(const ir::Attr&, const c10::Argument& parameter, const std::string& what);

/// Whether a non-tensor result equals the recorded one: same kind, same value; NaN equals NaN.
bool equals(const c10::IValue& found, const ir::Attr& expected);
std::string in_words(const c10::IValue&);
std::string in_words(const ir::Attr&);

}  // namespace precast::host_torch
