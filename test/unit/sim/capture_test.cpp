// Frames of a run, replayed into a receiver that never saw the fabric: through the frame parser,
// as the daemon's ports do.
#include "sim/capture.h"

#include <gtest/gtest.h>

#include <memory>

#include "sim/world.h"
#include "small_scenario.h"
#include "wire/net.h"

namespace metaroce::sim {
namespace {

struct Frame {
  std::uint16_t host;
  std::uint8_t plane;
  std::vector<std::uint8_t> bytes;
};

// Where the region lies in the receiver's address space. Nothing is there.
constexpr std::uint32_t kBase = 1 << 16;

// Checks each byte against the place that it belongs to instead of storing it.
class ReplayIo {
 public:
  void learn(ConnIndex, unsigned, const RxPacket&) {}
  std::uint8_t* begin_reply(ConnIndex, unsigned) { return reply_.data(); }
  bool commit_reply(std::uint32_t, std::uint16_t, std::uint16_t) {
    ++replies;
    return true;
  }
  void place(const std::uint8_t* to, const std::uint8_t* from, std::uint32_t n) {
    ++placements;
    bytes += n;
    const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(to) - kBase;
    for (std::uint32_t i = 0; i < n; ++i) wrong += from[i] != pattern_byte(offset + i) ? 1 : 0;
  }
  std::uint64_t placements = 0, bytes = 0, wrong = 0, replies = 0;

 private:
  std::array<std::uint8_t, 2048> reply_{};
};

// A receiver with the connections, streams and the region of host `h` of a world.
class Receiver {
 public:
  Receiver(const Scenario& s, World& world, std::uint16_t h) : h_(h), config_(s.transport) {
    const SimHost& host = *world.hosts()[h];
    RegionParams region;
    region.key = kRegionKey;
    region.pd = 1;
    region.host = reinterpret_cast<std::uint8_t*>(std::uintptr_t{kBase});
    region.length = kMaxMessageBytes;
    region.access = kAccessLocalWrite | kAccessRemoteWrite;
    CqParams cq;
    cq.ring = completions_.producer();
    const ClientParams client{ClientId{1}, submissions_.consumer()};
    Command k;
    k.kind = CommandKind::kAddCq;
    k.cq = &cq;
    command(k);
    k.kind = CommandKind::kAddClient;
    k.client = &client;
    command(k);
    k.kind = CommandKind::kAddRegion;
    k.region = &region;
    command(k);
    for (std::uint32_t c = 0; const RxConn* conn = host.rx().conn(ConnIndex{c}); ++c) {
      k.kind = CommandKind::kAddConn;
      k.conn = &conn->params;
      command(k);
    }
    for (StreamHandle i = 0; const RecvStream* stream = host.rx().stream(i); ++i) {
      k.kind = CommandKind::kAddStream;
      k.stream = &stream->params;
      command(k);
    }
  }

  // What lib/dataplane does with a frame that a port delivers.
  void on_frame(const Frame& frame) {
    wire::FrameView f;
    DropReason bad =
        wire::parse_frame(frame.bytes.data(), static_cast<std::uint32_t>(frame.bytes.size()), f);
    if (bad == DropReason::kNone)
      bad = wire::check_destination(f, host_mac(h_, frame.plane), host_address(h_, frame.plane));
    if (bad == DropReason::kNone) bad = wire::verify_udp_checksum(f);
    if (bad != DropReason::kNone || f.dst_port != config_.base_udp_port) {
      ADD_FAILURE() << "refused for reason " << static_cast<int>(bad);
      return;
    }
    RxPacket p;
    p.data = f.payload();
    p.length = f.payload_len;
    p.port = PlaneId{frame.plane};
    p.ce = f.ecn == 3;
    ce += p.ce ? 1 : 0;
    p.src_ip = f.src_ip;
    p.dst_ip = f.dst_ip;
    p.src_mac = f.src_mac();
    p.src_port = f.src_port;
    p.dst_port = f.dst_port;
    rx_.begin_burst(now_ += 100);
    rx_.on_packet(p);
    rx_.end_burst(true, true);
    drain();
  }
  [[nodiscard]] const RxCounters& counters() const { return rx_.counters(); }
  [[nodiscard]] const ReplayIo& io() const { return io_; }
  std::uint64_t ce = 0;

 private:
  void command(Command k) {
    k.token = 1;
    EXPECT_TRUE(queues_.control_to_rx.push(k));
    rx_.begin_burst(now_);
    rx_.end_burst(true, true);
    RxToControl e;
    ASSERT_TRUE(queues_.rx_to_control.pop(e));
    EXPECT_TRUE(e.result.ok);
  }
  void drain() {
    RxToTx t;
    while (queues_.rx_to_tx.pop(t)) {
    }
    RxToControl e;
    while (queues_.rx_to_control.pop(e)) {
    }
  }

  std::uint16_t h_;
  TransportConfig config_;
  Nanos now_ = 0;
  Queues queues_;
  SpscRing<Completion> completions_{64};
  SpscRing<WorkRequest> submissions_{64};
  ReplayIo io_;
  RxRole<Queues, ReplayIo> rx_{config_, queues_, io_};
};

// Frames that a host's RX role took from its ports, in order: what was delivered as the run ended
// is in the capture too, but nobody looked at it.
std::vector<Frame> taken_by(const std::vector<Frame>& all, World& world, std::uint16_t host) {
  std::vector<Frame> out;
  for (const Frame& f : all)
    if (f.host == host && out.size() < world.hosts()[host]->rx().counters().packets)
      out.push_back(f);
  return out;
}

TEST(Capture, replay_gives_the_same_placements_and_drops) {
  Scenario s = small_scenario(3, 2);
  s.transport.data_dscp = 10;
  s.fabric.ecn = fabric::EcnMode::kThreshold;
  s.fabric.ecn_min_bytes = 20'000;
  s.fabric.faults = {everywhere(fabric::FaultKind::kLoss, fabric::kCertain / 50),
                     everywhere(fabric::FaultKind::kDuplicate, fabric::kCertain / 20, 5000)};
  const Workload w = workload(3, {flow(0, 2, 1 << 20), flow(1, 2, 500'001), flow(2, 0, 300'000),
                                  flow(0, 2, 0), flow(1, 0, 70'000)});
  World world(s, w);
  std::vector<Frame> all;
  RunHooks hooks;
  Nanos last = 0;
  hooks.capture = [&](Nanos at, std::uint16_t host, std::uint8_t plane,
                      std::span<const std::uint8_t> bytes) {
    EXPECT_GE(at, last);
    last = at;
    all.push_back({host, plane, {bytes.begin(), bytes.end()}});
  };
  const RunResult r = world.run(hooks);
  ASSERT_EQ(r.outcome, Outcome::kComplete);
  // The host that ended the run took its last frame when it was polled next.
  EXPECT_LE(last, r.virtual_time);
  EXPECT_LE(r.virtual_time - last, s.host.poll_interval);
  std::uint64_t marked = 0;
  for (std::uint16_t h = 0; h < 3; ++h) {
    Receiver again(s, world, h);
    for (const Frame& f : taken_by(all, world, h)) again.on_frame(f);
    const RxCounters &a = world.hosts()[h]->rx().counters(), &b = again.counters();
    EXPECT_EQ(a.packets, b.packets);
    EXPECT_EQ(a.data_packets, b.data_packets);
    EXPECT_EQ(a.placed_bytes, b.placed_bytes);
    EXPECT_EQ(again.io().bytes, b.placed_bytes);
    EXPECT_EQ(again.io().wrong, 0U);
    for (unsigned i = 0; i < kDropReasons; ++i) {
      const auto reason = static_cast<DropReason>(i);
      EXPECT_EQ(a.drops[reason], b.drops[reason]) << "host " << h << kDropReasonInfo[i].name;
    }
    marked += again.ce;
    if (h == 2) {
      EXPECT_GT(again.io().replies, 0U);
      EXPECT_EQ(b.placed_bytes, (1U << 20) + 500'001);
      EXPECT_EQ(again.io().placements, 256U + 123);
      EXPECT_GT(b.drops[DropReason::kDuplicate], 5U);
    }
  }
  EXPECT_GT(marked, 0U);
}

TEST(Capture, headers_of_a_frame) {
  std::vector<std::uint8_t> bytes;
  const auto keep = [&](Nanos at, std::uint16_t host, std::uint8_t plane,
                        std::span<const std::uint8_t> f) {
    EXPECT_EQ(at, 100);
    EXPECT_EQ(host, 300);
    EXPECT_EQ(plane, 3);
    bytes.assign(f.begin(), f.end());
  };
  const auto* arena = reinterpret_cast<const std::uint8_t*>(std::uintptr_t{kBase});
  Capture capture(keep, 1000, arena, 46, 10);
  wire::Data d{};
  d.c.set(wire::Type::kData);
  FrameInfo info;
  info.header_bytes = sizeof d;
  info.payload = arena + 4096;
  info.payload_bytes = 5;
  info.src_port = 50000;
  info.dst_port = 47910;
  info.src_host = 7;
  info.plane = 3;
  const auto* header = reinterpret_cast<const std::uint8_t*>(&d);
  for (const bool ce : {false, true}) {
    capture.frame(1100, 300, ce, info, header);
    wire::FrameView f;
    const auto n = static_cast<std::uint32_t>(bytes.size());
    ASSERT_EQ(wire::parse_frame(bytes.data(), n, f), DropReason::kNone);
    EXPECT_EQ(wire::verify_udp_checksum(f), DropReason::kNone);
    EXPECT_NE(f.udp_checksum, 0);
    EXPECT_EQ(wire::check_destination(f, host_mac(300, 3), host_address(300, 3)),
              DropReason::kNone);
    EXPECT_EQ(f.source_ip(), host_address(7, 3));
    EXPECT_EQ(f.source_mac(), host_mac(7, 3));
    EXPECT_EQ(f.ecn, ce ? 3 : 2);
    EXPECT_EQ(bytes[15], (10 << 2) | f.ecn);  // [MR-3.1.6]
    ASSERT_EQ(f.payload_len, sizeof d + 5);
    for (std::uint32_t i = 0; i < 5; ++i)
      EXPECT_EQ(f.payload()[sizeof d + i], pattern_byte(4096 + i));
  }
  info.control = true;
  info.payload = nullptr;
  capture.frame(1100, 300, false, info, header);
  EXPECT_EQ(bytes[15], (46 << 2) | 2);
  EXPECT_EQ(bytes.back(), 0);  // padding
}

}  // namespace
}  // namespace metaroce::sim
