// The .safetensors format: 8-byte length, JSON header, raw bytes. Named tensors, mapped rather than copied.
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "io/array.h"

namespace precast::io {

struct NamedArray {
  std::string name;
  Array array;
};

/// In the order of the data in the file. Arrays point into the mapped file, or hold a copy where the data is not
/// aligned to the element. A malformed file is refused with a PrecompileError that says what is wrong.
std::vector<NamedArray> read_safetensors(const std::filesystem::path& path);

/// Stored in the given order, contiguous, each aligned to its element. `notes` go to "__metadata__".
/// Throws PrecompileError for a repeated name.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedArray>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& notes = {});

}  // namespace precast::io
