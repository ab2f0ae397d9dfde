// Executors of one graph, one for each values of its symbols that calls came with lately.
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "artifact/metadata.h"
#include "host_torch/graph_executor.h"
#include "precast/artifact_abi.h"

namespace precast::host_torch {

class SizedExecutors {
 public:
  /// The graph's text; its symbols are those of the artifact. `symbols` has a value for each.
  std::shared_ptr<const GraphExecutor> get(const artifact::Metadata&, const std::string& graph,
                                           const precast_i64* symbols);

 private:
  using Sizes = std::vector<precast_i64>;
  struct Entry {
    Sizes sizes;
    std::shared_ptr<const GraphExecutor> executor;
  };
  std::mutex mutex_;
  std::list<Entry> recent_;  // the latest first
};

}  // namespace precast::host_torch
