// The table of a scenario's keys, one line each: reading, messages and the reference page follow
// from it. The `transport:` section is the daemon's own.
#include "scenario/table.h"

#include "scenario/probability_codec.h"

namespace metaroce::scenario {
namespace {

using config::BoolCodec;
using config::ChoiceCodec;
using config::count;
using config::duration;
using config::Field;
using config::make_section;
using config::rate;
using config::Section;
using config::section;
using config::sections;
using config::size;
using config::TextCodec;
using config::value;
using config::values;

constexpr Bytes kGiB = 1 << 30;
constexpr Mbps kMaxRate = 8'000'000;
constexpr Nanos kHour = 3600 * kSecond;

std::string no_rule(std::string_view) { return {}; }
TextCodec text(std::string type, std::string accepts, std::size_t most) {
  return {std::move(type), std::move(accepts), 0, most, no_rule};
}

template <typename E>
std::uint32_t bits(std::initializer_list<E> kinds) {
  std::uint32_t set = 0;
  for (const E k : kinds) set |= 1U << static_cast<unsigned>(k);
  return set;
}
template <typename T, typename E>
void choose_by_kind(Section& s, E T::*member, const std::vector<std::pair<std::string, E>>& kinds) {
  s.kind = [member](const void* o) {
    return 1U << static_cast<unsigned>(config::detail::as<T>(o).*member);
  };
  for (const auto& [name, kind] : kinds) s.kind_names.push_back(name);
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
  f.read = [codec](const config::Scalar& s, void* o) {
    config::detail::as<fabric::FabricConfig>(o) =
        codec.read(s) == 0 ? fabric::ls64() : fabric::ft128();
  };
  f.print = [](const void*) { return std::vector<std::string>{}; };
  return f;
}

// clang-format off
const Section& fabric_section() {
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

const Section& fault_section() {
  using T = FaultSpec;
  using K = fabric::FaultKind;
  using fabric::Traffic;
  static const Section s = [] {
    const std::vector<std::pair<std::string, K>> kinds = {
      {"loss", K::kLoss}, {"burst_loss", K::kBurstLoss}, {"corrupt", K::kCorrupt}, {"duplicate", K::kDuplicate}, {"reorder", K::kReorder}, {"jitter", K::kJitter}, {"blackhole", K::kBlackhole},
      {"down", K::kDown}, {"up", K::kUp}, {"rate", K::kRate}, {"propagation", K::kPropagation}, {"rehash", K::kRehash}, {"stall", K::kStall}};
    Section made = make_section<T>("Time line of faults. Each lasts until another of the same kind and target replaces it: loss ends with 0%, a rate with 0Mb/s, `down` with `up`. On `all` and whole planes loss, corruption, duplication, reordering and jitter act once per packet, end to end; elsewhere on each passage of a link.", {
      value("kind", &T::kind, ChoiceCodec<K>(kinds), "What happens: independent or bursty (Gilbert-Elliott) loss, bytes changed, a second copy, extra delay for some or random delay for all, a pair of hosts cut in one direction, a cut and its repair, another rate, more propagation, new ECMP hashing, a host that takes nothing."),
      value("at", &T::at, duration(0, kHour), "When, on the workload's clock."),
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

const Section& workload_section() {
  using T = sim::WorkloadSpec;
  using K = sim::WorkloadKind;
  using sim::DependencyAt;
  static const Section s = [] {
    const std::vector<std::pair<std::string, K>> kinds = {
      {"permutation", K::kPermutation}, {"incast", K::kIncast}, {"victim", K::kVictim}, {"all_to_all", K::kAllToAll}, {"all_reduce", K::kAllReduce}, {"all_gather", K::kAllGather},
      {"fan", K::kFan}, {"storage", K::kStorage}, {"distribution", K::kDistribution}, {"matrix", K::kMatrix}, {"flows", K::kFlows}};
    const auto rings = bits({K::kAllReduce, K::kAllGather});
    Section made = make_section<T>("What the hosts send. permutation: every host to one other in another group; incast: `senders` to host 0; victim: the published 32 : 1 incast with flows beside it; all_to_all; ring all_reduce and all_gather; fan: hosts [0, senders) to each of the next `receivers`; storage: hosts 1 to `senders` to host 0 in requests of `sizes`; distribution: random pairs at a load; matrix and flows: from a file.", {
      value("kind", &T::kind, ChoiceCodec<K>(kinds), "See above."),
      value("bytes", &T::bytes, size(1, sim::kMaxFlowBytes), "Of a flow. Collectives: of a chunk, what goes to one host in one step. storage: of a sender in all. victim: of a victim; the incast's flows have half."),
      value("messages", &T::messages, count(1, sim::kMaxFlows, "messages"), "Messages of a pair, one at a time on each of its streams.").only(bits({K::kPermutation, K::kFan})),
      value("streams", &T::streams, count(1, 4096, "streams"), "Streams of a pair; its messages take turns."),
      value("group", &T::group, count(0, 65535, "hosts"), "Hosts of a group. 0: those of a leaf, or of a pod; 1 below a single switch.").only(bits({K::kPermutation})),
      value("senders", &T::senders, count(1, 65534, "hosts"), "Hosts that send.").only(bits({K::kIncast, K::kFan, K::kStorage})),
      value("receivers", &T::receivers, count(1, 65534, "hosts"), "Hosts that receive.").only(bits({K::kFan})),
      value("window", &T::window, count(0, sim::kMaxFlows, "messages"), "Messages of a source in flight: the k-th starts at its (k - window)-th completion. flows: 0, or `dep` is the position in the source's list.").only(bits({K::kAllToAll, K::kStorage, K::kFlows})),
      value("slices", &T::slices, count(1, 65536, "messages"), "Messages in which a chunk travels.").only(rings | bits({K::kAllToAll})),
      value("shuffled", &T::shuffled, BoolCodec{}, "Hosts stand in the ring in random order, not by number.").only(rings),
      value("forward_at", &T::forward_at, ChoiceCodec<DependencyAt>({{"receiver", DependencyAt::kReceiver}, {"sender", DependencyAt::kSender}}), "A slice goes on when it is complete at the receiver, or when its sender has the last acknowledgment.").only(rings),
      values("sizes", &T::sizes, size(1, kGiB), 255, "Sizes of requests; sender i has the i-th, and again from the first.").only(bits({K::kStorage})),
      value("load_permille", &T::load_permille, count(1, 1000), "Offered load in thousandths of every host's rate.").only(bits({K::kDistribution})),
      value("count", &T::count, count(1, sim::kMaxFlows, "flows"), "Flows.").only(bits({K::kDistribution})),
      value("file", &T::file, text("path", "a path, from the folder of the scenario file", 4095), "distribution: lines `bytes cumulative_probability`. matrix: a row of bytes per source. flows: lines `id,src,dst,bytes,start_us,dep`.").only(bits({K::kDistribution, K::kMatrix, K::kFlows})),
      value("seed", &T::seed, count(0, UINT64_MAX), "Seed of the list. 0: the run's."),
    });
    choose_by_kind(made, &T::kind, kinds);
    return made;
  }();
  return s;
}

const Section& host_section() {
  using T = sim::HostModel;
  static const Section s = make_section<T>("How a host's software runs in virtual time.", {
    value("poll_interval", &T::poll_interval, duration(1, kMillisecond), "Least time between two polls of a host's roles."),
    value("receiver_delay", &T::receiver_delay, duration(0, kMillisecond), "From a frame's arrival to the RX role."),
    value("burst", &T::burst, count(1, 256, "packets"), "Packets that a role takes in one poll."),
    value("ring_size", &T::ring_size, count(1, 65536, "entries, a power of two"), "Rings between the roles."),
    value("validate_every", &T::validate_every, count(1, 1000000, "polls"), "A host's TX state is checked at every n-th poll of all hosts."),
    value("seeded_order", &T::seeded_order, BoolCodec{}, "The roles are polled in an order drawn from the seed."),
    value("single_class", &T::single_class, BoolCodec{}, "Hosts send control packets in the data class."),
    values("line_rates", &T::line_rates, rate(1, kMaxRate), 64, "Speed of host i's ports: the i-th, and again from the first. Empty: the fabric's."),
    value("warm_idle", &T::warm_idle, duration(0, 10 * kSecond), "Connections were opened this long before the clock starts, and are idle since."),
  });
  return s;
}

const Section& limits_section() {
  using T = sim::Limits;
  static const Section s = make_section<T>("When a run ends besides when it is complete.", {
    value("time", &T::time, duration(1, kHour), "Virtual time."),
    value("events", &T::events, count(1, UINT64_MAX), "Events."),
    value("progress", &T::progress, duration(kMicrosecond, kHour), "Flows are open, and nothing arrived for this long: a violation."),
  });
  return s;
}

const Section& output_section() {
  using T = sim::Output;
  static const Section s = make_section<T>("What a run records.", {
    value("series_interval", &T::series_interval, duration(0, kSecond), "Time between two samples of windows, hints, queues and rates, for --series. 0ns: none."),
    value("goodput_interval", &T::goodput_interval, duration(0, kSecond), "Intervals in which placed bytes are counted; one RTT for outages. 0ns: none."),
    value("flows", &T::flows, BoolCodec{}, "Every flow in the JSON document."),
  });
  return s;
}
// clang-format on

}  // namespace

const Section& scenario_keys() {
  using T = ScenarioFile;
  using sim::Canary;
  static const Section s = make_section<T>(
      "One simulated run.",
      {
          value("include", &T::include, text("path", "a path, from the folder of this file", 4095),
                "A file that is read first; what this one holds replaces its values."),
          value("name", &T::name, config::name_text(63), "In reports."),
          value("description", &T::description, text("string", "a line", 500), "In lists."),
          value("seed", &T::seed, count(0, UINT64_MAX),
                "Of everything that is random. Equal seeds, equal bytes."),
          section("fabric", &T::fabric, fabric_section()),
          value("loss", &T::loss, ProbabilityCodec{},
                "Independent loss of data packets, end to end, all the time; as a fault of kind "
                "loss on all."),
          sections("faults", &T::faults, fault_section(), 0, 4096),
          section("workload", &T::workload, workload_section()),
          section("transport", &T::transport, config::transport_keys()),
          section("host", &T::host, host_section()),
          section("limits", &T::limits, limits_section()),
          section("output", &T::output, output_section()),
          value("canary", &T::canary,
                ChoiceCodec<Canary>({{"none", Canary::kNone},
                                     {"double_placement", Canary::kDoublePlacement},
                                     {"wrong_address", Canary::kWrongAddress},
                                     {"lost_completion", Canary::kLostCompletion}}),
                "Breaks the simulated host on purpose: the run must end with a violation."),
      });
  return s;
}

}  // namespace metaroce::scenario
