// SHA-256 of bytes: binds a cache to its text, and finds damage.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace precast {

using Digest = std::array<std::byte, 32>;
Digest sha256(std::span<const std::byte>);
std::string sha256_hex(std::string_view text);

}  // namespace precast
