// Every live storage that the recording knows: what the graph calls its contents, and who made it.
// Weak references keep an address from being reused; they are dropped soon after the storage dies.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "trace/geometry.h"
#include "trace/op_info.h"
#include "trace/torch_internals.h"

namespace precast::trace {

struct StorageState {
  explicit StorageState(const at::Tensor&);

  c10::weak_intrusive_ptr<c10::StorageImpl> weak;
  c10::StorageImpl* impl;  // stays a valid object while `weak` lives
  const void* address;
  int64_t size;  // bytes

  // Contents: `value` is the whole root window; kNoValue while nothing is known and nobody needed it.
  Window root;
  ir::ValueId value = ir::kNoValue;
  std::vector<std::pair<Window, ir::ValueId>> views;  // windows on this very version that have a value
  KnownBytes known;

  // Origin.
  const OpInfo* maker = nullptr;  // null: it existed before the call
  int input_group = -1;           // the caller passed it
  /// Of the caller's memory: the windows that were passed, or that an op gave (hash_of_window). Another one is a view
  /// that fn closes over; that it is a view of what is passed holds in this call only.
  std::unordered_set<size_t> given;
  int gradient_of = -1;             // only accumulated into so far: the .grad of this source
  bool stands_for_nothing = false;  // that .grad was undefined before the call
  bool emptied = false;             // and is again: fn has asked, or zeroed it (zero_grad(false))
  bool asked = false;               // fn has asked whether there is that .grad
  int zeroed_of = -1;               // zero_ was all that happened to the .grad of this source
  uint32_t number = 0;

  // Memory that a raw pointer may reach unseen, and the hash of what recorded operations left in it.
  Bytes watched{};
  std::optional<uint64_t> hash;

  // During one op.
  uint64_t last_op = 0;
  int uses = 0;
  std::atomic<bool> running{false};  // a recorded op's kernel may touch it right now
  bool sealed = false, may_seal = false;
  int held_open = 0;  // a composite kernel reads its values

  bool alive() const { return !weak.expired(); }
  bool is_strange(const at::Tensor& t) const {  // t lies here
    return input_group >= 0 && t.numel() != 0 && !given.contains(hash_of_window(t));
  }
  uint64_t hash_now() const;  // of the watched bytes
};

class StorageTable {
 public:
  StorageState* find(const at::Tensor& t) { return find(t.unsafeGetTensorImpl()->unsafe_storage()); }
  StorageState* find(const c10::Storage& s) {
    const auto at = states_.find(s.unsafeGetStorageImpl());
    return at == states_.end() ? nullptr : at->second.get();
  }
  /// Safe from any thread; calls f(state) under the table's lock, if t's storage is known.
  template <class F>
  void inspect(const at::Tensor& t, F&& f) {
    std::lock_guard lock(mutex_);
    if (StorageState* s = find(t)) f(*s);
  }
  StorageState& add(const at::Tensor&, const OpInfo* maker);
  /// Another live storage over the same memory (copy-on-write ones excepted), or nullptr.
  const StorageState* overlapping(const StorageState&) const;
  /// Forgets dead storages: the young at every call, the old ones in turn.
  void sweep();
  /// Calls f(state) for each storage that is still alive.
  template <class F>
  void for_each_alive(F&& f) const {
    for (const auto& [impl, state] : states_)
      if (state->alive()) f(*state);
  }
  const OpInfo* maker(uint32_t number) const { return number < makers_.size() ? makers_[number] : nullptr; }

 private:
  bool forget_if_dead(c10::StorageImpl*);

  std::mutex mutex_;
  std::unordered_map<c10::StorageImpl*, std::unique_ptr<StorageState>> states_;
  std::vector<c10::StorageImpl*> young_, old_;
  size_t next_old_ = 0;
  std::vector<const OpInfo*> makers_;  // by StorageState::number
};

}  // namespace precast::trace
