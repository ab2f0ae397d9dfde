// A host without LibTorch: aligned memory, a small thread pool (PRECAST_NUM_THREADS), no host ops.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "precast/artifact_abi.h"

namespace precast::runtime {

/// One per call or per thread: keeps what was allocated, and the reason of a failure.
class StandaloneHost {
 public:
  explicit StandaloneHost(const char* const* host_op_names = nullptr, int n_host_ops = 0);
  ~StandaloneHost();
  StandaloneHost(const StandaloneHost&) = delete;
  StandaloneHost& operator=(const StandaloneHost&) = delete;

  const precast_host& host() const;
  int failure_kind() const;
  const std::string& failure() const;
  /// Memory made by allocate() belongs to the host; this hands one block over to the caller (free with free_block).
  static void free_block(void* handle);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs fn over [0, count) in pieces on the process-wide pool.
void parallel_for(precast_i64 count, precast_i64 grain, void (*fn)(void*, precast_i64, precast_i64), void* arg);
int num_threads();

}  // namespace precast::runtime
