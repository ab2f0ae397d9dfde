// Where temporary buffers stand in one block of memory: those alive at the same time do not overlap. Buffers whose size
// a call decides stand behind the others, in slots; a slot begins where the one before it ends.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/size.h"

namespace precast::loops {

struct Lifetime {
  int first = 0, last = 0;  // steps of time, both included
  ir::Size bytes = 0;
  int64_t offset = 0;  // the answer, a multiple of 64
  int slot = -1;       // or this: the whole of a slot
};

struct Plan {
  int64_t bytes = 0;            // of what has a known size
  std::vector<ir::Size> slots;  // bytes of each, not rounded
};

/// Fills in offsets and slots.
Plan plan(std::vector<Lifetime>&);

}  // namespace precast::loops
