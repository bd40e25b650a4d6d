// What a kind of port can do, as one row: documented in doc/reference/ports.md (a test compares),
// printed at start with what the opened port itself reported. No DPDK in here.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace metaroce {

enum class PortKind : std::uint8_t { kPci, kTap, kNull, kRing, kMemif, kAfPacket, kAfXdp, kFabric };
inline constexpr std::size_t kPortKinds = 8;

enum class Support : std::uint8_t { kNo, kYes, kDevice /* depends on the device: probed */ };

struct PortCapabilities {
  PortKind kind{};
  const char* name = "";               // as in YAML
  Support rx_checksum = Support::kNo;  // UDP checksum verified for us
  Support tx_checksum = Support::kNo;  // UDP checksum filled in for us
  std::uint32_t max_queues = 1;        // pairs; 0 = device
  Support steering = Support::kNo;     // by UDP destination port (rte_flow)
  Support scatter = Support::kNo;      // a frame may arrive in several segments
  Support multi_segment_tx = Support::kNo;
  std::uint32_t max_frame = 0;  // bytes without FCS; 0 = device
  bool needs_root = false;      // or the capability named in the documentation
  bool needs_hugepages = false;
  bool memory_link = false;  // both ends share memory: no UDP checksum needed
  bool reconnect = false;    // the owner must call reconnect() after the peer died
};

// Markdown table, one row each.
std::string capability_table(std::span<const PortCapabilities> rows);

}  // namespace metaroce
