// The geometry that interpolations share.
#pragma once
#include <vector>

#include "passes/rules.h"

namespace precast::passes {

struct Axis {
  int64_t d, in, out;
  double scale;  // operand elements to an output element, rounded to `arithmetic`
  bool align_corners;
  ir::Dtype arithmetic;  // f32; f64 for f64
  ir::Dtype weights{};   // what weights are rounded to
};

/// Of an operand of these sizes: "self", or "input_size" of a backward. The last axis comes first.
std::vector<Axis> axes(Op&, ir::Dtype arithmetic, const Dims& in);
/// A vector over the axis, to multiply with x.
Val along(Val v, const Axis&, Val x);
/// Where eager's arithmetic has the centre of each output element, in operand elements.
Val real_places(Builder&, const Axis&);

/// As images: integers in fixed point. `cubic`: four taps.
void resample_bytes(Op&, bool cubic);

}  // namespace precast::passes
