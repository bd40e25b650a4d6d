// The table of keys. One line per key: name, member, codec (type, range, unit) and text; defaults
// come from the structs. Reading, hints, print_defaults(), the reference page and the tests all
// follow from it.
#include "config/port_kinds.h"
#include "config/probability_codec.h"
#include "config/schema.h"

namespace metaroce::config {
namespace {

constexpr std::uint64_t kAny32 = UINT32_MAX;
constexpr Bytes kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;
constexpr std::uint64_t kMaxCpu = 8191;

constexpr std::uint32_t kPci = kind_bit(PortKind::kPci), kTap = kind_bit(PortKind::kTap),
                        kRing = kind_bit(PortKind::kRing), kMemif = kind_bit(PortKind::kMemif),
                        kAfPacket = kind_bit(PortKind::kAfPacket),
                        kAfXdp = kind_bit(PortKind::kAfXdp), kFabric = kind_bit(PortKind::kFabric);

// clang-format off
const Section& eal_section() {
  using T = EalConfig;
  static const Section s = make_section<T>("The process and its DPDK environment (EAL).", {
    value("memory", &T::memory, ChoiceCodec<EalMemory>({{"auto", EalMemory::kAuto}, {"in_memory", EalMemory::kInMemory}, {"no_huge", EalMemory::kNoHuge}, {"file", EalMemory::kFile}}),
          "Where packet memory comes from. `in_memory`: huge pages without a mount; `no_huge`: ordinary pages, slower, needs nothing; `file`: huge pages in a mounted hugetlbfs, so that other DPDK processes may attach; `auto`: `in_memory` when enough huge pages are free, else `no_huge`."),
    value("memory_size", &T::memory_size, MebibytesCodec(64 * kMiB, 1024 * kGiB), "Memory for packet buffers, rings and clients."),
    value("file_prefix", &T::file_prefix, name_text(63), "Separates the run-time files of several daemons on one machine."),
    value("progress", &T::progress, ChoiceCodec<Progress>({{"lcore", Progress::kLcore}, {"inline", Progress::kInline}}),
          "Who runs the worker groups: lcores of their own, or (embedded library only) the application inside its calls."),
    values("control_cpus", &T::control_cpus, count(0, kMaxCpu), 64, "CPUs on which the control thread runs. Empty: those without a worker, or all when each has one."),
    values("extra_args", &T::extra_args, eal_argument_text(), 32, "Further arguments of rte_eal_init, one per item. Those that other keys decide are refused."),
  });
  return s;
}

const Section& control_section() {
  using T = ControlConfig;
  static const Section s = make_section<T>("The Unix socket to which applications attach.", {
    value("socket", &T::socket, socket_path_text(), "Path of the socket."),
    value("mode", &T::mode, ModeCodec{}, "Access to the socket: who may write to it may attach."),
    value("group", &T::group, group_text(), "Unix group that owns the socket. Empty: the daemon's own group."),
    value("max_clients", &T::max_clients, count(1, 4096, "clients"), "Applications attached at one time; more are refused."),
  });
  return s;
}

const Section& port_section() {
  using T = PortConfig;
  static const Section s = [] {
    std::vector<std::pair<std::string, PortKind>> kinds;
    for (const auto& k : kPortKinds) kinds.emplace_back(k.name, k.kind);
    Section made = make_section<T>("Ports of the host; each is one plane.", {
      value("kind", &T::kind, ChoiceCodec<PortKind>(kinds), "What carries the packets: a NIC, a kernel tap, nothing, an in-process ring, shared memory to another process, a kernel interface by AF_PACKET or AF_XDP, the emulated fabric of this process.").must(),
      value("plane", &T::plane, count(0, kMaxPlanes - 1), "Number of the plane. Both ends join equal numbers; unique within a host."),
      value("address", &T::address, PrefixCodec{}, "The host's address on this plane. All planes of a host are of one family.").must(),
      value("gateway", &T::gateway, IpCodec{}, "Next hop to addresses outside the prefix. Not set: they are unreachable.").eg("\"10.0.0.254\""),
      value("mtu", &T::mtu, count(576, kMaxMtu, "bytes"), "Longest IP packet that the link carries. A check only, while loading: transport.payload_mtu and its headers must fit. It sizes nothing and does not set the MTU of the port or interface. Not set: as if the link carried what the kind of port can.").eg("9000"),
      value("mac", &T::mac, MacCodec{}, "Ethernet address to use. Not set: the port's own.").eg("\"02:00:00:00:00:01\""),
      value("line_rate", &T::line_rate, rate(0, 10000000), "Speed of the link for pacing and rate hints. 0Mb/s: what the port reports, else transport.line_rate."),
      value("device", &T::device, PciCodec{}, "The NIC.").must().only(kPci).eg("\"0000:03:00.0\""),
      value("interface", &T::interface, interface_text(), "The kernel interface; tap creates it.").must().only(kTap | kAfPacket | kAfXdp).eg("mr0"),
      value("pair", &T::pair, name_text(31), "Name of the ring pair. Two ports with one name are joined; a single one hears itself.").must().only(kRing).eg("a"),
      value("role", &T::role, ChoiceCodec<MemifRole>({{"server", MemifRole::kServer}, {"client", MemifRole::kClient}}), "Which end of the shared memory. Either may start first, and restart.").must().only(kMemif),
      value("id", &T::id, count(0, kAny32), "Number of the link on the socket; both ends agree.").only(kMemif),
      value("socket", &T::socket, memif_socket_text(), "Socket on which both ends meet: an absolute path, else an abstract name.").only(kMemif),
      value("ring_size", &T::ring_size, PowerOfTwoCodec(64, 16384, "descriptors"), "Length of the rings to and from the port.").only(kMemif | kFabric),
      value("host", &T::host, count(0, 65534), "Which host of the fabric this is: host0, host1 and so on in its faults. Not set: the position in `hosts`.").only(kFabric).eg("0"),
    });
    made.kind = [](const void* port) { return kind_bit(detail::as<T>(port).kind); };
    for (const auto& k : kPortKinds) made.kind_names.emplace_back(k.name);
    return made;
  }();
  return s;
}

const Section& group_section() {
  using T = GroupConfig;
  static const Section s = make_section<T>("Worker groups; this version runs one per host. A group has an RX, a TX and a timer role; roles on one CPU run to completion on one lcore.", {
    value("rx", &T::rx, count(0, kMaxCpu), "CPU of the RX role. Not set: the hosts take turns over the CPUs on which the process may run.").eg("0"),
    value("tx", &T::tx, count(0, kMaxCpu), "CPU of the TX role. Not set: that of rx.").eg("0"),
    value("timer", &T::timer, count(0, kMaxCpu), "CPU of the timer role. Not set: that of tx.").eg("0"),
    value("idle", &T::idle, ChoiceCodec<IdlePolicy>({{"poll", IdlePolicy::kPoll}, {"yield", IdlePolicy::kYield}, {"sleep", IdlePolicy::kSleep}}), "After an empty pass: `poll` again at once (the CPU is the worker's own), `yield` to others, or `sleep` when there is nothing for longer."),
  });
  return s;
}

const Section& neighbour_section() {
  using T = NeighbourConfig;
  static const Section s = make_section<T>("Static neighbours: never asked for by ARP or neighbour discovery, never aged.", {
    value("ip", &T::ip, IpCodec{}, "Address in the network of one of the ports.").must(),
    value("mac", &T::mac, MacCodec{}, "Its Ethernet address.").must(),
  });
  return s;
}

const Section& host_section() {
  using T = HostConfig;
  static const Section s = make_section<T>("Hosts that this process runs; usually one. Applications choose one by name, by default the first.", {
    value("name", &T::name, name_text(63), "Name of the host; unique within the process."),
    sections("ports", &T::ports, port_section(), 1, kMaxPlanes).must(),
    sections("groups", &T::groups, group_section(), 1, 1),
    sections("neighbours", &T::neighbours, neighbour_section(), 0, 4096),
  });
  return s;
}

const Section& transport_section() {
  using T = TransportConfig;
  static const Section s = make_section<T>("The transport, for all hosts of the process.", {
    value("paths_per_plane", &T::paths_per_plane, count(1, 256, "paths"), "Paths of a connection on each plane. Planes times paths is at most 256."),
    value("packets_per_path", &T::packets_per_path, count(0, 64, "packets"), "Packets of congestion window for each path that carries data: a small window uses few of a connection's paths. 0: all, always."),
    value("payload_mtu", &T::payload_mtu, size(256, kMaxPayload), "Payload of one data packet; both ends use the lesser. tap carries 1408 bytes."),
    value("base_udp_port", &T::base_udp_port, count(1024, 65535), "UDP destination port of the worker group; the same on all hosts that talk. Not 4791 (RoCEv2) or 4793."),
    value("source_port_min", &T::source_port_min, count(1024, 65535), "Lowest UDP source port, the entropy that spreads paths over a fabric."),
    value("source_port_max", &T::source_port_max, count(1024, 65535), "Highest UDP source port."),
    value("crc", &T::crc, BoolCodec{}, "Protect every packet with a CRC32C trailer, when the peer agrees."),
    value("data_dscp", &T::data_dscp, count(0, 63), "DSCP of data packets."),
    value("control_dscp", &T::control_dscp, count(0, 63), "DSCP of acknowledgments, announcements of starts and control packets."),
    value("spn_window", &T::spn_window, PowerOfTwoCodec(64, 65536, "packets"), "Packets that a stream may have beyond its first missing one."),
    value("max_connections", &T::max_connections, count(1, 1 << 20, "connections"), "Connections of a host."),
    value("max_streams", &T::max_streams, count(1, 1 << 20, "streams"), "Streams of a worker group."),
    value("max_streams_per_connection", &T::max_streams_per_connection, count(1, 65000, "streams"), "Streams that share one connection."),
    value("max_half_open", &T::max_half_open, count(1, 1 << 20, "connections"), "Connections whose peer has not answered yet."),
    value("max_clients", &T::max_clients, count(1, 4096, "clients"), "Clients of a host, the daemon's own objects included."),
    value("max_cqs", &T::max_cqs, count(1, 1 << 20, "queues"), "Completion queues of a host."),
    value("max_regions", &T::max_regions, count(2, 1 << 20, "regions"), "Slots for memory regions of a host; half of them may be in use, so that keys are hard to guess."),
    value("ordered_hold_packets", &T::ordered_hold_packets, count(0, 65536, "packets"), "Ordered packets that a connection may hold until what precedes them is placed."),
    value("probe_timeout_floor", &T::probe_timeout_floor, duration(kMicrosecond, kSecond), "Least silence of a path before it is probed."),
    value("probe_timeout_max", &T::probe_timeout_max, duration(kMicrosecond, 60 * kSecond), "Longest backed-off probe timeout."),
    value("max_ack_delay", &T::max_ack_delay, duration(0, 10 * kMillisecond), "Longest that an acknowledgment waits for company. 0ns: at once."),
    value("ack_every_packets", &T::ack_every_packets, count(1, 128, "packets"), "Data packets of a path after which it is acknowledged at the latest."),
    value("retry_limit", &T::retry_limit, count(1, 255, "losses"), "Declared losses of one packet after which its stream fails."),
    value("dead_peer_timeout", &T::dead_peer_timeout, duration(10 * kMillisecond, 3600 * kSecond), "Silence of a peer, with data outstanding, after which its connection fails."),
    value("rnr_retry", &T::rnr_retry, count(0, 7), "Tries against a receiver without posted receives; 7 is for ever, as in verbs."),
    value("line_rate", &T::line_rate, rate(1, 10000000), "Speed of ports that neither report nor are given one."),
    value("initial_window", &T::initial_window, size(0, kGiB), "Bytes in flight before the first acknowledgment. 0B: 0.9 x handshake RTT x line rate."),
    value("min_window", &T::min_window, size(256, kGiB), "Least congestion window of a connection."),
    value("max_window", &T::max_window, size(4 * kKiB, 4 * kGiB), "Greatest congestion window of a connection."),
    value("idle_restart", &T::idle_restart, duration(10 * kMicrosecond, 60 * kSecond), "Idle time after which a window that has grown goes back to its start."),
    value("pacing_burst_packets", &T::pacing_burst_packets, count(1, 64, "packets"), "Packets that leave back to back at line rate."),
    value("rate_hints", &T::rate_hints, BoolCodec{}, "Tell senders what they may send to a port that is contended, and follow what receivers tell."),
    value("hint_interval", &T::hint_interval, duration(kMicrosecond, 10 * kMillisecond), "Least time between two computations of the rate hints of a port, unless its senders change."),
    value("hint_capacity_permille", &T::hint_capacity_permille, count(500, 1000, "per thousand"), "Share of a port's line rate that rate hints give away."),
    value("hint_window_slack", &T::hint_window_slack, duration(0, kMillisecond), "A sender with a hint slows down while round trips are longer than the shortest by twice this time, and pauses when a new hint finds more in flight than it sends in a round trip and this time."),
    value("delay_guard", &T::delay_guard, duration(0, kSecond), "Where nothing marks, windows shrink when queues add more than this, and more than four mean deviations, to every round trip of a round. 0ns: never."),
    value("ctrl_retry_first", &T::ctrl_retry_first, duration(kMillisecond, 10 * kSecond), "Wait before a control packet is repeated; doubles each time."),
    value("ctrl_retries", &T::ctrl_retries, count(0, 20), "Repetitions of a control packet before the request fails."),
    value("half_open_lifetime", &T::half_open_lifetime, duration(10 * kMillisecond, 60 * kSecond), "Life of a connection whose peer does not answer."),
    value("stream_linger", &T::stream_linger, duration(0, 60 * kSecond), "Time for which a closed stream's number re-acknowledges late packets before reuse."),
    value("keepalive", &T::keepalive, duration(0, 3600 * kSecond), "An idle connection is probed after this time. 0ns: never."),
  });
  return s;
}

const Section& limits_section() {
  using T = LimitsConfig;
  static const Section s = make_section<T>("What one client may hold.", {
    value("memory", &T::memory, MebibytesCodec(kMiB, 1024 * kGiB), "Registered memory."),
    value("streams", &T::streams, count(1, 1 << 20, "streams"), "Open streams."),
    value("cqs", &T::cqs, count(1, 65536, "queues"), "Completion queues."),
    value("regions", &T::regions, count(1, 1 << 20, "regions"), "Memory regions."),
  });
  return s;
}

const Section& corrupt_section() {
  using T = FlipByte;
  static const Section s = make_section<T>("Bytes to invert in DATA packets.", {
    value("packet", &T::packet, count(1, 1000000000000), "Which DATA packet of a host, counted from 1 in the order of sending over all its ports, resent ones included, lost ones (loss_ppm) not.").must(),
    value("offset", &T::offset, count(0, 9215), "Which byte of its UDP payload, counted from 0; the packet's own headers come first. Shorter packets stay as they are.").must(),
  });
  return s;
}

const Section& faults_section() {
  using T = FaultsConfig;
  static const Section s = make_section<T>("Faults put into transmitted packets, to test what is above. Off by default.", {
    value("loss_ppm", &T::loss_ppm, count(0, 1000000, "per million"), "Packets dropped."),
    value("duplicate_ppm", &T::duplicate_ppm, count(0, 1000000, "per million"), "Packets sent twice."),
    sections("corrupt", &T::corrupt, corrupt_section(), 0, 64),
    value("seed", &T::seed, count(0, UINT64_MAX), "Seed of the random choice: equal seeds, equal choices."),
  });
  return s;
}

const Section& fabric_section() {
  using T = FabricSection;
  static const Section s = [] {
    Section made = make_section<T>("The emulated Ethernet that joins the ports of kind fabric, in real time: the simulator's model with the same keys (doc/fabric.md). `planes` and `hosts` must hold those ports.", lifted(&T::model, fabric_keys()));
    for (Field& f : std::vector<Field>{
      value("seed", &T::seed, count(0, UINT64_MAX), "Of hashing, marks and faults."),
      value("loss", &T::loss, ProbabilityCodec{}, "Independent loss of data packets, end to end; as a fault of kind loss on all."),
      sections("faults", &T::faults, fault_keys(), 0, 4096),
      value("lcore", &T::lcore, count(0, kMaxCpu), "CPU on which the fabric runs, alone or in turn with the roles there. Not set: the next after those of the hosts' groups.").eg("0"),
      value("port_packets", &T::port_packets, count(64, 65536, "packets"), "Frames of one port inside the fabric at one time, in buffers that are allocated at start; more are dropped as `inside_limit`. A link of 10 Gb/s holds 300 per millisecond of delay."),
      value("socket", &T::socket, socket_path_text(), "Path of the Unix socket for metaroce-ctl; only the daemon's own user may write to it. Not set: that of `control` with .fabric behind it.").eg("/run/metaroce/fabric.sock"),
    })
      made.fields.push_back(std::move(f));
    return made;
  }();
  return s;
}
// clang-format on

}  // namespace

const Section& transport_keys() { return transport_section(); }

const Section& root_section() {
  using T = DaemonConfig;
  static const Section s =
      make_section<T>("Configuration of metaroced and of the embedded library.",
                      {
                          section("eal", &T::eal, eal_section()),
                          section("control", &T::control, control_section()),
                          sections("hosts", &T::hosts, host_section(), 1, 64).must(),
                          section("transport", &T::transport, transport_section()),
                          section("limits", &T::limits, limits_section()),
                          section("faults", &T::faults, faults_section()),
                          section("fabric", &T::fabric, fabric_section()),
                      });
  return s;
}

}  // namespace metaroce::config
