// Reading and writing whole files: mapped or all at once, and never a half-written result.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace precast::io {

/// A file mapped into memory, private: writes to it stay in this process. Empty files map to nothing.
struct MappedFile {
  std::shared_ptr<void> owner;
  std::span<std::byte> bytes;
};
/// Throws PrecompileError "<path>: cannot be opened: <reason>".
MappedFile map_file(const std::filesystem::path& path);

/// Writes the pieces in order to a temporary file beside `path` and renames it: mode and links stay as they were, a new
/// file gets what the umask leaves. Throws PrecompileError, also when `path` is there and no regular file;
/// what stood at `path` before is then untouched.
void write_file(const std::filesystem::path& path, const std::vector<std::span<const std::byte>>& pieces);

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace precast::io
