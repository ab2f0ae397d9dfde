// Memory for results. Fresh large results cost page faults on each call, so blocks of 1 MiB and more are recycled:
// when the user drops a result, its memory goes back to the artifact that made it.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>

#include "precast/artifact_abi.h"

namespace precast::host_torch {

class OutputMemory {
 public:
  /// Keeps at most `keep_bytes` of dropped blocks.
  explicit OutputMemory(size_t keep_bytes);
  ~OutputMemory();
  OutputMemory(const OutputMemory&) = delete;
  OutputMemory& operator=(const OutputMemory&) = delete;

  /// A new CPU tensor of the dtype, sizes and strides in `t`, contents undefined. From any thread.
  at::Tensor allocate(const precast_tensor& t) const;

 private:
  struct Pool;
  std::shared_ptr<Pool> pool_;
};

}  // namespace precast::host_torch
