// NumPy's .npy files: header versions 1 to 3, every dtype the graph has, both memory orders.
// NumPy has no bfloat16: it is written as uint16 (the bits); "|V2", which ml_dtypes writes, is read as bfloat16.
#pragma once
#include <filesystem>

#include "io/array.h"

namespace precast::io {

/// Throws PrecompileError naming the file and what is wrong with it.
Array read_npy(const std::filesystem::path& path);

/// Writes `array` in C order to a temporary name and renames it. Throws PrecompileError.
void write_npy(const std::filesystem::path& path, const Array& array);

}  // namespace precast::io
