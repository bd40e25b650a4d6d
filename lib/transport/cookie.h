// Address cookies: proof that the sender of a CONN_REQ receives at its source address, without
// state per request [MR-5.2.2].
//
//   cookie = SipHash-2-4(key, source address, worker port, instance, connection epoch, time slot)
//            with bit 0 = parity of the slot and bit 1 = parity of the key, so that a check is
//            one hash; never 0, because 0 on the wire means "no cookie".
//
// A slot lasts 2 s and the previous one is accepted: a cookie lives 2 to 4 s. The key changes
// every 64 s and the previous one is accepted. The UDP source port is left out on purpose: a
// request is repeated from other source ports, to try other routes. [MR-5.2.4] [MR-5.2.18]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "transport/address.h"

namespace metaroce::control {

// SipHash-2-4 (Aumasson, Bernstein 2012).
std::uint64_t siphash24(std::uint64_t k0, std::uint64_t k1, const std::uint8_t* p, std::size_t n);

struct CookieScope {
  IpAddress source;
  std::uint16_t worker_port = 0;
  InstanceId instance;
  std::uint64_t conn_epoch = 0;
};

class CookieJar {
 public:
  static constexpr Nanos kSlot = 2 * kSecond;
  static constexpr Nanos kKeyLifetime = 64 * kSecond;

  [[nodiscard]] bool key_due(Nanos now) const {
    return !keyed_ || now - key_since_ >= kKeyLifetime;
  }
  void set_key(Nanos now, std::uint64_t k0, std::uint64_t k1);
  [[nodiscard]] std::uint64_t make(Nanos now, const CookieScope&) const;
  [[nodiscard]] bool check(Nanos now, std::uint64_t cookie, const CookieScope&) const;

 private:
  struct Key {
    std::uint64_t k0 = 0, k1 = 0;
  };
  [[nodiscard]] std::uint64_t compute(std::uint64_t slot, unsigned key, const CookieScope&) const;

  std::array<Key, 2> keys_{};
  unsigned current_ = 0;
  bool keyed_ = false, has_previous_ = false;
  Nanos key_since_ = 0;
};

}  // namespace metaroce::control
