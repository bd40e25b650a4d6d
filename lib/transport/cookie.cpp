#include "transport/cookie.h"

#include <bit>
#include <cstring>

namespace metaroce::control {
namespace {

struct SipState {
  std::uint64_t v0, v1, v2, v3;
  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13);
    v1 ^= v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16);
    v3 ^= v2;
    v0 += v3;
    v3 = std::rotl(v3, 21);
    v3 ^= v0;
    v2 += v1;
    v1 = std::rotl(v1, 17);
    v1 ^= v2;
    v2 = std::rotl(v2, 32);
  }
  void absorb(std::uint64_t m) {
    v3 ^= m;
    round();
    round();
    v0 ^= m;
  }
};

std::uint64_t little_endian(const std::uint8_t* p, std::size_t n) {
  std::uint64_t m = 0;
  for (std::size_t i = 0; i < n; ++i) m |= std::uint64_t{p[i]} << (8 * i);
  return m;
}

void store(std::uint8_t* p, std::uint64_t v) {
  for (unsigned i = 0; i < 8; ++i) p[i] = static_cast<std::uint8_t>(v >> (8 * i));
}

}  // namespace

std::uint64_t siphash24(std::uint64_t k0, std::uint64_t k1, const std::uint8_t* p, std::size_t n) {
  SipState s{k0 ^ 0x736f6d6570736575ULL, k1 ^ 0x646f72616e646f6dULL, k0 ^ 0x6c7967656e657261ULL,
             k1 ^ 0x7465646279746573ULL};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) s.absorb(little_endian(p + i, 8));
  s.absorb(little_endian(p + i, n - i) | (static_cast<std::uint64_t>(n) << 56));
  s.v2 ^= 0xff;
  for (int r = 0; r < 4; ++r) s.round();
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

void CookieJar::set_key(Nanos now, std::uint64_t k0, std::uint64_t k1) {
  has_previous_ = keyed_;
  if (keyed_) current_ ^= 1U;
  keys_[current_] = {k0, k1};
  keyed_ = true;
  key_since_ = now;
}

std::uint64_t CookieJar::compute(std::uint64_t slot, unsigned key, const CookieScope& s) const {
  std::array<std::uint8_t, 56> b{};
  std::memcpy(b.data(), s.source.b.data(), 16);
  store(b.data() + 16, std::uint64_t{s.worker_port} | (s.source.v6 ? 1U << 16 : 0U));
  store(b.data() + 24, s.instance.hi);
  store(b.data() + 32, s.instance.lo);
  store(b.data() + 40, s.conn_epoch);
  store(b.data() + 48, slot);
  const std::uint64_t h = siphash24(keys_[key].k0, keys_[key].k1, b.data(), b.size());
  const std::uint64_t c = (h & ~std::uint64_t{3}) | (slot & 1U) | (std::uint64_t{key} << 1);
  return c == 0 ? 4 : c;
}

std::uint64_t CookieJar::make(Nanos now, const CookieScope& s) const {
  return compute(static_cast<std::uint64_t>(now / kSlot), current_, s);
}

bool CookieJar::check(Nanos now, std::uint64_t cookie, const CookieScope& s) const {
  const auto key = static_cast<unsigned>((cookie >> 1) & 1U);
  if (!keyed_ || (key != current_ && !has_previous_)) return false;
  std::uint64_t slot = static_cast<std::uint64_t>(now / kSlot);
  if ((slot & 1U) != (cookie & 1U)) --slot;
  return compute(slot, key, s) == cookie;
}

}  // namespace metaroce::control
