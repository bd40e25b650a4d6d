#include "fabric/config.h"

#include "fabric/packet.h"

namespace metaroce::fabric {
namespace {

// Room for 32-bit link numbers and the 16-bit hosts of a Packet.
constexpr std::uint32_t kMaxHosts = 65'535;
constexpr std::uint32_t kMaxPlanes = 64;
constexpr Mbps kMaxRate = 8'000'000;
constexpr Nanos kMaxDelay = 10 * kSecond;

std::string range(const char* what, std::int64_t value, std::int64_t lo, std::int64_t hi) {
  if (value >= lo && value <= hi) return {};
  return std::string(what) + " is " + std::to_string(value) + "; accepted: " + std::to_string(lo) +
         " to " + std::to_string(hi);
}

std::string check_shape(const FabricConfig& c) {
  const std::string errors[] = {
      range("planes", c.planes, 1, kMaxPlanes),
      range("hosts of the fabric", host_count(c), 1, kMaxHosts),
      c.topology == Topology::kLeafSpine ? range("spines", c.spines, 1, 1024) : "",
      c.topology == Topology::kLeafSpine ? range("leaves", c.leaves, 1, 1024) : "",
      c.topology == Topology::kFatTree ? range("fat_tree_k", c.fat_tree_k, 2, 64) : "",
      c.topology == Topology::kFatTree && c.fat_tree_k % 2 != 0 ? "fat_tree_k is odd" : "",
      c.plane_rate_mbps.empty() || c.plane_rate_mbps.size() == c.planes
          ? ""
          : "plane_rate_mbps names not every plane; accepted: one rate per plane, or none",
  };
  for (const std::string& e : errors) {
    if (!e.empty()) return e;
  }
  return {};
}

std::string check_links(const FabricConfig& c) {
  const std::string errors[] = {
      range("host_rate_mbps", c.host_rate_mbps, 1, kMaxRate),
      range("uplink_rate_mbps", c.uplink_rate_mbps, 1, kMaxRate),
      range("host_propagation_ns", c.host_propagation_ns, 0, kMaxDelay),
      range("uplink_propagation_ns", c.uplink_propagation_ns, 0, kMaxDelay),
      range("switch_latency_ns", c.switch_latency_ns, 0, kMaxDelay),
      range("overhead_bytes", c.overhead_bytes, 0, 1024),
      range("reroute_after_ns", c.reroute_after_ns, 0, kMaxDelay),
      range("nic_queue_packets", c.nic_queue_packets, 1, 1U << 20),
      range("nic_hard_packets", c.nic_hard_packets, c.nic_queue_packets, 1U << 20),
      range("queue_bytes", c.queue_bytes, 1, 1U << 30),
      range("control_queue_bytes", c.control_queue_bytes, 1, 1U << 30),
      range("ecn_max_bytes", c.ecn_max_bytes, c.ecn_min_bytes, 1U << 30),
      range("buffer_bytes", c.buffer_bytes, 1, 1U << 30),
      range("alpha_256", c.alpha_256, 1, 65'536),
      range("pfc_xoff_bytes", c.pfc_xoff_bytes, 1, 1U << 30),
      range("pfc_xon_bytes", c.pfc_xon_bytes, 0, c.pfc_xoff_bytes),
  };
  for (const std::string& e : errors) {
    if (!e.empty()) return e;
  }
  for (const Mbps rate : c.plane_rate_mbps) {
    if (auto e = range("plane_rate_mbps", rate, 1, kMaxRate); !e.empty()) return e;
  }
  return {};
}

}  // namespace

std::uint32_t host_count(const FabricConfig& c) {
  switch (c.topology) {
    case Topology::kSingleSwitch:
      return c.hosts;
    case Topology::kLeafSpine:
      return std::uint32_t{c.leaves} * c.hosts_per_leaf;
    case Topology::kFatTree:
      return c.fat_tree_k > 64 ? 0 : std::uint32_t{c.fat_tree_k} * c.fat_tree_k * c.fat_tree_k / 4;
  }
  return 0;
}

std::string check(const FabricConfig& c) {
  std::string e = check_shape(c);
  return e.empty() ? check_links(c) : e;
}

FabricConfig ls64() {
  FabricConfig c;
  c.topology = Topology::kLeafSpine;
  c.leaves = 8;
  c.hosts_per_leaf = 8;
  c.spines = 8;
  return c;
}

FabricConfig ft128() {
  FabricConfig c;
  c.topology = Topology::kFatTree;
  c.fat_tree_k = 8;
  c.queue_bytes = 151 * 4160;
  c.ecn_min_bytes = c.queue_bytes / 5;
  c.ecn_max_bytes = c.queue_bytes / 5 * 4;
  return c;
}

const char* loss_name(Loss loss) {
  switch (loss) {
    case Loss::kQueueFull:
      return "queue_full";
    case Loss::kControlFull:
      return "control_full";
    case Loss::kNicFull:
      return "nic_full";
    case Loss::kRandom:
      return "random";
    case Loss::kBurst:
      return "burst";
    case Loss::kLinkDown:
      return "link_down";
    case Loss::kBlackhole:
      return "blackhole";
    case Loss::kCorrupt:
      return "corrupt";
    case Loss::kNoRoute:
      return "no_route";
    case Loss::kInvalid:
      return "invalid";
    case Loss::kHostFull:
      return "host_full";
  }
  return "unknown";
}

}  // namespace metaroce::fabric
