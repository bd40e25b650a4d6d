// Addresses of hosts and planes, without text parsing (lib/config) and without neighbours
// (lib/dataplane). Below the transport, because frames are made of them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "base/units.h"

namespace metaroce {

struct MacAddress {
  std::array<std::uint8_t, 6> b{};
  bool operator==(const MacAddress&) const = default;
};

// IPv4 occupies the first four bytes; the rest is zero, so that equality is bytewise.
struct IpAddress {
  std::array<std::uint8_t, 16> b{};
  bool v6 = false;
  bool operator==(const IpAddress&) const = default;
  static IpAddress v4(std::uint8_t a, std::uint8_t b1, std::uint8_t c, std::uint8_t d) {
    IpAddress r;
    r.b = {a, b1, c, d};
    return r;
  }
};

// A random 128-bit number per start of a host: tells a restarted peer from the old one.
struct InstanceId {
  std::uint64_t hi = 0, lo = 0;
  auto operator<=>(const InstanceId&) const = default;
};

inline constexpr unsigned kMaxPlanes = 16;

// One plane of a connection as both ends see it.
struct PlanePair {
  PlaneId plane;  // number agreed by both ends
  IpAddress local, peer;
};

}  // namespace metaroce
