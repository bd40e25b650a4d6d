// What the configuration must know of each kind of port: its name, and how much of a packet it
// carries. The rest of a kind's capabilities is probed by its driver.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "config/daemon_config.h"

namespace metaroce::config {

struct PortKindInfo {
  PortKind kind;
  std::string_view name;
  std::uint32_t max_mtu;      // bytes of an IP packet
  std::uint32_t max_payload;  // bytes of transport.payload_mtu
};
inline constexpr std::uint32_t kMaxMtu = 9216, kMaxPayload = 8192;

// net_tap drops longer frames silently before DPDK 24.11; one umem chunk bounds af_xdp.
inline constexpr std::array<PortKindInfo, 8> kPortKinds = {{
    {PortKind::kPci, "pci", kMaxMtu, kMaxPayload},
    {PortKind::kTap, "tap", 1500, 1408},
    {PortKind::kNull, "null", kMaxMtu, kMaxPayload},
    {PortKind::kRing, "ring", kMaxMtu, kMaxPayload},
    {PortKind::kMemif, "memif", kMaxMtu, kMaxPayload},
    {PortKind::kAfPacket, "af_packet", kMaxMtu, kMaxPayload},
    {PortKind::kAfXdp, "af_xdp", 3498, kMaxPayload},
    {PortKind::kFabric, "fabric", kMaxMtu, kMaxPayload},
}};
constexpr const PortKindInfo& port_kind_info(PortKind kind) {
  return kPortKinds[static_cast<std::size_t>(kind)];
}
constexpr std::uint32_t kind_bit(PortKind kind) { return 1U << static_cast<unsigned>(kind); }

// IP, UDP, the longest header in front of payload (Write with immediate) and the CRC32C trailer.
constexpr std::uint32_t packet_overhead(bool v6) { return (v6 ? 40U : 20U) + 8U + 52U + 4U; }

}  // namespace metaroce::config
