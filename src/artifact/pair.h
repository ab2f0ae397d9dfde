// Writes an artifact and its cache as a pair, both or neither, and reads such a pair.
// What stood there before stays whole on any failure; a crash leaves the old pair, the new one, or none.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace precast::artifact {

struct PairBytes {
  std::string code;
  std::vector<std::byte> cache;
};

/// For tests: called before each step with its name; throwing there is a failure of that step.
using WriteHook = std::function<void(std::string_view step)>;

/// Folders are made; permissions of replaced files are kept. Throws PrecompileError naming the file and the reason;
/// std::invalid_argument when both paths name one file.
void write_pair(const std::filesystem::path& artifact_path, const std::filesystem::path& cache_path,
                std::string_view code, std::span<const std::byte> cache, const WriteHook& = {});

/// Never sees a pair half replaced. Throws PrecompileError naming the file that cannot be read and why.
PairBytes read_pair(const std::filesystem::path& artifact_path, const std::filesystem::path& cache_path);

}  // namespace precast::artifact
