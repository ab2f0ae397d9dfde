// Whole files, with errors that name the file.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace precast {

/// Throws PrecompileError("cannot read <path>: <reason>"); `what` says what the file should be ("artifact", "cache").
std::string read_text_file(const std::filesystem::path&, std::string_view what);
std::vector<std::byte> read_binary_file(const std::filesystem::path&, std::string_view what);

}  // namespace precast
