// Small allocations made during the call. LibTorch makes some 0-dim tensors from numbers without
// any op; that such a tensor was born inside tells it from one that fn closes over.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>

namespace precast::trace {

class Births {
 public:
  /// Watches allocations of this thread (and of threads that inherit its state), unless a profiler does already.
  void watch();
  void stop();
  bool contains(const at::Tensor&) const;

 private:
  struct Hook;
  std::shared_ptr<Hook> hook_;
  std::optional<c10::DebugInfoGuard> guard_;
};

}  // namespace precast::trace
