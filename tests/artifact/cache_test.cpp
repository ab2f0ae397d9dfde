#include "artifact/cache.h"

#include <doctest/doctest.h>

#include "util/sha256.h"

using namespace precast::artifact;

namespace {

Cache example() {
  Cache cache{"inductor", "make_fx", std::string(64, 'a'), {}};
  cache.variants.push_back(
      {"x86_64-linux", "g++ (Debian) 12.2.0", {"avx2", "baseline"}, std::vector<std::byte>(300, std::byte{7})});
  cache.variants.push_back({"aarch64-linux", "clang 14", {"baseline"}, {}});
  return cache;
}

std::string problem(std::span<const std::byte> bytes) {
  const auto read = read_cache(bytes);
  return std::holds_alternative<CacheProblem>(read) ? std::get<CacheProblem>(read).field : "none";
}

}  // namespace

TEST_CASE("a cache goes to bytes and back") {
  const Cache cache = example();
  const auto bytes = write_cache(cache);
  const auto read = read_cache(bytes);
  REQUIRE(std::holds_alternative<Cache>(read));
  const Cache& back = std::get<Cache>(read);
  CHECK(back.backend == cache.backend);
  CHECK(back.tracer == cache.tracer);
  CHECK(back.code_hash == cache.code_hash);
  REQUIRE(back.variants.size() == 2);
  CHECK(back.variants[0].target == "x86_64-linux");
  CHECK(back.variants[0].toolchain == "g++ (Debian) 12.2.0");
  CHECK(back.variants[0].isa == std::vector<std::string>{"avx2", "baseline"});
  CHECK(back.variants[0].payload == cache.variants[0].payload);
  CHECK(back.variants[1].payload.empty());
  CHECK(write_cache(back) == bytes);
}

TEST_CASE("damage anywhere is found: every truncation, every bit of every byte") {
  const auto bytes = write_cache(example());
  for (size_t n = 0; n < bytes.size(); ++n) CHECK(problem(std::span(bytes).first(n)) != "none");
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      auto flipped = bytes;
      flipped[i] ^= std::byte(1 << bit);
      const std::string field = problem(flipped);
      CHECK(field == (i < 16 ? "format" : i < 20 ? "version" : "checksum"));
    }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(problem(longer) == "checksum");
}

TEST_CASE("lengths are not trusted even when the checksum holds") {
  // A file made to harm: each length in turn is changed and the checksum made anew.
  const auto bytes = write_cache(example());
  const size_t end = bytes.size() - sizeof(precast::Digest);
  int refused = 0;
  for (size_t at = 20; at + 8 <= end; ++at)
    for (const unsigned long long value : {0ull, 5ull, 1ull << 20, 1ull << 62, ~0ull, ~0ull - 7}) {
      std::vector<std::byte> lying(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(end));
      for (size_t i = 0; i < 8; ++i) lying[at + i] = static_cast<std::byte>(value >> (8 * i));
      const precast::Digest digest = precast::sha256(lying);
      lying.insert(lying.end(), digest.begin(), digest.end());
      refused += problem(lying) == "length";
    }
  CHECK(refused > 100);  // most changes hit content, not lengths; none may crash (run under the address sanitizer)
}

TEST_CASE("names of instruction sets are words, each after one space") {
  for (const char* first : {"", " ", " avx2", "avx2 "}) {
    Cache cache = example();
    cache.variants[0].isa = {first, "baseline"};
    const auto bytes = write_cache(cache);
    const auto read = read_cache(bytes);
    CHECK((std::holds_alternative<CacheProblem>(read) || write_cache(std::get<Cache>(read)) == bytes));
  }
}

TEST_CASE("a problem says what was expected and found") {
  auto bytes = write_cache(example());
  bytes[16] = std::byte{9};
  const auto read = read_cache(bytes);
  CHECK(std::get<CacheProblem>(read).expected == "1");
  CHECK(std::get<CacheProblem>(read).found == "9");
  CHECK(std::get<CacheProblem>(read_cache({})).found == "an empty file");
}
