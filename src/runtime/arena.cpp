#include "runtime/arena.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace precast::runtime {
namespace {

// Large blocks ask for huge pages: first use of 40 MB then costs 3 ms instead of 10.
char* allocate(int64_t bytes) {
  const size_t huge = size_t{1} << 21, alignment = bytes >= int64_t{1} << 22 ? huge : 64;
  const size_t size = (static_cast<size_t>(bytes) + alignment - 1) / alignment * alignment;
  void* block = std::aligned_alloc(alignment, size);
  if (block == nullptr) throw std::bad_alloc();
  if (alignment == huge) ::madvise(block, size, MADV_HUGEPAGE);
  return static_cast<char*>(block);
}

}  // namespace

ArenaPool::~ArenaPool() {
  if (Block* block = first_.load()) others_.push_back(block);
  for (Block* block : others_) {
    std::free(block->data);
    delete block;
  }
}

ArenaPool::Block* ArenaPool::kept() {
  if (Block* block = first_.exchange(nullptr)) return block;
  std::lock_guard lock(mutex_);
  if (others_.empty()) return new Block;
  Block* block = others_.back();
  others_.pop_back();
  return block;
}

ArenaPool::Block* ArenaPool::take(int64_t bytes) {
  if (bytes == 0) return nullptr;
  Block* block = kept();
  if (block->bytes >= bytes) return block;
  std::free(block->data);  // too small: a call of larger sizes than those before
  *block = {};
  try {
    *block = {allocate(bytes), bytes};
  } catch (...) {
    delete block;
    throw;
  }
  return block;
}

void ArenaPool::give_back(Block* block) {
  Block* none = nullptr;
  if (block == nullptr || first_.compare_exchange_strong(none, block)) return;
  std::lock_guard lock(mutex_);
  others_.push_back(block);
}

}  // namespace precast::runtime
