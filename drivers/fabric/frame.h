// What an emulated switch looks at in a frame, and the one thing that it writes.
#pragma once

#include <cstdint>

namespace metaroce::drivers {

struct FrameFacts {
  std::uint64_t dst_mac = 0, src_mac = 0;  // 48 bits
  std::uint32_t entropy = 0;               // UDP ports; addresses follow from the hosts
  bool group = false;                      // to a multicast or broadcast address
  bool control = false;
  bool ect = false, ce = false;
};

// `n` contiguous bytes from the Ethernet header on, at least 14. Whatever is not UDP over IP (ARP,
// neighbour discovery) counts as control: a fabric that loses data is still one where hosts find
// each other.
FrameFacts look_at_frame(const std::uint8_t* frame, std::uint32_t n, std::uint8_t control_dscp);

// Congestion experienced, with the IPv4 header checksum kept right (RFC 1624). Nothing happens to
// frames that are not IP.
void mark_ce(std::uint8_t* frame, std::uint32_t n);

}  // namespace metaroce::drivers
