// Compiled with OpenMP: at::parallel_for is a template that is serial without it.
#include "host_torch/parallel.h"

#include <ATen/Parallel.h>

namespace precast::host_torch {

void parallel_for(void*, precast_i64 count, precast_i64 grain,
                  void (*fn)(void* arg, precast_i64 begin, precast_i64 end), void* arg) {
  at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) { fn(arg, begin, end); });
}

}  // namespace precast::host_torch
