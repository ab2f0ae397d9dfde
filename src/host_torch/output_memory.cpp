#include "host_torch/output_memory.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "host_torch/described.h"

namespace precast::host_torch {

namespace {
constexpr size_t kLarge = size_t{1} << 20, kHugePage = size_t{2} << 20;
}

struct OutputMemory::Pool {
  explicit Pool(size_t keep) : keep_bytes(keep) {}
  ~Pool() {
    for (auto& [bytes, block] : free_blocks) std::free(block);
  }

  void* take(size_t bytes) {
    {
      std::lock_guard lock(mutex);
      if (auto found = free_blocks.find(bytes); found != free_blocks.end()) {
        void* block = found->second;
        free_blocks.erase(found);
        free_bytes -= bytes;
        return block;
      }
    }
    void* block = std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage);
    TORCH_CHECK_WITH(OutOfMemoryError, block, "precast: cannot allocate ", bytes, " bytes for a result");
    madvise(block, bytes, MADV_HUGEPAGE);  // a hint; without huge pages it is refused and nothing is lost
    return block;
  }

  void give_back(void* block, size_t bytes) {
    {
      std::lock_guard lock(mutex);
      if (free_bytes + bytes <= keep_bytes) {
        free_blocks.emplace(bytes, block);
        free_bytes += bytes;
        return;
      }
    }
    std::free(block);
  }

  const size_t keep_bytes;
  std::mutex mutex;
  std::multimap<size_t, void*> free_blocks;
  size_t free_bytes = 0;
};

namespace {

/// A block in use; the pool lives as long as any of its blocks.
template <class Pool>
struct Block {
  std::shared_ptr<Pool> pool;
  void* data;
  size_t bytes;
  static void drop(void* self) {
    std::unique_ptr<Block> block(static_cast<Block*>(self));
    block->pool->give_back(block->data, block->bytes);
  }
};

}  // namespace

OutputMemory::OutputMemory(size_t keep_bytes) : pool_(std::make_shared<Pool>(keep_bytes)) {}
OutputMemory::~OutputMemory() = default;

at::Tensor OutputMemory::allocate(const precast_tensor& t) const {
  const Described result(t);
  if (result.bytes < kLarge) return result.empty();
  auto block = std::make_unique<Block<Pool>>(Block<Pool>{pool_, pool_->take(result.bytes), result.bytes});
  void* data = block->data;
  at::DataPtr pointer(data, block.release(), &Block<Pool>::drop, at::kCPU);
  return result.on(c10::Storage(c10::Storage::use_byte_size_t(), result.bytes, std::move(pointer),
                                c10::GetCPUAllocator(), /*resizable=*/true));
}

}  // namespace precast::host_torch
