// Frames that more than one test uses, and a random generator that replays.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "wire/net.h"

namespace metaroce::wire {

using Bytes8 = std::vector<std::uint8_t>;

inline Bytes8 from_hex(std::string_view s) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes8 r;
  for (std::size_t i = 0; i + 1 < s.size(); i += 2)
    r.push_back(static_cast<std::uint8_t>((digit(s[i]) << 4) | digit(s[i + 1])));
  return r;
}

inline constexpr MacAddress kMac1{{2, 0, 0, 0, 0, 1}}, kMac2{{2, 0, 0, 0, 0, 2}},
    kMac3{{2, 0, 0, 0, 0, 3}};

inline IpAddress ip4(std::uint8_t last) { return IpAddress::v4(10, 0, 0, last); }
inline IpAddress ip6(std::uint8_t last) {
  IpAddress a;
  a.v6 = true;
  a.b[0] = 0xfd;
  a.b[15] = last;
  return a;
}

// A frame from host 1 to host 2 with UDP checksum.
inline Bytes8 udp_frame(bool v6, const Bytes8& payload, std::uint16_t src_port = 50000,
                        std::uint16_t dst_port = 47910, std::uint8_t dscp = 46) {
  const Encap e(kMac1, kMac2, v6 ? ip6(1) : ip4(1), v6 ? ip6(2) : ip4(2), dst_port);
  Bytes8 f(e.size());
  e.write(f.data(), static_cast<std::uint32_t>(payload.size()), src_port, dscp);
  write_udp_checksum(f.data() + kEthBytes, payload);
  f.insert(f.end(), payload.begin(), payload.end());
  return f;
}

inline Bytes8 with_vlan(Bytes8 f, std::uint16_t tci = 0x2064, std::uint16_t type = 0x8100) {
  const std::uint8_t tag[4] = {static_cast<std::uint8_t>(type >> 8),
                               static_cast<std::uint8_t>(type), static_cast<std::uint8_t>(tci >> 8),
                               static_cast<std::uint8_t>(tci)};
  f.insert(f.begin() + 12, tag, tag + 4);
  return f;
}

inline Bytes8 random_bytes(std::mt19937& rng, std::size_t n) {
  Bytes8 b(n);
  for (auto& x : b) x = static_cast<std::uint8_t>(rng());
  return b;
}

inline DropReason parse(const Bytes8& f, FrameView& v) {
  return parse_frame(f.data(), static_cast<std::uint32_t>(f.size()), v);
}

}  // namespace metaroce::wire
