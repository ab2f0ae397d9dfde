// Writes an artifact and its cache as a pair: both, or neither; what stood there before stays whole on failure.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

namespace precast::artifact {

/// For tests: called before each step with its name; throwing there is a failure of that step.
using WriteHook = std::function<void(std::string_view step)>;

/// Folders are made; permissions of replaced files are kept. Throws PrecompileError naming the file and the reason;
/// std::invalid_argument when both paths name one file.
void write_pair(const std::filesystem::path& artifact_path, const std::filesystem::path& cache_path,
                std::string_view code, std::span<const std::byte> cache, const WriteHook& = {});

}  // namespace precast::artifact
