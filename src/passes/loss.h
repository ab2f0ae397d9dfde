// How losses are reduced.
#pragma once
#include "passes/builder.h"

namespace precast::passes {

enum Reduction { kNone = 0, kMean = 1, kSum = 2 };  // at::Reduction

/// All of `loss`, or its mean or sum.
Val reduced(Val loss, int64_t reduction);

}  // namespace precast::passes
