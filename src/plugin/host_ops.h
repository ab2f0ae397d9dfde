// Host ops of an artifact for a program without LibTorch of its own: see precast_plugin.open_host_ops.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "artifact/metadata.h"
#include "host_torch/graph_executor.h"
#include "precast/artifact_abi.h"

namespace precast::plugin {

class HostOps {
 public:
  explicit HostOps(const char* artifact_path);
  void run(int index, void* const* in, void** out);

 private:
  void run_graph(void* const* in, void** out);

  artifact::Metadata metadata_;
  std::vector<host_torch::GraphExecutor> ops_;
  std::optional<host_torch::GraphExecutor> whole_;
  std::vector<at::Tensor> made_;
};

}  // namespace precast::plugin
