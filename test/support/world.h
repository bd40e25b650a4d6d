// Two hosts, two directions of a link, one connection with any number of streams, virtual time.
#pragma once

#include <gtest/gtest.h>

#include "support/host.h"

namespace metaroce::test {

struct WorldOptions {
  std::uint64_t seed = 1;
  std::uint32_t paths = 4, planes = 1, streams = 1;
  std::uint32_t mtu = 1024;
  std::uint32_t send_depth = 64, recv_depth = 64;
  Nanos delay = 5 * kMicrosecond;
  std::uint32_t gbps = 100;
  bool ordered = false, crc = false;
  bool verified = true;  // paths were probed before; false: they are probed at open
  std::uint32_t initial_spn = 0xfffffff0U;  // wraps early
  bool pseq_wraps = false;                  // the first path's numbers wrap within 1,024 packets
  Nanos start = 1000;                       // of the clock
  QueueSizes queues;
  TxLimits limits{1024, 64, 4096};  // small: thousands of worlds are made
  TransportConfig config;
};

class World {
 public:
  explicit World(const WorldOptions& o)
      : options(o),
        config(tune(o)),
        a(config, IpAddress::v4(10, 0, 0, 1), o.queues, o.limits),
        b(config, IpAddress::v4(10, 0, 0, 2), o.queues, o.limits),
        ab(mix64(o.seed), o.delay, o.gbps),
        ba(mix64(o.seed + 1000003), o.delay, o.gbps) {
    a.out = &ab;
    b.out = &ba;
    now = a.now = b.now = o.start;
    const std::uint64_t seed_a = pseq_seed(1), seed_b = pseq_seed(2);
    connect(a, b, seed_a, seed_b);
    connect(b, a, seed_b, seed_a);
    for (std::uint32_t s = 0; s < o.streams; ++s) {
      add_stream(a, s);
      add_stream(b, s);
    }
  }

  static TransportConfig tune(const WorldOptions& o) {
    TransportConfig c = o.config;
    c.payload_mtu = o.mtu;
    c.max_connections = 4;
    c.max_streams = 64;
    c.max_streams_per_connection = 64;
    c.max_regions = 64;
    c.max_cqs = 4;
    c.max_clients = 4;
    return c;
  }
  StreamHandle handle(std::uint32_t s) const { return s | (5U << kStreamSlotBits); }

  std::uint64_t pseq_seed(std::uint64_t side) const {
    std::uint64_t s = side * options.seed;
    while (options.pseq_wraps && initial_pseq(s, PathId{0}).v < 0xfffffc00U) s += 16;
    return s;
  }
  void connect(Host& self, Host& peer, std::uint64_t own_seed, std::uint64_t peer_seed) {
    ConnParams p;
    p.index = ConnIndex{1};
    p.own_dcid = p.peer_dcid = (1U << 8) | 0x5a;
    p.own_port = p.peer_port = 47910;
    p.n_paths = static_cast<std::uint16_t>(options.paths);
    p.n_planes = static_cast<std::uint16_t>(options.planes);
    for (unsigned i = 0; i < options.planes; ++i)
      p.planes[i] = PlanePair{PlaneId{static_cast<std::uint8_t>(i)}, self.ip, peer.ip};
    p.own_pseq_seed = own_seed;
    p.peer_pseq_seed = peer_seed;
    p.entropy_seed = options.seed;
    p.payload_mtu = options.mtu;
    p.line_rate = options.gbps * 1000;
    p.handshake_rtt = 2 * options.delay;
    p.crc = options.crc;
    p.verified = options.verified;
    Command k;
    k.kind = CommandKind::kAddConn;
    k.conn = &p;
    ASSERT_TRUE(self.to_rx(k).ok);
    ASSERT_TRUE(self.to_tx(k).ok);
    k.kind = CommandKind::kOpenConn;
    k.id = 1;
    ASSERT_TRUE(self.to_tx(k).ok);
  }
  void add_stream(Host& h, std::uint32_t s) {
    StreamParams p;
    p.conn = ConnIndex{1};
    p.own_number = p.peer_number = static_cast<std::uint16_t>(s);
    p.handle = handle(s);
    p.client = ClientId{1};
    p.pd = 1;
    p.own_initial_spn = p.peer_initial_spn = StreamSeq{options.initial_spn};
    p.send_window = p.recv_window = config.spn_window;
    p.send_depth = options.send_depth;
    p.recv_depth = options.recv_depth;
    p.ordered_last = options.ordered;
    Command k;
    k.kind = CommandKind::kAddStream;
    k.stream = &p;
    ASSERT_TRUE(h.to_rx(k).ok);
    ASSERT_TRUE(h.to_tx(k).ok);
  }

  // Advances to the next event, at most `step`; each host makes a pass.
  void step(Nanos step_limit = 2 * kMicrosecond) {
    now = std::max(now + 1, std::min({now + step_limit, ab.next(), ba.next()}));
    b.pass(now, ab, a.ip);
    a.pass(now, ba, b.ip);
    ASSERT_EQ(a.tx_io.nested + b.tx_io.nested, 0U) << replay();
    if (check_invariants) {
      ASSERT_EQ(a.tx.validate(), nullptr) << replay();
      ASSERT_EQ(b.tx.validate(), nullptr) << replay();
    }
  }
  // True when `done` held before `limit` of virtual time went by.
  template <typename F>
  bool run_until(F&& done, Nanos limit) {
    const Nanos end = now + limit;
    while (!done()) {
      if (now >= end || ::testing::Test::HasFatalFailure()) return false;
      step();
    }
    return true;
  }
  void run_for(Nanos t) {
    run_until([] { return false; }, t);
  }
  std::string replay() const {
    return "replay: METAROCE_SEED=" + std::to_string(options.seed) + " with --gtest_filter=" +
           ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() + "." +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }

  WorldOptions options;
  TransportConfig config;
  Host a, b;
  Link ab, ba;
  Nanos now = 0;
  bool check_invariants = false;
};

}  // namespace metaroce::test
