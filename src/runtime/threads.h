// A small pool of threads for programs without LibTorch. PRECAST_NUM_THREADS sets their number (default: the cores).
#pragma once
#include "precast/artifact_abi.h"

namespace precast::runtime {

int num_threads();
/// Runs fn(arg, begin, end) over disjoint pieces that cover [0, count), none smaller than `grain` unless it is the
/// only one; returns when all are done. Calls from inside fn, and while another thread uses the pool, run serially.
void parallel_for(precast_i64 count, precast_i64 grain, void (*fn)(void* arg, precast_i64 begin, precast_i64 end),
                  void* arg);

}  // namespace precast::runtime
