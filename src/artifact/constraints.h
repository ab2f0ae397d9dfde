// What a call's sizes must keep to, besides the types of its arguments: no size of a value may come out negative, no
// window may leave what it is a window on, no divisor may be zero.
#pragma once
#include "artifact/signature.h"

namespace precast::artifact {

/// Expressions that must not be negative, where the bounds of the symbols do not say so already.
ir::Dims constraints_of(const ir::Graph& recorded, const Signature&);

}  // namespace precast::artifact
