// Turns recording on in this thread, and in those that inherit its state (at::launch, backward).
#pragma once
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <optional>

#include "trace/op_recorder.h"

namespace precast::trace {

/// In this thread, now.
bool is_recording();
/// Where this thread records: the call cannot be. Throws PrecompileError where fn shall not go on.
void refuse_recording(const std::string& message);
/// What this thread records has been refused already.
bool recording_has_failed();
/// Whether fn goes on after a refusal.
bool runs_through();
void set_run_through(bool);
/// How many ops that this thread's recording has seen drew random numbers.
size_t recorded_draws();

/// Registers what recording needs with LibTorch, once: that takes some 10 ms. A recording does it itself. Throws
/// PrecompileError where another library has taken the place.
void prepare_recording();

class RecordingScope {
 public:
  /// PrecompileError when this thread records already.
  explicit RecordingScope(OpRecorder&);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  OpRecorder& recorder_;
  at::CallbackHandle watch_;  // sees the ops of other threads
  std::optional<at::RecordFunctionGuard> not_here_;
  std::optional<c10::DebugInfoGuard> info_;
  std::optional<c10::impl::IncludeDispatchKeyGuard> key_;
};

}  // namespace precast::trace
