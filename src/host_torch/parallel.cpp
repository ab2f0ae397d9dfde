// Compiled with OpenMP: at::parallel_for is a template that is serial without it.
#include "host_torch/parallel.h"

#include <ATen/Parallel.h>
#include <pthread.h>

namespace precast::host_torch {

namespace {

// OpenMP's threads do not live on in a forked child, and libgomp waits for them for ever.
bool in_forked_child = false;
[[maybe_unused]] const int watching = ::pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });

}  // namespace

void parallel_for(void*, precast_i64 count, precast_i64 grain,
                  void (*fn)(void* arg, precast_i64 begin, precast_i64 end), void* arg) {
  if (in_forked_child) {
    if (count > 0) fn(arg, 0, count);
    return;
  }
  at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) { fn(arg, begin, end); });
}

}  // namespace precast::host_torch
