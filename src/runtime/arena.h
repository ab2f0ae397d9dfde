// Scratch memory of calls: each call in flight has a block of its own, blocks are kept for the next call.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace precast::runtime {

class ArenaPool {
 public:
  struct Block {
    char* data = nullptr;
    int64_t bytes = 0;
  };

  ArenaPool() = default;
  ~ArenaPool();
  ArenaPool(const ArenaPool&) = delete;
  ArenaPool& operator=(const ArenaPool&) = delete;

  /// At least so many bytes, 64-byte aligned, any content; null for no bytes. Throws std::bad_alloc.
  Block* take(int64_t bytes);
  void give_back(Block*);

 private:
  Block* kept();
  std::atomic<Block*> first_{nullptr};  // serves one thread at a time without a lock
  std::mutex mutex_;
  std::vector<Block*> others_;
};

}  // namespace precast::runtime
