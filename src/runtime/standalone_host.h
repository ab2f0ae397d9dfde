// A host without LibTorch: aligned memory, the thread pool; host ops only if somebody lends them.
#pragma once
#include <memory>
#include <string>

#include "artifact/metadata.h"
#include "precast/runtime.h"

namespace precast::runtime {

/// One per call: keeps the memory it allocated until it dies, and the reason of a failure.
class StandaloneHost {
 public:
  /// `metadata` names the host ops in messages, `ops` runs them (may be null); both must outlive the host.
  explicit StandaloneHost(const artifact::Metadata& metadata, const precast_host_ops* ops = nullptr);
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
