// model.cache: compiled forms of one exact text, in an envelope that shows damage. It never holds weights.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace precast::artifact {

inline constexpr unsigned kCacheVersion = 1;

struct CacheVariant {
  std::string target;              // "x86_64-linux": must match to load
  std::string toolchain;           // compiler that made it
  std::vector<std::string> isa;    // sections inside
  std::vector<std::byte> payload;  // a shared object
};

struct Cache {
  std::string backend, tracer;
  std::string code_hash;               // sha256 of the exact text, hex
  std::vector<CacheVariant> variants;  // empty: backend="eager", or no compiler at capture
};

/// Why bytes are no usable cache: the field and what was expected and found.
struct CacheProblem {
  std::string field, expected, found;
};

std::vector<std::byte> write_cache(const Cache&);
std::variant<Cache, CacheProblem> read_cache(std::span<const std::byte>);

}  // namespace precast::artifact
