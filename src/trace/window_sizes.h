// The sizes of what convolutions, pools, slices and other windows make, as LibTorch computes them. They are rounded, so
// a few sizes that were tried do not tell them: a kernel of 40 gives one column at any width from 40 to 79.
#pragma once
#include <optional>

#include "trace/op_log.h"

namespace precast::trace {

struct Geometry {
  ir::Dims sizes;
  std::optional<ir::Size> offset;  // elements from the start of the storage; nothing: as the op says
};

/// Of the op's first result; nothing for an op that makes no windows.
std::optional<Geometry> window_geometry(const LogEntry&);

}  // namespace precast::trace
