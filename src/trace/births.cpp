#include "trace/births.h"

#include "trace/torch_internals.h"

namespace precast::trace {

struct Births::Hook : c10::MemoryReportingInfoBase {
  static constexpr int64_t kSmall = 64;  // one number, with what an allocator may round it up to
  std::mutex mutex;
  std::unordered_set<const void*> alive;

  void reportMemoryUsage(void* p, int64_t size, size_t, size_t, c10::Device) override {
    if (size > kSmall || size < -kSmall) return;
    std::lock_guard lock(mutex);
    if (size > 0)
      alive.insert(p);
    else
      alive.erase(p);
  }
  bool memoryProfilingEnabled() const override { return true; }
};

void Births::watch() {
  if (c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE)) return;
  hook_ = std::make_shared<Hook>();
  guard_.emplace(c10::DebugInfoKind::PROFILER_STATE, hook_);
}

void Births::stop() { guard_.reset(); }

bool Births::contains(const at::Tensor& t) const {
  if (!hook_) return false;
  std::lock_guard lock(hook_->mutex);
  return hook_->alive.contains(address(t.storage().unsafeGetStorageImpl()));
}

}  // namespace precast::trace
