// save_cache_artifacts and load_cache_artifacts: entries of the cache as one blob. CBOR behind a line that says what it
// is, with a digest of its own.
#include <nlohmann/json.hpp>

#include "jit/disk_cache.h"
#include "precast/compile.h"
#include "util/sha256.h"

namespace precast {
namespace {

constexpr std::string_view kHead = "precast compiled entries 1\n";

}  // namespace

std::optional<std::vector<std::byte>> save_cache_artifacts() {
  const auto entries = jit::used_entries();
  if (entries.empty()) return std::nullopt;
  nlohmann::json j = nlohmann::json::object();
  for (const auto& [key, bytes] : entries) {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    j[key] = nlohmann::json::binary(std::vector<uint8_t>(data, data + bytes.size()));
  }
  const std::vector<uint8_t> body = nlohmann::json::to_cbor(j);
  const auto raw = std::as_bytes(std::span(body));
  const Digest digest = sha256(raw);
  std::vector<std::byte> blob;
  for (const char c : kHead) blob.push_back(static_cast<std::byte>(c));
  blob.insert(blob.end(), digest.begin(), digest.end());
  blob.insert(blob.end(), raw.begin(), raw.end());
  return blob;
}

int load_cache_artifacts(std::span<const std::byte> blob) {
  const std::string_view head(reinterpret_cast<const char*>(blob.data()), std::min(blob.size(), kHead.size()));
  if (head != kHead || blob.size() < kHead.size() + sizeof(Digest))
    throw PrecompileError("load_cache_artifacts: these bytes were not made by save_cache_artifacts of this version");
  const auto digest = blob.subspan(kHead.size(), sizeof(Digest)), body = blob.subspan(kHead.size() + sizeof(Digest));
  const Digest expected = sha256(body);
  if (!std::ranges::equal(digest, expected))
    throw PrecompileError("load_cache_artifacts: the bytes are damaged: their checksum differs");
  std::map<std::string, jit::Bytes> entries;
  try {
    const auto* data = reinterpret_cast<const uint8_t*>(body.data());
    const nlohmann::json j = nlohmann::json::from_cbor(data, data + body.size());
    for (const auto& [key, value] : j.items()) {
      const auto raw = std::as_bytes(std::span(value.get_binary()));
      entries[key].assign(raw.begin(), raw.end());
    }
  } catch (const nlohmann::json::exception& e) {
    throw PrecompileError(std::string("load_cache_artifacts: the bytes are damaged: ") + e.what());
  }
  return jit::add_entries(entries);
}

}  // namespace precast
