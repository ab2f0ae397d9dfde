// Parallel loops of artifacts on LibTorch's own threads.
#pragma once
#include "precast/artifact_abi.h"

namespace precast::host_torch {

/// The parallel_for of precast_host; in a parallel region it runs on the calling thread.
void parallel_for(void* context, precast_i64 count, precast_i64 grain,
                  void (*fn)(void* arg, precast_i64 begin, precast_i64 end), void* arg);

}  // namespace precast::host_torch
