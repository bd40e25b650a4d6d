// Ports of kind fabric under a made-up clock: the test is the lcore that calls pass().
#include "drivers/fabric/emulated_fabric.h"

#include "config/fault_spec.h"
#include "drivers/fabric/frame.h"
#include "drivers/registry.h"
#include "port_traffic.h"

namespace metaroce {
namespace {

using fabric::FaultKind;

EmulatedFabricPlan plan_of(std::uint16_t hosts = 2, std::uint8_t planes = 1) {
  EmulatedFabricPlan p;
  p.model.hosts = hosts;
  p.model.planes = planes;
  p.model.host_rate_mbps = 10'000;
  p.model.host_propagation_ns = 5000;
  p.port_packets = 64;
  p.frame_room = frame_bytes(4096);
  p.control_dscp = 46;
  return p;
}

PortConfig config_of(std::uint16_t host, std::uint8_t plane = 0) {
  PortConfig c;
  c.kind = PortKind::kFabric;
  c.name = "h" + std::to_string(host) + "p" + std::to_string(plane);
  c.rx_descriptors = c.tx_descriptors = 64;
  c.fabric_host = host;
  c.fabric_plane = plane;
  return c;
}

// A fabric with a started port per host in plane 0, and time.
struct World {
  explicit World(const EmulatedFabricPlan& plan) {
    const Status s = EmulatedFabric::create(plan, fabric);
    EXPECT_TRUE(s.ok()) << s.message;
    for (std::uint16_t h = 0; h < plan.model.hosts; ++h) {
      std::unique_ptr<Port> p;
      Status opened = open_port(config_of(h), p);
      EXPECT_TRUE(opened.ok()) << opened.message;
      EXPECT_TRUE(p != nullptr && p->start().ok());
      ports.push_back(std::move(p));
    }
    fabric->pass(now);
  }
  void step(Nanos by) { fabric->pass(now += by); }
  // Long enough for everything that is inside.
  void settle() {
    for (int i = 0; i < 300; ++i) step(10 * kMicrosecond);
  }
  bool put(unsigned from, unsigned to, Sent& s, std::uint16_t src_port = 50000, bool v6 = false) {
    rte_mbuf* m = make_packet(*ports[from], *ports[to], s, v6, src_port);
    return m != nullptr && rte_eth_tx_burst(ports[from]->id(), 0, &m, 1) == 1;
  }
  std::vector<rte_mbuf*> take(unsigned host) {
    std::vector<rte_mbuf*> got(256);
    got.resize(rte_eth_rx_burst(ports[host]->id(), 0, got.data(), 256));
    return got;
  }
  // Makes hosts known, so that nothing is flooded.
  void learn() {
    for (unsigned h = 0; h < ports.size(); ++h) {
      Sent s{payload_of(1, 0), 0};
      EXPECT_TRUE(put(h, (h + 1) % ports.size(), s));
      settle();
      for (unsigned to = 0; to < ports.size(); ++to) free_all(take(to));
    }
  }
  void fault(FaultKind kind, std::uint32_t probability = fabric::kCertain) {
    fabric::Fault f;
    f.kind = kind;
    f.probability = probability;
    EXPECT_TRUE(fabric->post({f}));
    step(0);
    std::string error;
    EXPECT_TRUE(fabric->take_result(error));
    EXPECT_EQ(error, "");
  }
  std::uint64_t dropped(FabricDrop why) const {
    return fabric->drops()[static_cast<std::size_t>(why)];
  }
  static void free_all(const std::vector<rte_mbuf*>& all) {
    for (rte_mbuf* m : all) rte_pktmbuf_free(m);
  }

  Nanos now = 1000;
  std::unique_ptr<EmulatedFabric> fabric;
  std::vector<std::unique_ptr<Port>> ports;
};

// The frame in one piece.
std::vector<std::uint8_t> bytes_of(const rte_mbuf* m) {
  std::vector<std::uint8_t> all(rte_pktmbuf_pkt_len(m)), scratch(all.size());
  std::memcpy(all.data(), rte_pktmbuf_read(m, 0, rte_pktmbuf_pkt_len(m), scratch.data()),
              all.size());
  return all;
}

bool header_checksum_good(const std::vector<std::uint8_t>& frame) {
  return wire::checksum_fold(wire::checksum_add(0, frame.data() + 14, 20)) == 0xffff;
}

}  // namespace

TEST(FabricPort, row__is_what_an_open_port_reports) {
  World w(plan_of());
  const PortCapabilities& row = port_kind(PortKind::kFabric);
  const PortCapabilities& got = w.ports[0]->capabilities();
  EXPECT_EQ(got.scatter, row.scatter);
  EXPECT_EQ(got.multi_segment_tx, row.multi_segment_tx);
  EXPECT_EQ(got.max_queues, row.max_queues);
  EXPECT_EQ(got.max_frame, row.max_frame);
  // [MR-3.1.8] [MR-3.1.9]: a fabric damages packets.
  EXPECT_EQ(w.ports[0]->tx_checksum(), TxChecksum::kSoftware);
  EXPECT_TRUE(w.ports[0]->verify_checksum());
}

TEST(FabricPort, carries__in_its_time_and_without_copying) {
  World w(plan_of());
  w.learn();
  for (const bool v6 : {false, true}) {
    Sent s{payload_of(4096, 3), 0};
    rte_mbuf* m = make_packet(*w.ports[0], *w.ports[1], s, v6, 50001);
    const std::uint32_t bytes = rte_pktmbuf_pkt_len(m);
    ASSERT_EQ(rte_eth_tx_burst(w.ports[0]->id(), 0, &m, 1), 1);
    w.step(0);
    // Two links of 10 Gb/s and 5 us each.
    const Nanos takes = 2 * (bytes * 8 / 10 + 5000);
    w.step(takes - 2);
    EXPECT_TRUE(w.take(1).empty());
    w.step(4);
    const auto got = w.take(1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0], m);
    const auto frame = bytes_of(got[0]);
    wire::FrameView v;
    ASSERT_EQ(wire::parse_frame(frame.data(), bytes, v), DropReason::kNone);
    EXPECT_EQ(v.ecn, 2);
    EXPECT_EQ(wire::verify_udp_checksum(v), DropReason::kNone);
    EXPECT_EQ(std::memcmp(v.payload(), s.payload.data(), 4096), 0);
    rte_pktmbuf_free(got[0]);
    EXPECT_EQ(s.released, 1U);
  }
}

TEST(FabricPort, floods__until_it_has_learned) {
  World w(plan_of(3));
  Sent s{payload_of(100, 1), 0};
  ASSERT_TRUE(w.put(0, 1, s));
  w.settle();
  for (unsigned h : {1U, 2U}) {
    const auto got = w.take(h);
    EXPECT_EQ(got.size(), 1U) << h;
    World::free_all(got);
  }
  EXPECT_TRUE(w.take(0).empty());
  w.learn();
  ASSERT_TRUE(w.put(0, 1, s));
  w.settle();
  EXPECT_TRUE(w.take(2).empty());
  const auto got = w.take(1);
  EXPECT_EQ(got.size(), 1U);
  World::free_all(got);
  EXPECT_EQ(s.released, 2U);
}

TEST(FabricPort, loss__frees_and_counts_by_name) {
  World w(plan_of());
  w.learn();
  w.fault(FaultKind::kLoss);
  Sent s{payload_of(1000, 1), 0};
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(w.put(0, 1, s));
  w.settle();
  EXPECT_TRUE(w.take(1).empty());
  EXPECT_EQ(s.released, 5U);
  const auto& totals = w.fabric->state().totals();
  EXPECT_EQ(totals.lost[static_cast<std::size_t>(fabric::Loss::kRandom)], 5U);
  EXPECT_EQ(totals.sent, totals.delivered + 5);
  EXPECT_EQ(w.fabric->state().packets_inside(), 0U);
}

TEST(FabricPort, ce__is_marked_behind_a_queue_with_the_header_checksum_right) {
  EmulatedFabricPlan plan = plan_of();
  plan.model.ecn = fabric::EcnMode::kThreshold;
  plan.model.ecn_min_bytes = 3000;
  plan.model.ecn_at_nic = true;
  plan.model.nic_queue_packets = 32;
  World w(plan);
  w.learn();
  for (const bool v6 : {false, true}) {
    Sent s{payload_of(1000, 1), 0};
    for (int i = 0; i < 16; ++i) ASSERT_TRUE(w.put(0, 1, s, 50000, v6));
    w.settle();
    unsigned marked = 0;
    const auto got = w.take(1);
    EXPECT_EQ(got.size(), 16U);
    for (const rte_mbuf* m : got) {
      const auto frame = bytes_of(m);
      wire::FrameView v;
      ASSERT_EQ(wire::parse_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), v),
                DropReason::kNone);
      EXPECT_TRUE(v6 || header_checksum_good(frame));
      EXPECT_EQ(wire::verify_udp_checksum(v), DropReason::kNone);
      marked += v.ecn == 3 ? 1 : 0;
    }
    // The first finds the port idle; the last three leave less than the threshold behind.
    EXPECT_GE(marked, 10U);
    EXPECT_LT(marked, 16U);
    World::free_all(got);
  }
}

TEST(FabricPort, corrupt__changes_a_copy_and_the_checksum_tells) {
  World w(plan_of());
  w.learn();
  w.fault(FaultKind::kCorrupt);
  const auto original = payload_of(4096, 9);
  Sent s{original, 0};
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(w.put(0, 1, s));
    w.settle();
    const auto got = w.take(1);
    ASSERT_EQ(got.size(), 1U);
    const auto frame = bytes_of(got[0]);
    wire::FrameView v;
    const auto parsed =
        wire::parse_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), v);
    EXPECT_TRUE(parsed != DropReason::kNone || wire::verify_udp_checksum(v) != DropReason::kNone ||
                !header_checksum_good(frame));
    EXPECT_EQ(s.payload, original);
    rte_pktmbuf_free(got[0]);
  }
  EXPECT_EQ(s.released, 20U);
}

TEST(FabricPort, duplicate__is_a_frame_of_its_own) {
  World w(plan_of());
  w.learn();
  w.fault(FaultKind::kDuplicate);
  Sent s{payload_of(4096, 2), 0};
  ASSERT_TRUE(w.put(0, 1, s));
  w.settle();
  const auto got = w.take(1);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_NE(got[0], got[1]);
  EXPECT_EQ(bytes_of(got[0]), bytes_of(got[1]));
  World::free_all(got);
  EXPECT_EQ(s.released, 1U);
}

TEST(FabricPort, full__pushes_back_then_drops_by_name) {
  EmulatedFabricPlan plan = plan_of();
  plan.model.host_propagation_ns = kSecond;  // everything stays inside
  plan.model.host_rate_mbps = 400'000;
  World w(plan);
  Sent s{payload_of(64, 1), 0};
  unsigned sent = 0;
  for (int round = 0; round < 200; ++round) {
    while (sent < 100 && w.put(0, 1, s)) ++sent;
    w.step(kMicrosecond);
  }
  EXPECT_EQ(sent, 100U);
  EXPECT_EQ(w.fabric->state().packets_inside(), 64U);
  EXPECT_EQ(w.dropped(FabricDrop::kInsideLimit), 36U);
  EXPECT_EQ(s.released, 36U);
  // A receiver that does not poll loses what its ring cannot hold.
  w.step(3 * kSecond);
  EXPECT_EQ(w.fabric->state().packets_inside(), 0U);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(w.put(0, 1, s));
  w.step(0);
  w.step(3 * kSecond);
  EXPECT_GE(w.dropped(FabricDrop::kRxRingFull), 5U);
  // Closing the sender gives everything back: its pools go.
  w.ports[0].reset();
  EXPECT_EQ(s.released, 105U);
}

TEST(FabricPort, close__with_frames_in_flight_leaves_nothing_and_can_be_undone) {
  World w(plan_of());
  w.learn();
  Sent s{payload_of(1000, 1), 0};
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(w.put(0, 1, s));
  w.step(kMicrosecond);  // some at the NIC, some in the ring
  w.ports[0].reset();
  EXPECT_EQ(s.released, 10U);
  w.settle();  // the model's packets come out without frames
  EXPECT_TRUE(w.take(1).empty());
  ASSERT_TRUE(open_port(config_of(0), w.ports[0]).ok());
  ASSERT_TRUE(w.ports[0]->start().ok());
  w.learn();
  ASSERT_TRUE(w.put(1, 0, s));
  w.settle();
  const auto got = w.take(0);
  EXPECT_EQ(got.size(), 1U);
  World::free_all(got);
}

TEST(FabricPort, links__follow_cuts_and_batches_are_all_or_nothing) {
  World w(plan_of());
  w.fabric->watch_links();
  EXPECT_TRUE(w.ports[0]->link().up);
  fabric::Fault down, nowhere;
  down.kind = nowhere.kind = FaultKind::kDown;
  down.target.scope = fabric::Scope::kHost;
  nowhere.target.scope = fabric::Scope::kHost;
  nowhere.target.id = 77;
  std::string error;
  EXPECT_FALSE(w.fabric->take_result(error));
  ASSERT_TRUE(w.fabric->post({down, nowhere}));
  EXPECT_FALSE(w.fabric->post({down}));  // one batch at a time
  w.step(0);
  ASSERT_TRUE(w.fabric->take_result(error));
  EXPECT_NE(error, "");
  EXPECT_TRUE(w.fabric->state().link_up(0, 0));
  ASSERT_TRUE(w.fabric->post({down}));
  w.step(0);
  ASSERT_TRUE(w.fabric->take_result(error));
  EXPECT_EQ(error, "");
  w.fabric->watch_links();
  EXPECT_FALSE(w.ports[0]->link().up);
  EXPECT_TRUE(w.ports[1]->link().up);
  Sent s{payload_of(10, 1), 0};
  ASSERT_TRUE(w.put(0, 1, s));
  w.settle();
  EXPECT_EQ(s.released, 1U);
  down.kind = FaultKind::kUp;
  ASSERT_TRUE(w.fabric->post({down}));
  w.step(0);
  w.fabric->watch_links();
  EXPECT_TRUE(w.ports[0]->link().up);
}

TEST(FabricPort, refuses__in_one_line) {
  std::unique_ptr<Port> p;
  Status s = open_port(config_of(0), p);
  EXPECT_EQ(s.code, Errc::kNoDevice) << s.message;
  World w(plan_of());
  const auto refused = [&](PortConfig c, Errc code, const char* says) {
    s = open_port(c, p);
    EXPECT_EQ(s.code, code) << s.message;
    EXPECT_NE(s.message.find(says), std::string::npos) << s.message;
    EXPECT_EQ(p, nullptr);
  };
  PortConfig c = config_of(2);
  refused(c, Errc::kInvalid, "no host 2");
  c = config_of(0, 1);
  refused(c, Errc::kInvalid, "plane 1");
  c = config_of(1);
  c.name = "other";
  refused(c, Errc::kBusy, "has a port already");
  c.queues = 2;
  refused(c, Errc::kNotSupported, "queue pairs");
  std::unique_ptr<EmulatedFabric> second;
  EXPECT_EQ(EmulatedFabric::create(plan_of(), second).code, Errc::kBusy);
}

TEST(FabricFrame, facts_of_a_frame) {
  // Neighbour discovery and whatever else is not UDP is control.
  std::uint8_t arp[60] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6};
  auto f = drivers::look_at_frame(arp, sizeof arp, 46);
  EXPECT_TRUE(f.group && f.control);
  EXPECT_EQ(f.src_mac, 0x020000000001U);
  EXPECT_FALSE(f.ect || f.ce);
  IpAddress a = IpAddress::v4(10, 0, 0, 1), b = IpAddress::v4(10, 0, 0, 2);
  const wire::Encap e(MacAddress{{2, 0, 0, 0, 0, 1}}, MacAddress{{2, 0, 0, 0, 0, 2}}, a, b, 47910);
  std::uint8_t udp[64] = {};
  for (const std::uint8_t dscp : {0, 46}) {
    e.write(udp, 16, 51234, dscp);
    f = drivers::look_at_frame(udp, sizeof udp, 46);
    EXPECT_EQ(f.control, dscp == 46);
    EXPECT_EQ(f.entropy, 51234U << 16 | 47910U);
    EXPECT_TRUE(f.ect);
    EXPECT_FALSE(f.ce || f.group);
  }
  // Every traffic class, marked: the header's sum stays right.
  for (unsigned dscp = 0; dscp < 64; ++dscp) {
    e.write(udp, 16, 51234, static_cast<std::uint8_t>(dscp));
    drivers::mark_ce(udp, sizeof udp);
    EXPECT_TRUE(drivers::look_at_frame(udp, sizeof udp, 46).ce);
    EXPECT_TRUE(header_checksum_good({udp, udp + sizeof udp})) << dscp;
  }
  // Cut short at any length: nothing is read or written behind the end.
  for (std::uint32_t n = 14; n < 42; ++n) {
    std::vector<std::uint8_t> cut(udp, udp + n);
    (void)drivers::look_at_frame(cut.data(), n, 46);
    drivers::mark_ce(cut.data(), n);
  }
}

}  // namespace metaroce
