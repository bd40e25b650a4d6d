// SHA-256 as hexadecimal digits, from libcrypto.
#pragma once

#include <openssl/sha.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

namespace metaroce::test {

inline std::string sha256_hex(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::string out;
  for (const unsigned char byte : digest) {
    std::array<char, 3> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", byte);
    out += hex.data();
  }
  return out;
}

}  // namespace metaroce::test
