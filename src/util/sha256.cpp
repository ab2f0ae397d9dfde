#include "util/sha256.h"

#include <openssl/evp.h>

#include "util/errors.h"

namespace precast {

Digest sha256(std::span<const std::byte> data) {
  Digest digest;
  unsigned size = 0;
  const int ok = EVP_Digest(data.data(), data.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                            EVP_sha256(), nullptr);
  PRECAST_CHECK(ok == 1 && size == digest.size(), "SHA-256 is not available from OpenSSL");
  return digest;
}

std::string sha256_hex(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte b : sha256(std::as_bytes(std::span(text.data(), text.size())))) {
    hex += digits[std::to_integer<unsigned>(b) >> 4];
    hex += digits[std::to_integer<unsigned>(b) & 15];
  }
  return hex;
}

}  // namespace precast
