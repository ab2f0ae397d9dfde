// Scratch memory of calls: each call in flight has a block of its own, blocks are kept for the next call.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace precast::runtime {

class ArenaPool {
 public:
  explicit ArenaPool(int64_t bytes) : bytes_(bytes) {}
  ~ArenaPool();
  ArenaPool(const ArenaPool&) = delete;
  ArenaPool& operator=(const ArenaPool&) = delete;

  /// 64-byte aligned, any content; null when the pool's blocks have no bytes. Throws std::bad_alloc.
  char* take();
  void give_back(char* block);

 private:
  int64_t bytes_;
  std::atomic<char*> first_{nullptr};  // serves one thread at a time without a lock
  std::mutex mutex_;
  std::vector<char*> others_;
};

}  // namespace precast::runtime
