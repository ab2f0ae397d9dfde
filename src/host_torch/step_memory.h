// Memory for results that is used again in each step (compile() with mode "reduce-overhead"): a result is valid until
// the next step begins, whoever holds it. A result that nobody holds any more frees its memory at once.
#pragma once
#include <ATen/core/Tensor.h>

#include <mutex>
#include <vector>

#include "precast/artifact_abi.h"

namespace precast::host_torch {

/// A step begins: of the whole process.
void begin_step();

class StepMemory {
 public:
  /// A new tensor as `t` describes it, perhaps on the memory of a result of an earlier step; autograd then sees that
  /// one as written. From any thread.
  at::Tensor allocate(const precast_tensor& t) const;

 private:
  struct Block {
    c10::Storage storage;
    c10::VariableVersion version;  // of the result that was made on it last
    int64_t step = 0;
  };
  mutable std::mutex mutex_;
  mutable std::vector<Block> blocks_;
};

}  // namespace precast::host_torch
