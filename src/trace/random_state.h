// The default generator during a call: random ops may advance it, nothing else may touch it.
#pragma once
#include <ATen/core/Generator.h>

namespace precast::trace {

class RandomState {
 public:
  RandomState();   // remembers the state, and starts to watch
  ~RandomState();  // stops watching

  /// Whether seeding, a state write or a raw draw happened since the last look.
  bool disturbed() const;
  void accept();  // after a recorded random op

  /// Stops watching; the seed number is the caller's again.
  void release();
  at::Tensor state() const;
  void set_state(const at::Tensor&);
  const at::Tensor& start() const { return start_; }

 private:
  uint64_t fingerprint() const;  // with the generator's lock held

  mutable at::Generator generator_;
  at::Tensor start_;
  uint64_t last_ = 0;
  int started_ = 0;     // among all captures
  bool alone_ = false;  // when it started
  bool watching_ = false;
};

/// Puts the default generator back as it was: what runs meanwhile draws none of the call's numbers.
class KeepRandomState {
 public:
  explicit KeepRandomState(bool needed = true);
  ~KeepRandomState();
  /// Not this time.
  void leave() { state_.reset(); }
  KeepRandomState(const KeepRandomState&) = delete;
  KeepRandomState& operator=(const KeepRandomState&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace precast::trace
