// SHA-256 over pieces, from libcrypto.
#pragma once

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <memory>

namespace metaroce::copy {

using Digest = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  Sha256() : ctx_(EVP_MD_CTX_new(), EVP_MD_CTX_free) { reset(); }
  void reset() { ok_ = ctx_ && EVP_DigestInit_ex(ctx_.get(), EVP_sha256(), nullptr) == 1; }
  void add(const void* data, std::size_t length) {
    ok_ = ok_ && EVP_DigestUpdate(ctx_.get(), data, length) == 1;
  }
  // All zero when libcrypto failed: then no file matches.
  Digest finish() {
    Digest digest{};
    if (ok_) EVP_DigestFinal_ex(ctx_.get(), digest.data(), nullptr);
    return digest;
  }
  bool ok() const { return ok_; }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> ctx_;
  bool ok_ = false;
};

}  // namespace metaroce::copy
