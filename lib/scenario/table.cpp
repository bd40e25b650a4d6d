// The table of a scenario's keys, one line each: reading, messages and the reference page follow
// from it. The `transport:` section is the daemon's own.
#include "scenario/table.h"

#include "config/probability_codec.h"

namespace metaroce::scenario {
namespace {

using config::bits;
using config::BoolCodec;
using config::ChoiceCodec;
using config::choose_by_kind;
using config::count;
using config::duration;
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

// clang-format off
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
      value("bytes", &T::bytes, size(1, sim::kMaxWorkloadBytes), "Of a flow, which is one Write: at most 2 GiB. Collectives: of a chunk, what goes to one host in one step. storage: of a sender in all. victim: of a victim; the incast's flows have half."),
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
    value("receive_queue", &T::receive_queue, count(1, 1U << 20, "packets"), "Packets that wait for the RX role, over all ports; what arrives then is lost (`host_full`)."),
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
          section("fabric", &T::fabric, config::fabric_keys()),
          value("loss", &T::loss, config::ProbabilityCodec{},
                "Independent loss of data packets, end to end, all the time; as a fault of kind "
                "loss on all."),
          sections("faults", &T::faults, config::fault_keys(), 0, 4096),
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
