// Everything that shapes a fabric, in one plain struct. Defaults: an ideal 400 Gb/s switch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "fabric/fault.h"

namespace metaroce::fabric {

enum class Topology : std::uint8_t {
  kSingleSwitch,  // `hosts`
  kLeafSpine,     // `leaves` x `hosts_per_leaf`, each leaf with one link to each of `spines`
  kFatTree,       // three tiers of switches with `fat_tree_k` ports: k^3 / 4 hosts
};

enum class EcnMode : std::uint8_t {
  kOff,
  kThreshold,  // marks from ecn_min_bytes on
  kLinear,     // probability 0 at ecn_min_bytes to 1 at ecn_max_bytes
};

struct FabricConfig {
  Topology topology = Topology::kSingleSwitch;
  std::uint16_t hosts = 2;
  std::uint16_t leaves = 2, hosts_per_leaf = 2, spines = 2;
  std::uint16_t fat_tree_k = 4;
  std::uint8_t planes = 1;  // each its own copy of the topology; every host is in each

  Mbps host_rate_mbps = 400'000, uplink_rate_mbps = 400'000;
  // Rate of a host's link per plane, where planes differ; uplinks scale with it. Empty: all alike.
  std::vector<Mbps> plane_rate_mbps;
  Nanos host_propagation_ns = 1000, uplink_propagation_ns = 1000;
  Nanos switch_latency_ns = 0;
  std::uint32_t overhead_bytes = 0;  // per frame: 4 for the FCS alone, 24 with preamble and gap
  bool fcs_check = false;            // a corrupt frame dies at the next node, not at the owner

  std::uint32_t nic_queue_packets = 8;     // data packets that a host may have waiting, nic_room()
  std::uint32_t nic_hard_packets = 4096;   // per class, whatever the owner does
  std::uint32_t queue_bytes = 101 * 4160;  // data, per egress port of a switch
  std::uint32_t control_queue_bytes = 4U << 20;
  bool strict_priority = true;  // off: one class, control waits its turn

  EcnMode ecn = EcnMode::kLinear;
  std::uint32_t ecn_min_bytes = 84'032, ecn_max_bytes = 336'128;  // 0.2 and 0.8 of queue_bytes
  bool ecn_mark_control = false;
  bool ecn_at_nic = false;  // hosts' egress marks too

  // Shared buffer: a port's data queue may hold alpha x (what is free); queue_bytes has no effect.
  bool shared_buffer = false;
  std::uint32_t buffer_bytes = 32U << 20;  // per switch
  std::uint32_t alpha_256 = 256;           // alpha x 256

  // Priority flow control for data, per ingress link of a switch; queue limits have no effect.
  bool pfc = false;
  std::uint32_t pfc_xoff_bytes = 200'000, pfc_xon_bytes = 180'000;

  Nanos reroute_after_ns = 0;  // 0: ECMP keeps hashing onto dead links

  std::vector<Fault> faults;  // time line, any order
};

// Sentence that says what is wrong and what is accepted; empty when nothing is.
std::string check(const FabricConfig&);
std::uint32_t host_count(const FabricConfig&);

// The fabrics of the published comparison: 400 Gb/s and 1 us everywhere.
FabricConfig ls64();   // 8 leaves x 8 hosts, 8 spines, queues of 101 x 4,160 bytes
FabricConfig ft128();  // k = 8 fat tree, queues of 151 x 4,160 bytes

}  // namespace metaroce::fabric
