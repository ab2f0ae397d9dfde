// Host ops of an artifact for a program without LibTorch of its own: see precast_plugin.open_host_ops.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "artifact/compose.h"
#include "host_torch/sized_executors.h"
#include "precast/artifact_abi.h"

namespace precast::plugin {

class HostOps {
 public:
  explicit HostOps(const char* artifact_path);
  void run(int index, const precast_i64* symbols, void* const* in, void** out);

 private:
  void run_graph(const host_torch::GraphExecutor&, void* const* in, void** out);

  artifact::Text text_;
  std::vector<host_torch::SizedExecutors> executors_;  // the whole graph, then the host ops
  std::vector<at::Tensor> made_;
};

}  // namespace precast::plugin
