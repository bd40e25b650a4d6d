// The keys of an emulated fabric and of its faults: of scenario files, of the daemon's `fabric:`
// section, and of changes while it runs.
#include "config/fault_spec.h"
#include "config/probability_codec.h"
#include "config/schema.h"

namespace metaroce::config {
namespace {

constexpr Bytes kGiB = 1 << 30;
constexpr Mbps kMaxRate = 8'000'000;
constexpr Nanos kHour = 3600 * kSecond;

std::string no_rule(std::string_view) { return {}; }
TextCodec text(std::string type, std::string accepts, std::size_t most) {
  return {std::move(type), std::move(accepts), 0, most, no_rule};
}

// Replaces everything that the fabric section held so far; the keys after it refine.
Field preset() {
  const std::vector<std::pair<std::string, int>> names = {{"ls64", 0}, {"ft128", 1}};
  const ChoiceCodec<int> codec(names);
  Field f;
  f.key = "preset";
  f.type = codec.type;
  f.accepts = codec.accepts;
  f.text =
      "Starts from a known fabric, which the keys below refine: `ls64`, 8 leaves with 8 hosts each "
      "and 8 spines; `ft128`, a fat tree of 8-port switches with 128 hosts. Both 400 Gb/s and 1 us "
      "per link.";
  f.example = "ls64";
  f.read = [codec](const Scalar& s, void* o) {
    detail::as<fabric::FabricConfig>(o) = codec.read(s) == 0 ? fabric::ls64() : fabric::ft128();
  };
  f.print = [](const void*) { return std::vector<std::string>{}; };
  return f;
}

// clang-format off
}  // namespace

const Section& fabric_keys() {
  using T = fabric::FabricConfig;
  using fabric::EcnMode;
  using fabric::Topology;
  static const Section s = make_section<T>("The emulated Ethernet.", {
    preset(),
    value("topology", &T::topology, ChoiceCodec<Topology>({{"single_switch", Topology::kSingleSwitch}, {"leaf_spine", Topology::kLeafSpine}, {"fat_tree", Topology::kFatTree}}), "Shape of every plane."),
    value("hosts", &T::hosts, count(2, 65535, "hosts"), "Single switch: hosts."),
    value("leaves", &T::leaves, count(1, 1024), "Leaf-spine: leaves."),
    value("hosts_per_leaf", &T::hosts_per_leaf, count(1, 1024), "Leaf-spine: hosts of each leaf."),
    value("spines", &T::spines, count(1, 1024), "Leaf-spine: spines; each has one link to every leaf."),
    value("fat_tree_k", &T::fat_tree_k, count(2, 64, "ports, even"), "Fat tree: ports of a switch; k^3 / 4 hosts."),
    value("planes", &T::planes, count(1, 8, "planes"), "Parallel copies of the topology; every host has a port in each."),
    value("host_rate", &T::host_rate_mbps, rate(1, kMaxRate), "Rate of hosts' links."),
    value("uplink_rate", &T::uplink_rate_mbps, rate(1, kMaxRate), "Rate of links between switches."),
    values("plane_rates", &T::plane_rate_mbps, rate(1, kMaxRate), 8, "Rate of hosts' links by plane, where planes differ; uplinks scale with it."),
    value("host_propagation", &T::host_propagation_ns, duration(0, 10 * kSecond), "Propagation of hosts' links."),
    value("uplink_propagation", &T::uplink_propagation_ns, duration(0, 10 * kSecond), "Propagation of links between switches."),
    value("switch_latency", &T::switch_latency_ns, duration(0, 10 * kSecond), "Further delay of every switch."),
    value("overhead", &T::overhead_bytes, size(0, 1024), "Bytes that a link charges per frame besides the frame: 4 with its check sequence, 24 with preamble and gap."),
    value("fcs_check", &T::fcs_check, BoolCodec{}, "A corrupt frame dies at the next node, not at the host."),
    value("nic_queue_packets", &T::nic_queue_packets, count(1, 1 << 20, "packets"), "Data packets that a host may have waiting at its port."),
    value("nic_hard_packets", &T::nic_hard_packets, count(1, 1 << 20, "packets"), "Packets per class that wait at a host's port at most."),
    value("queue", &T::queue_bytes, size(1, kGiB), "Data that waits at an egress port of a switch."),
    value("control_queue", &T::control_queue_bytes, size(1, kGiB), "Control packets that wait there."),
    value("strict_priority", &T::strict_priority, BoolCodec{}, "Control packets overtake data. false: one class, one queue."),
    value("ecn", &T::ecn, ChoiceCodec<EcnMode>({{"off", EcnMode::kOff}, {"threshold", EcnMode::kThreshold}, {"linear", EcnMode::kLinear}}), "Marking at dequeue: always from `ecn_min` on, or with a probability that rises from 0 there to 1 at `ecn_max`."),
    value("ecn_min", &T::ecn_min_bytes, size(0, kGiB), "See ecn."),
    value("ecn_max", &T::ecn_max_bytes, size(0, kGiB), "See ecn."),
    value("ecn_mark_control", &T::ecn_mark_control, BoolCodec{}, "Control packets are marked too."),
    value("ecn_at_nic", &T::ecn_at_nic, BoolCodec{}, "Hosts' own ports mark too."),
    value("shared_buffer", &T::shared_buffer, BoolCodec{}, "Ports share their switch's buffer: each may hold alpha times what is free; `queue` has no effect."),
    value("buffer", &T::buffer_bytes, size(1, kGiB), "Shared buffer of a switch."),
    value("alpha_256", &T::alpha_256, count(1, 65536), "alpha x 256."),
    value("pfc", &T::pfc, BoolCodec{}, "Priority flow control for data; queue limits have no effect."),
    value("pfc_xoff", &T::pfc_xoff_bytes, size(1, kGiB), "Buffered bytes of an ingress link at which its sender is paused."),
    value("pfc_xon", &T::pfc_xon_bytes, size(0, kGiB), "... and at which it goes on."),
    value("reroute_after", &T::reroute_after_ns, duration(0, 10 * kSecond), "Time after which switches stop hashing onto a dead link. 0ns: never."),
  });
  return s;
}

const Section& fault_keys() {
  using T = FaultSpec;
  using K = fabric::FaultKind;
  using fabric::Traffic;
  static const Section s = [] {
    const std::vector<std::pair<std::string, K>> kinds = {
      {"loss", K::kLoss}, {"burst_loss", K::kBurstLoss}, {"corrupt", K::kCorrupt}, {"duplicate", K::kDuplicate}, {"reorder", K::kReorder}, {"jitter", K::kJitter}, {"blackhole", K::kBlackhole},
      {"down", K::kDown}, {"up", K::kUp}, {"rate", K::kRate}, {"propagation", K::kPropagation}, {"rehash", K::kRehash}, {"stall", K::kStall}};
    Section made = make_section<T>("Time line of faults. Each lasts until another of the same kind and target replaces it: loss ends with 0%, a rate with 0Mb/s, `down` with `up`. On `all` and whole planes loss, corruption, duplication, reordering and jitter act once per packet, end to end; elsewhere on each passage of a link.", {
      value("kind", &T::kind, ChoiceCodec<K>(kinds), "What happens: independent or bursty (Gilbert-Elliott) loss, bytes changed, a second copy, extra delay for some or random delay for all, a pair of hosts cut in one direction, a cut and its repair, another rate, more propagation, new ECMP hashing, a host that takes nothing."),
      value("at", &T::at, duration(0, kHour), "When: on the workload's clock, or, in a daemon, after its start. Live, it is now whatever this says."),
      value("target", &T::target, text("string", "a target", 64), "`all`; a host or switch: host3, leaf0, spine1, edge0, agg0, core0, switch0; a link, `leaf0->spine1`, or cable, `leaf0-spine1`; a pair of hosts for a blackhole, `host0->host9`."),
      value("plane", &T::plane, count(0, 7), "Only in this plane. Not set: in all.").eg("0"),
      value("traffic", &T::traffic, ChoiceCodec<Traffic>({{"data", Traffic::kData}, {"control", Traffic::kControl}, {"all", Traffic::kAll}}), "Which packets it meets.").only(bits({K::kLoss, K::kBurstLoss, K::kCorrupt, K::kDuplicate, K::kReorder, K::kJitter})),
      value("probability", &T::probability, ProbabilityCodec{}, "Share of packets.").only(bits({K::kLoss, K::kCorrupt, K::kDuplicate, K::kReorder})),
      value("to_bad", &T::to_bad, ProbabilityCodec{}, "Per packet: from the good state to the bad one.").only(bits({K::kBurstLoss})),
      value("to_good", &T::to_good, ProbabilityCodec{}, "Per packet: back.").only(bits({K::kBurstLoss})),
      value("loss_good", &T::loss_good, ProbabilityCodec{}, "Loss in the good state.").only(bits({K::kBurstLoss})),
      value("loss_bad", &T::loss_bad, ProbabilityCodec{}, "Loss in the bad state.").only(bits({K::kBurstLoss})),
      value("delay", &T::delay, duration(0, 10 * kSecond), "Extra delay: of the copy, of the packet, at most, or on top of the propagation.").only(bits({K::kDuplicate, K::kReorder, K::kJitter, K::kPropagation})),
      value("keep_order", &T::keep_order, BoolCodec{}, "Nobody overtakes.").only(bits({K::kJitter})),
      value("rate", &T::rate, rate(0, kMaxRate), "Instead of the configured rate; 0Mb/s: that again.").only(bits({K::kRate})),
      value("on", &T::on, BoolCodec{}, "false ends it.").only(bits({K::kBlackhole, K::kStall})),
    });
    choose_by_kind(made, &T::kind, kinds);
    return made;
  }();
  return s;
}
// clang-format on

}  // namespace metaroce::config
