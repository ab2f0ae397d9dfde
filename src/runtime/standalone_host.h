// A host without LibTorch: aligned memory, the thread pool, no host ops.
#pragma once
#include <memory>
#include <string>

#include "artifact/metadata.h"
#include "precast/artifact_abi.h"

namespace precast::runtime {

/// One per call: keeps the memory it allocated until it dies, and the reason of a failure.
class StandaloneHost {
 public:
  /// `metadata` names the host ops in messages; it must outlive the host.
  explicit StandaloneHost(const artifact::Metadata& metadata);
  ~StandaloneHost();
  StandaloneHost(const StandaloneHost&) = delete;
  StandaloneHost& operator=(const StandaloneHost&) = delete;

  const precast_host& host() const;
  const std::string& failure() const;
  /// Throws PrecompileError (PRECAST_CONTRACT, PRECAST_RUN, PRECAST_HOST) or InternalError for a code that is not 0.
  void check(int code) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace precast::runtime
