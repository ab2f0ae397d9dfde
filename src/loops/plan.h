// Where temporary buffers stand in one block of memory: those alive at the same time do not overlap.
#pragma once
#include <cstdint>
#include <vector>

namespace precast::loops {

struct Lifetime {
  int first = 0, last = 0;  // steps of time, both included
  int64_t bytes = 0;
  int64_t offset = 0;  // the answer, a multiple of 64
};

/// Fills in the offsets; returns the size of the block.
int64_t plan(std::vector<Lifetime>&);

}  // namespace precast::loops
