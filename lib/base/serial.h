// Serial number arithmetic modulo 2^32 (RFC 1982): the only place where sequence numbers
// are compared. Comparisons are defined for distances below 2^31.
#pragma once

#include <cstdint>

namespace metaroce {

template <typename Tag>
struct Serial32 {
  std::uint32_t v{};
  constexpr Serial32() = default;
  constexpr explicit Serial32(std::uint32_t x) : v(x) {}

  constexpr bool operator==(const Serial32&) const = default;
  constexpr bool operator<(Serial32 o) const { return (*this - o) < 0; }
  constexpr bool operator>(Serial32 o) const { return (*this - o) > 0; }
  constexpr bool operator<=(Serial32 o) const { return (*this - o) <= 0; }
  constexpr bool operator>=(Serial32 o) const { return (*this - o) >= 0; }
  // Signed distance: positive when *this is ahead of o.
  constexpr std::int32_t operator-(Serial32 o) const { return static_cast<std::int32_t>(v - o.v); }
  constexpr Serial32 operator+(std::uint32_t n) const { return Serial32{v + n}; }
  constexpr Serial32 operator-(std::uint32_t n) const { return Serial32{v - n}; }
  constexpr Serial32& operator++() {
    ++v;
    return *this;
  }
};

template <typename Tag>
constexpr Serial32<Tag> serial_max(Serial32<Tag> a, Serial32<Tag> b) {
  return a < b ? b : a;
}

using PathSeq = Serial32<struct PathSeqTag>;      // pseq: transmissions on one path
using StreamSeq = Serial32<struct StreamSeqTag>;  // spn: data packets of one stream space
using RecvNumber = Serial32<struct RecvTag>;      // rqn: ordinal of a posted receive
using WireTime = Serial32<struct WireTimeTag>;    // 64 ns units

inline constexpr int kWireTimeShift = 6;
constexpr WireTime to_wire_time(std::int64_t nanos) {
  return WireTime{static_cast<std::uint32_t>(static_cast<std::uint64_t>(nanos) >> kWireTimeShift)};
}

}  // namespace metaroce
