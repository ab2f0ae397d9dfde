// A tensor for programs without LibTorch: type, memory, and who owns the memory.
// Files (.npy, .safetensors) are read into arrays; generated inputs are arrays too.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>

#include "ir/type.h"

namespace precast::io {

struct Array {
  ir::Type type;
  std::byte* data = nullptr;    // first element
  std::shared_ptr<void> owner;  // keeps `data` alive: a block, or a mapped file
};

/// Bytes of a contiguous tensor; nothing if sizes (from a file, perhaps) are negative or too large to be real.
std::optional<uint64_t> byte_count(ir::Dtype dtype, const std::vector<int64_t>& sizes);

/// Fresh memory for `type` (strides >= 0), zeroed, 64-byte aligned. Throws PrecompileError when there is not so much.
Array allocate(ir::Type type);

/// `array` itself if it already has these strides, else a copy that has them.
Array with_strides(const Array& array, const std::vector<int64_t>& strides);

/// `array` itself if contiguous, else a contiguous copy.
Array contiguous(const Array& array);

}  // namespace precast::io
