#include "trace/random_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <mutex>

#include "trace/torch_internals.h"

namespace precast::trace {

namespace {

// While we watch, the generator reports this seed. Seeding again with the seed in use leaves the very same numbers,
// and only the change of this mark shows it. No random number depends on it.
constexpr uint64_t kMark = 0x7072656361737421;

at::CPUGeneratorImpl& impl(const at::Generator& g) { return *at::check_generator<at::CPUGeneratorImpl>(g); }

/// Captures in several threads share one generator: the first puts the mark there, the last takes it away.
struct Watch {
  std::mutex mutex;
  int watchers = 0, started = 0;
  uint64_t seed = 0;  // the caller's
};
Watch& watch() {
  static Watch w;
  return w;
}

uint64_t replace_seed(const at::Generator& g, uint64_t seed) {
  at::mt19937 engine = impl(g).engine();
  at::mt19937_data_pod data = engine.data();
  const uint64_t old = data.seed_;
  data.seed_ = seed;
  engine.set_data(data);
  impl(g).set_engine(engine);
  return old;
}

}  // namespace

RandomState::RandomState() : generator_(at::detail::getDefaultCPUGenerator()) {
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  const std::lock_guard shared(watch().mutex);
  const std::lock_guard lock(generator_.mutex());
  if (watch().watchers++ == 0)
    watch().seed = impl(generator_).engine().seed();
  else
    replace_seed(generator_, watch().seed);
  alone_ = watch().watchers == 1;
  started_ = ++watch().started;
  start_ = generator_.get_state();
  replace_seed(generator_, kMark);
  last_ = fingerprint();
  watching_ = true;
}

RandomState::~RandomState() { release(); }

bool RandomState::disturbed() const {
  const std::lock_guard shared(watch().mutex);
  const std::lock_guard lock(generator_.mutex());
  const bool alone = alone_ && watch().started == started_;
  // Beside other captures a draw may be of their threads: only a new seed tells then.
  return alone ? fingerprint() != last_ : impl(generator_).engine().seed() != kMark;
}
void RandomState::accept() {
  const std::lock_guard lock(generator_.mutex());
  last_ = fingerprint();
}

void RandomState::release() {
  if (!watching_) return;
  watching_ = false;
  const std::lock_guard shared(watch().mutex);
  const std::lock_guard lock(generator_.mutex());
  if (--watch().watchers == 0 && impl(generator_).engine().seed() == kMark) replace_seed(generator_, watch().seed);
}

at::Tensor RandomState::state() const {
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  const std::lock_guard shared(watch().mutex);
  const std::lock_guard lock(generator_.mutex());
  const uint64_t seed = impl(generator_).engine().seed();
  if (seed == kMark) replace_seed(generator_, watch().seed);
  const at::Tensor state = generator_.get_state();
  if (seed == kMark) replace_seed(generator_, kMark);
  return state;
}

void RandomState::set_state(const at::Tensor& state) {
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  const std::lock_guard shared(watch().mutex);
  const std::lock_guard lock(generator_.mutex());
  generator_.set_state(state);
  if (watch().watchers == 0) return;
  if (const uint64_t seed = impl(generator_).engine().seed(); seed != kMark) watch().seed = seed;
  replace_seed(generator_, kMark);
}

KeepRandomState::KeepRandomState(bool needed) {
  if (!needed) return;
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  generator_ = at::detail::getDefaultCPUGenerator();
  std::lock_guard lock(generator_.mutex());
  state_ = generator_.get_state();
}

KeepRandomState::~KeepRandomState() {
  if (!state_.defined()) return;
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  std::lock_guard lock(generator_.mutex());
  generator_.set_state(state_);
}

uint64_t RandomState::fingerprint() const {
  const at::mt19937_data_pod data = impl(generator_).engine().data();
  uint64_t hash = data.seed_;
  const auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 1099511628211ull;
    hash ^= hash >> 29;
  };
  mix(static_cast<uint64_t>(data.left_));
  mix(data.next_);
  for (uint32_t word : data.state_) mix(word);
  const auto mix_sample = [&](auto sample) {
    uint64_t bits = 0;
    if (sample) std::memcpy(&bits, &*sample, sizeof *sample);
    mix(sample ? bits + 1 : 0);
  };
  mix_sample(impl(generator_).next_float_normal_sample());
  mix_sample(impl(generator_).next_double_normal_sample());
  return hash;
}

}  // namespace precast::trace
