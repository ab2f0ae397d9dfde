// Sliding windows over channels-last tensors [N, S..., C], for convolution and pooling.
#pragma once
#include "passes/builder.h"

namespace precast::passes {

/// [N, C, S...] as [N, S..., C] and back: views.
Val channels_last(Val);
Val channels_first(Val);

/// Contiguous, with a border of `value` around the spatial dims.
Val bordered(Val, const Dims& low, const Dims& high, Number value);

/// Windows of `size` elements, `dilation` apart; `count` of them, `stride` apart, the first at `start`: a view
/// [N, count..., size..., C] of a contiguous tensor. All lists are of the spatial dims.
struct Windows {
  Dims start, count, stride, size, dilation;
};
Val windows(Val, const Windows&);

/// What lies under the windows: the border they need on either side of `sizes`, none where they stay inside.
struct Border {
  Dims low, high;
};
Border border(const Dims& sizes, const Windows&);

/// `value` for each of `rank` dims, where ATen takes one number for all.
Dims for_each_dim(Dims, size_t rank);

}  // namespace precast::passes
