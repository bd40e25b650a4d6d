#include "random_scenario.h"

#include <algorithm>

#include "base/rng.h"

namespace metaroce::sim {
namespace {

using fabric::Fault;
using fabric::FaultKind;
using fabric::Scope;

std::uint32_t one_of(Rng& rng, std::initializer_list<std::uint32_t> choices) {
  return choices.begin()[rng.below(static_cast<std::uint32_t>(choices.size()))];
}

fabric::FabricConfig random_fabric(Rng& rng) {
  fabric::FabricConfig f;
  switch (rng.below(3)) {
    case 0:
      f.topology = fabric::Topology::kSingleSwitch;
      f.hosts = static_cast<std::uint16_t>(2 + rng.below(7));
      break;
    case 1:
      f.topology = fabric::Topology::kLeafSpine;
      f.leaves = static_cast<std::uint16_t>(2 + rng.below(3));
      f.hosts_per_leaf = static_cast<std::uint16_t>(1 + rng.below(4));
      f.spines = static_cast<std::uint16_t>(1 + rng.below(4));
      break;
    default:
      f.topology = fabric::Topology::kFatTree;
      f.fat_tree_k = 4;
  }
  f.planes = static_cast<std::uint8_t>(1 + rng.below(4));
  f.host_rate_mbps = f.uplink_rate_mbps = one_of(rng, {25'000, 100'000, 400'000});
  f.queue_bytes = one_of(rng, {20'000, 100'000, 420'160});
  f.ecn = static_cast<fabric::EcnMode>(rng.below(3));
  f.ecn_min_bytes = f.queue_bytes / 5;
  f.ecn_max_bytes = f.queue_bytes / 5 * 4;
  f.nic_queue_packets = 1 + rng.below(16);
  f.strict_priority = rng.below(4) != 0;
  f.fcs_check = rng.below(2) == 0;
  f.shared_buffer = rng.below(4) == 0;
  f.buffer_bytes = 4 * f.queue_bytes;
  if (!f.shared_buffer && rng.below(8) == 0) {
    f.pfc = true;
    f.pfc_xoff_bytes = 50'000;
    f.pfc_xon_bytes = 40'000;
  }
  f.reroute_after_ns = rng.below(3) == 0 ? 50 * kMicrosecond : 0;
  return f;
}

TransportConfig random_transport(Rng& rng, std::uint32_t planes) {
  TransportConfig t;
  t.paths_per_plane = one_of(rng, {1, 2, 4, 16});
  t.packets_per_path = one_of(rng, {0, 1, 4, 16});
  t.payload_mtu = one_of(rng, {256, 1024, 1500, 4096});
  t.min_window = 2 * t.payload_mtu;
  t.spn_window = one_of(rng, {64, 128, 2048});
  t.rate_hints = rng.below(2) == 0;
  t.ack_every_packets = one_of(rng, {1, 8, 32});
  t.probe_timeout_floor = one_of(rng, {10, 50, 200}) * kMicrosecond;
  t.pacing_burst_packets = one_of(rng, {1, 16});
  t.line_rate = 100'000 * planes;
  return t;
}

HostModel random_host(Rng& rng) {
  HostModel h;
  h.poll_interval = static_cast<Nanos>(one_of(rng, {50, 200, 1000}));
  h.receiver_delay = one_of(rng, {0, 0, 300});
  h.burst = one_of(rng, {1, 8, 32});
  h.ring_size = one_of(rng, {1, 2, 16, 1024});
  h.seeded_order = rng.below(4) != 0;
  h.single_class = rng.below(4) == 0;
  h.validate_every = 1;
  return h;
}

std::uint32_t switches(const fabric::FabricConfig& f) {
  switch (f.topology) {
    case fabric::Topology::kSingleSwitch:
      return 1;
    case fabric::Topology::kLeafSpine:
      return f.leaves + std::uint32_t{f.spines};
    case fabric::Topology::kFatTree:
      return 5U * f.fat_tree_k * f.fat_tree_k / 4;
  }
  return 1;
}

// Directed links of a plane.
std::uint32_t links(const fabric::FabricConfig& f) {
  const std::uint32_t hosts = fabric::host_count(f);
  switch (f.topology) {
    case fabric::Topology::kSingleSwitch:
      return 2 * hosts;
    case fabric::Topology::kLeafSpine:
      return 2 * hosts + 2U * f.leaves * f.spines;
    case fabric::Topology::kFatTree:
      return 6 * hosts;
  }
  return hosts;
}

// What a fault meets: everything, or one part of the fabric.
fabric::Target random_target(Rng& rng, const fabric::FabricConfig& f, FaultKind kind) {
  fabric::Target t;
  t.plane = static_cast<std::uint8_t>(rng.below(f.planes));
  const std::uint32_t hosts = fabric::host_count(f);
  switch (kind) {
    case FaultKind::kBlackhole:
      t.scope = Scope::kPair;
      t.src = static_cast<std::uint16_t>(rng.below(hosts));
      t.dst = static_cast<std::uint16_t>(rng.below(hosts));
      return t;
    case FaultKind::kStall:
      t.scope = Scope::kHost;
      t.id = rng.below(hosts);
      return t;
    case FaultKind::kRehash:
      t.scope = rng.below(2) == 0 ? Scope::kAll : Scope::kPlane;
      return t;
    default:
      break;
  }
  switch (rng.below(5)) {
    case 0:
      t.scope = Scope::kAll;
      break;
    case 1:
      t.scope = Scope::kPlane;
      break;
    case 2:
      t.scope = Scope::kSwitch;
      t.id = rng.below(switches(f));
      break;
    case 3:
      t.scope = rng.below(2) == 0 ? Scope::kLink : Scope::kCable;
      t.id = rng.below(f.planes * links(f));
      break;
    default:
      t.scope = Scope::kHost;
      t.id = rng.below(hosts);
  }
  return t;
}

// A fault and, behind it, its end.
void add_fault(Rng& rng, const Scenario& s, std::vector<Fault>& faults) {
  Fault f;
  f.kind = static_cast<FaultKind>(rng.below(13));
  if (f.kind == FaultKind::kUp) f.kind = FaultKind::kDown;
  f.target = random_target(rng, s.fabric, f.kind);
  f.traffic = static_cast<fabric::Traffic>(rng.below(3));
  // Up to 30 %: a packet may be lost 15 times before its stream fails.
  f.probability = one_of(rng, {1'000'000, 10'000'000, 100'000'000, 300'000'000});
  f.burst = {one_of(rng, {1'000'000, 20'000'000}), one_of(rng, {50'000'000, 300'000'000}), 0,
             one_of(rng, {500'000'000, 1'000'000'000})};
  f.delay_ns = static_cast<Nanos>(one_of(rng, {500, 5'000, 50'000}));
  f.keep_order = rng.below(2) == 0;
  f.rate_mbps = s.fabric.host_rate_mbps / one_of(rng, {2, 4, 20});
  f.at_ns = s.host.warm_idle + rng.below(200'000);
  faults.push_back(f);
  Fault end = f;
  const auto longest = static_cast<std::uint32_t>(kFaultsEnd) - 200'000;
  end.at_ns += 1 + rng.below(longest / one_of(rng, {1, 3, 30, 300}));
  end.probability = 0;
  end.burst = {};
  end.delay_ns = 0;
  end.rate_mbps = 0;
  if (f.kind == FaultKind::kDown) end.kind = FaultKind::kUp;
  faults.push_back(end);
}

std::uint64_t random_size(Rng& rng) {
  switch (rng.below(6)) {
    case 0:
      return rng.below(3);  // empty messages too
    case 1:
      return 1 + rng.below(300);
    case 2:
      return 4096ULL * (1 + rng.below(8));
    case 3:
      return 100'000 + rng.below(900'000);
    default:
      return 1 + rng.below(60'000);
  }
}

// Nothing, one or two earlier flows: at the sender when that is this flow's source, at the
// receiver when it is where the bytes went.
void random_dependency(Rng& rng, const std::vector<Flow>& earlier, Flow& f) {
  if (earlier.empty() || rng.below(3) != 0) return;
  const Flow& d = earlier[rng.below(static_cast<std::uint32_t>(earlier.size()))];
  f.dep = d.id;
  f.dep_at_receiver = rng.below(2) == 0;
  if (rng.below(3) != 0) f.src = f.dep_at_receiver ? d.dst : d.src;
  if (rng.below(4) == 0) f.dep2 = rng.below(static_cast<std::uint32_t>(earlier.size()));
  if (f.dep2 == f.dep) f.dep2 = kNoFlow;
}

}  // namespace

Workload random_workload(std::uint64_t seed, std::uint32_t hosts) {
  Rng rng(mix64(seed ^ 0x776b));
  Workload w;
  w.hosts = hosts;
  w.name = "random";
  w.window = 1 + rng.below(4);
  w.window_lists = rng.below(3);
  const std::uint32_t n = 1 + rng.below(100);
  const bool incast = rng.below(3) == 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    Flow f;
    f.id = i;
    f.src = static_cast<std::uint16_t>(rng.below(hosts));
    f.bytes = random_size(rng);
    f.start =
        static_cast<Nanos>(rng.below(3) == 0 ? rng.below(one_of(rng, {200'000, 5'000'000})) : 0);
    if (w.window_lists != 0 && rng.below(3) == 0)
      f.window_list = rng.below(w.window_lists);
    else
      random_dependency(rng, w.flows, f);
    f.dst = incast && f.src != 0 ? std::uint16_t{0} : static_cast<std::uint16_t>(rng.below(hosts));
    if (f.dst == f.src) f.dst = static_cast<std::uint16_t>((f.src + 1U) % hosts);
    f.stream = static_cast<std::uint16_t>(rng.below(3));
    w.flows.push_back(f);
  }
  return w;
}

Scenario random_scenario(std::uint64_t seed) {
  Rng rng(mix64(seed));
  Scenario s;
  s.name = "random";
  s.seed = seed;
  s.fabric = random_fabric(rng);
  s.transport = random_transport(rng, s.fabric.planes);
  s.host = random_host(rng);
  // Enough for the slowest of these hosts, a packet per microsecond, and for one probe timeout at
  // its longest; not for whatever only a keepalive or a dead peer's timeout would rescue.
  s.limits.time = kFaultsEnd + 150 * kMillisecond;
  s.limits.progress = 100 * kMillisecond;
  for (std::uint32_t n = rng.below(13); n > 0; --n) add_fault(rng, s, s.fabric.faults);
  // Receive queues that end are for hosts with hints that take 8 packets per microsecond or more.
  // One that takes one, of 256 bytes, behind four ports of 400 Gb/s, loses most of what comes
  // whatever its peers do, some packet 16 times, and then its stream fails, as it must. [MR-7.5.1]
  const std::uint32_t queue = one_of(rng, {256, 1024, 4096});
  const bool quick = Nanos{s.host.burst} * kMicrosecond >= 8 * s.host.poll_interval;
  s.host.receive_queue = s.transport.rate_hints && quick ? queue : 1U << 20;
  return s;
}

std::string describe(const Scenario& s, const Workload& w) {
  static constexpr const char* kKinds[] = {
      "loss", "burst_loss", "corrupt", "duplicate",   "reorder", "jitter", "blackhole",
      "down", "up",         "rate",    "propagation", "rehash",  "stall"};
  std::string faults;
  for (std::size_t i = 0; i < s.fabric.faults.size(); i += 2)
    faults += std::string(" ") + kKinds[static_cast<unsigned>(s.fabric.faults[i].kind)];
  return std::to_string(w.flows.size()) + " flows, " + std::to_string(w.hosts) + " hosts, " +
         std::to_string(s.fabric.planes) + " planes x " +
         std::to_string(s.transport.paths_per_plane) + " paths, mtu " +
         std::to_string(s.transport.payload_mtu) + ", spn window " +
         std::to_string(s.transport.spn_window) + ", rings of " + std::to_string(s.host.ring_size) +
         ", faults:" + faults;
}

}  // namespace metaroce::sim
