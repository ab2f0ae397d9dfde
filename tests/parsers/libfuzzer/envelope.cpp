#include <span>
#include <vector>

#include "artifact/cache.h"
#include "target.h"
#include "util/sha256.h"

using namespace precast;

// As it is, and with the checksum that it should have: else nothing would get past that.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  artifact::read_cache(bytes);
  std::vector<std::byte> sealed(bytes.begin(), bytes.end());
  const Digest digest = sha256(sealed);
  const auto* d = reinterpret_cast<const std::byte*>(digest.data());
  sealed.insert(sealed.end(), d, d + digest.size());
  const auto read = artifact::read_cache(sealed);
  if (const auto* cache = std::get_if<artifact::Cache>(&read)) {
    const auto written = artifact::write_cache(*cache);
    const auto again = artifact::read_cache(written);
    if (!std::holds_alternative<artifact::Cache>(again) ||
        artifact::write_cache(std::get<artifact::Cache>(again)) != written)
      throw std::runtime_error("a cache that was written reads as another");
  }
  return 0;
}
