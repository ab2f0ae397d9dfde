#include "artifact/cache.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "util/errors.h"
#include "util/sha256.h"

// Layout, all numbers little-endian:
//   16 bytes "precast cache\n\0\0", u32 version, then strings (u64 length, bytes): backend, tracer, code_hash,
//   u64 number of variants, each: target, toolchain, isa joined by ' ', payload; then the SHA-256 of all before it.

namespace precast::artifact {
namespace {

constexpr std::string_view kMagic("precast cache\n\0\0", 16);

struct Writer {
  std::vector<std::byte> bytes;

  void raw(const void* data, size_t n) {
    const auto* p = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), p, p + n);
  }
  void number(uint64_t n, int width) {
    for (int i = 0; i < width; ++i) bytes.push_back(static_cast<std::byte>(n >> (8 * i)));
  }
  void string(std::string_view s) {
    number(s.size(), 8);
    raw(s.data(), s.size());
  }
};

struct Damaged {};

struct Reader {
  std::span<const std::byte> rest;

  std::span<const std::byte> raw(uint64_t n) {
    if (n > rest.size()) throw Damaged{};
    const auto taken = rest.first(static_cast<size_t>(n));
    rest = rest.subspan(static_cast<size_t>(n));
    return taken;
  }
  uint64_t number(int width) {
    uint64_t n = 0;
    const auto bytes = raw(static_cast<uint64_t>(width));
    for (int i = 0; i < width; ++i) n |= std::to_integer<uint64_t>(bytes[static_cast<size_t>(i)]) << (8 * i);
    return n;
  }
  std::string string() {
    const auto bytes = raw(number(8));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

Cache read_fields(Reader reader) {
  Cache cache;
  cache.backend = reader.string();
  cache.tracer = reader.string();
  cache.code_hash = reader.string();
  for (uint64_t n = reader.number(8); n > 0; --n) {
    CacheVariant& v = cache.variants.emplace_back();
    v.target = reader.string();
    v.toolchain = reader.string();
    const std::string isa = reader.string();
    v.isa = split(isa);
    if (joined(v.isa) != isa) throw Damaged{};  // more spaces than words
    const auto payload = reader.raw(reader.number(8));
    v.payload.assign(payload.begin(), payload.end());
  }
  if (!reader.rest.empty()) throw Damaged{};
  return cache;
}

}  // namespace

std::vector<std::byte> write_cache(const Cache& cache) {
  Writer w;
  w.raw(kMagic.data(), kMagic.size());
  w.number(kCacheVersion, 4);
  w.string(cache.backend);
  w.string(cache.tracer);
  w.string(cache.code_hash);
  w.number(cache.variants.size(), 8);
  for (const CacheVariant& v : cache.variants) {
    w.string(v.target);
    w.string(v.toolchain);
    w.string(joined(v.isa));
    w.string({reinterpret_cast<const char*>(v.payload.data()), v.payload.size()});
  }
  const Digest digest = sha256(w.bytes);
  w.raw(digest.data(), digest.size());
  return w.bytes;
}

std::variant<Cache, CacheProblem> read_cache(std::span<const std::byte> bytes) {
  Reader reader{bytes};
  if (bytes.size() < kMagic.size() || !std::ranges::equal(reader.raw(kMagic.size()), std::as_bytes(std::span(kMagic))))
    return CacheProblem{"format", "a file that begins with \"precast cache\"",
                        bytes.empty() ? "an empty file" : "something else"};
  try {
    if (const uint64_t version = reader.number(4); version != kCacheVersion)
      return CacheProblem{"version", std::to_string(kCacheVersion), std::to_string(version)};
    if (reader.rest.size() < sizeof(Digest)) throw Damaged{};
    const size_t end = bytes.size() - sizeof(Digest);
    if (!std::ranges::equal(sha256(bytes.first(end)), bytes.subspan(end)))
      return CacheProblem{"checksum", "the SHA-256 of the content", "another one: the file is truncated or damaged"};
    reader.rest = reader.rest.first(reader.rest.size() - sizeof(Digest));
    return read_fields(reader);
  } catch (const Damaged&) {
    return CacheProblem{"length", "fields that end inside the file", std::to_string(bytes.size()) + " bytes"};
  }
}

}  // namespace precast::artifact
