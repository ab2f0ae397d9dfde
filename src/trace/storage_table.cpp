#include "trace/storage_table.h"

#include <cstring>

namespace precast::trace {

StorageState::StorageState(const at::Tensor& t)
    : weak(t.storage().getWeakStorageImpl()),
      impl(t.storage().unsafeGetStorageImpl()),
      address(trace::address(impl)),
      size(static_cast<int64_t>(impl->nbytes())),
      root(window_of(t)),
      known(size) {}

uint64_t StorageState::hash_now() const {
  const char* p = static_cast<const char*>(trace::address(impl)) + watched.begin;
  uint64_t h[4] = {1, 2, 3, 4};  // four lanes: the multiplications overlap
  int64_t i = 0;
  const int64_t n = watched.end - watched.begin;
  for (; i + 32 <= n; i += 32)
    for (int lane = 0; lane < 4; ++lane) {
      uint64_t word;
      std::memcpy(&word, p + i + 8 * lane, 8);
      h[lane] = (h[lane] ^ word) * 0x9E3779B97F4A7C15ull;
      h[lane] ^= h[lane] >> 29;
    }
  for (; i < n; ++i) h[0] = (h[0] ^ static_cast<unsigned char>(p[i])) * 0x9E3779B97F4A7C15ull;
  return (h[0] * 3) ^ (h[1] * 5) ^ (h[2] * 7) ^ (h[3] * 11);
}

StorageState& StorageTable::add(const at::Tensor& t, const OpInfo* maker) {
  auto state = std::make_unique<StorageState>(t);
  state->maker = maker;
  state->number = static_cast<uint32_t>(makers_.size());
  makers_.push_back(maker);
  young_.push_back(state->impl);
  std::lock_guard lock(mutex_);
  auto& slot = states_[state->impl];
  slot = std::move(state);
  return *slot;
}

const StorageState* StorageTable::overlapping(const StorageState& a) const {
  if (a.size == 0 || !a.address || is_copy_on_write(a.impl)) return nullptr;
  const auto* begin = static_cast<const char*>(a.address);
  for (const auto& [impl, b] : states_) {
    if (b.get() == &a || b->size == 0 || !b->address || !b->alive() || is_copy_on_write(impl)) continue;
    const auto* other = static_cast<const char*>(b->address);
    if (other < begin + a.size && begin < other + b->size) return b.get();
  }
  return nullptr;
}

bool StorageTable::forget_if_dead(c10::StorageImpl* impl) {
  const auto at = states_.find(impl);
  if (at->second->alive()) return false;
  std::lock_guard lock(mutex_);
  states_.erase(at);
  return true;
}

void StorageTable::sweep() {
  constexpr size_t kYoung = 16, kOldPerCall = 4;
  std::erase_if(young_, [&](auto* s) { return forget_if_dead(s); });
  if (young_.size() > kYoung) {
    old_.insert(old_.end(), young_.begin(), young_.end() - kYoung / 2);
    young_.erase(young_.begin(), young_.end() - kYoung / 2);
  }
  for (size_t i = 0; i < kOldPerCall && !old_.empty(); ++i) {
    next_old_ %= old_.size();
    if (forget_if_dead(old_[next_old_])) {
      old_[next_old_] = old_.back();
      old_.pop_back();
    } else {
      ++next_old_;
    }
  }
}

}  // namespace precast::trace
