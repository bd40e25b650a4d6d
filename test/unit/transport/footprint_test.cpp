// What an idle connection and an idle stream cost: bytes that the roles allocate for them, and
// their slots. Counted through operator new, so whatever a command allocates is in it, also what
// nobody thought of. Limits: 8 KiB for a connection with the default paths on one plane, both roles
// together, and 1 KiB for a stream. A path costs 176 bytes: 256 of them, on eight planes, 46 KiB.
// Pools are not counted, so the second half of the proof is that an idle connection has nothing
// from them. A stream's rings keep the size of their deepest use: 4 bytes for each request that was
// outstanding, 48 for each receive that was posted at one time.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>

#include "support/pair.h"

namespace {
std::size_t live_bytes = 0;  // one thread
constexpr std::size_t kHead = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
}  // namespace

void* operator new(std::size_t n) {
  auto* p = static_cast<unsigned char*>(std::malloc(n + kHead));
  if (p == nullptr) throw std::bad_alloc{};
  *reinterpret_cast<std::size_t*>(p) = n;
  live_bytes += n;
  return p + kHead;
}
void* operator new[](std::size_t n) { return operator new(n); }
void operator delete(void* p) noexcept {
  if (p == nullptr) return;
  auto* at = static_cast<unsigned char*>(p) - kHead;
  live_bytes -= *reinterpret_cast<std::size_t*>(at);
  std::free(at);
}
void operator delete[](void* p) noexcept { operator delete(p); }
void operator delete(void* p, std::size_t) noexcept { operator delete(p); }
void operator delete[](void* p, std::size_t) noexcept { operator delete(p); }

namespace metaroce {
namespace {

using test::Host;

constexpr std::uint32_t kConns = 64, kStreams = 256;

struct Cost {
  std::size_t tx = 0, rx = 0;
  [[nodiscard]] std::size_t both() const { return tx + rx; }
};

// Depths of the limits that the interface announces are an application's choice; these are typical.
constexpr std::uint32_t kDepth = 128;

class Footprint : public ::testing::Test {
 protected:
  static TransportConfig config() {
    TransportConfig c;
    c.max_connections = kConns + 1;
    c.max_streams = kStreams;
    c.max_streams_per_connection = kStreams;
    c.max_regions = 64;
    c.max_cqs = 4;
    c.max_clients = 4;
    return c;
  }
  void connect(std::uint32_t index, std::uint32_t planes, Cost& cost) {
    ConnParams p;
    p.index = ConnIndex{index};
    p.own_dcid = p.peer_dcid = (index << 8) | 0x5a;
    p.n_planes = static_cast<std::uint16_t>(planes);
    p.n_paths = static_cast<std::uint16_t>(planes * config_.paths_per_plane);
    for (std::uint8_t i = 0; i < planes; ++i)
      p.planes[i] = PlanePair{PlaneId{i}, host_->ip, IpAddress::v4(10, 0, 1, 1)};
    p.own_pseq_seed = p.peer_pseq_seed = p.entropy_seed = index;
    p.payload_mtu = 4096;
    p.line_rate = 100000;
    p.handshake_rtt = 10 * kMicrosecond;
    p.verified = true;
    Command k;
    k.kind = CommandKind::kAddConn;
    k.conn = &p;
    std::size_t before = live_bytes;
    ASSERT_TRUE(host_->to_rx(k).ok);
    cost.rx += live_bytes - before;
    before = live_bytes;
    ASSERT_TRUE(host_->to_tx(k).ok);
    k.kind = CommandKind::kOpenConn;
    k.id = index;
    ASSERT_TRUE(host_->to_tx(k).ok);
    cost.tx += live_bytes - before;
  }
  Cost connections(std::uint32_t planes) {
    host_ = std::make_unique<Host>(config_, IpAddress::v4(10, 0, 0, 1));
    connect(0, planes, warm_);
    Cost cost;
    for (std::uint32_t i = 1; i <= kConns; ++i) connect(i, planes, cost);
    cost.tx = cost.tx / kConns + sizeof(TxConn<EcnAimd>);
    cost.rx = cost.rx / kConns + sizeof(RxConn);
    return cost;
  }
  Cost streams() {
    Cost cost;
    for (std::uint32_t i = 0; i < kStreams; ++i) {
      StreamParams p;
      p.conn = ConnIndex{1};
      p.own_number = p.peer_number = static_cast<std::uint16_t>(i);
      p.handle = i | (5U << kStreamSlotBits);
      p.client = ClientId{1};
      p.pd = 1;
      p.send_window = p.recv_window = config_.spn_window;
      p.send_depth = p.recv_depth = kDepth;
      Command k;
      k.kind = CommandKind::kAddStream;
      k.stream = &p;
      std::size_t before = live_bytes;
      EXPECT_TRUE(host_->to_rx(k).ok);
      cost.rx += live_bytes - before;
      before = live_bytes;
      EXPECT_TRUE(host_->to_tx(k).ok);
      cost.tx += live_bytes - before;
    }
    cost.tx = cost.tx / kStreams + sizeof(SendStream);
    cost.rx = cost.rx / kStreams + sizeof(RecvStream);
    return cost;
  }
  static void print(const char* what, const Cost& c) {
    std::printf("%-40s TX %6zu  RX %6zu  both %6zu bytes\n", what, c.tx, c.rx, c.both());
  }

  TransportConfig config_ = config();
  Cost warm_;
  std::unique_ptr<Host> host_;
};

TEST_F(Footprint, idle_connection__one_plane_below_8_kib) {
  const Cost c = connections(1);
  print("idle connection, 1 plane x 32 paths:", c);
  std::printf("  slots: TX %zu, RX %zu\n", sizeof(TxConn<EcnAimd>), sizeof(RxConn));
  EXPECT_LE(c.both(), 8192U);
  const Cost s = streams();
  print("idle stream:", s);
  std::printf("  slots: TX %zu, RX %zu\n", sizeof(SendStream), sizeof(RecvStream));
  EXPECT_LE(s.both(), 1024U);
}

TEST_F(Footprint, idle_connection__eight_planes) {
  const Cost c = connections(8);
  print("idle connection, 8 planes x 32 paths:", c);
  EXPECT_LE(c.both(), 48U * 1024);
}

// Work, with losses in both directions, and then silence: everything is back in its pool, and when
// there is work again the connection goes on where it was.
TEST(Rest, after_work__nothing_from_the_pools) {
  test::WorldOptions o;
  o.paths = 32;
  o.streams = 4;
  test::Pair p(o);
  p.check_invariants = true;
  Rng rng(5);
  p.ab.drop_if = [&](const test::Frame&) { return rng.chance_ppm(20000); };
  p.ba.drop_if = p.ab.drop_if;
  std::uint64_t id = 0;
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    for (std::uint32_t s = 0; s < o.streams; ++s) p.write(++id, 400000, 0, s);
    ASSERT_TRUE(p.finish(id, kSecond));
    EXPECT_EQ(p.a.tx.at_work(), 1U);
    EXPECT_NE(p.b.rx.rings_used(), 0U) << "something was missing";
    const Nanos srtt = p.path(3).rtt.srtt();
    const std::uint16_t port = p.path(3).source_port;
    const Bytes window = p.conn().cc.window;
    const PathSeq next = p.path(3).seq.next;
    EXPECT_NE(srtt, 0);
    for (int i = 0; i < 30; ++i) p.run_for(100 * kMillisecond);
    for (const Host* h : {&p.a, &p.b}) {
      EXPECT_TRUE(h->tx.quiet());
      EXPECT_EQ(h->tx.at_work(), 0U);
      EXPECT_EQ(h->tx.windows_used(), 0U);
      EXPECT_EQ(h->rx.rings_used(), 0U);
      EXPECT_EQ(h->rx.mail_used(), 0U);
      EXPECT_EQ(h->rx.windows_used(), 0U);
    }
    EXPECT_TRUE(p.conn().rests());
    EXPECT_EQ(p.path(3).rtt.srtt(), srtt);
    EXPECT_EQ(p.path(3).source_port, port);
    EXPECT_EQ(p.path(3).seq.next, next);
    EXPECT_EQ(p.conn().cc.window, window);
    for (const auto& e : p.a.events) EXPECT_NE(e.kind, TxToControlKind::kConnFailed);
  }
  for (const auto& c : p.a.sent_completions) EXPECT_EQ(c.status, 0);
}

// Keepalives do not wake a connection, and a dead peer is found all the same. [MR-7.5.4]
TEST(Rest, keepalive__asleep) {
  test::WorldOptions o;
  o.paths = 4;
  o.config.keepalive = 20 * kMillisecond;
  o.config.dead_peer_timeout = 200 * kMillisecond;
  test::Pair p(o);
  p.write(1, 10000);
  ASSERT_TRUE(p.finish(1));
  p.run_for(50 * kMillisecond);
  std::uint64_t awake = 0;
  p.run_until(
      [&] {
        awake += p.a.tx.at_work();
        return false;
      },
      kSecond);
  EXPECT_EQ(awake, 0U);
  EXPECT_GE(p.a.tx.counters().probes, 20U);
  EXPECT_TRUE(p.a.events.empty());
  p.ba.drop_if = [](const test::Frame&) { return true; };
  EXPECT_TRUE(p.run_until([&] { return !p.a.events.empty(); }, kSecond));
  EXPECT_EQ(p.a.events.front().kind, TxToControlKind::kConnFailed);
}

// State for the paths of one connection only, and a second one: its work waits until the first
// rests. Neither is lost, and the shortage has a name.
TEST(Rest, pool_of_one__work_waits) {
  test::WorldOptions o;
  o.paths = 4;
  o.limits.paths = 1;
  test::Pair p(o);
  ConnParams c;
  c.index = ConnIndex{2};
  c.own_dcid = c.peer_dcid = (2U << 8) | 0x5a;
  c.n_paths = 4;
  c.n_planes = 1;
  c.planes[0] = PlanePair{PlaneId{0}, p.a.ip, p.b.ip};
  c.payload_mtu = o.mtu;
  c.line_rate = 100000;
  c.handshake_rtt = 10 * kMicrosecond;
  c.verified = true;
  Command k;
  k.kind = CommandKind::kAddConn;
  k.conn = &c;
  ASSERT_TRUE(p.b.to_rx(k).ok);
  ASSERT_TRUE(p.b.to_tx(k).ok);
  ASSERT_TRUE(p.a.to_rx(k).ok);
  ASSERT_TRUE(p.a.to_tx(k).ok);
  p.write(1, 100000);
  p.run_for(20 * kMicrosecond);
  ASSERT_EQ(p.a.tx.at_work(), 1U);
  // A live change of port is work, too: it is done when there is room.
  k.kind = CommandKind::kChangePort;
  k.id = 2;
  k.path = 1;
  k.port = 50001;
  EXPECT_FALSE(p.a.to_tx(k).ok) << "not yet";
  EXPECT_NE(p.a.tx.counters().no_path_state, 0U);
  ASSERT_TRUE(p.finish(1));
  ASSERT_TRUE(
      p.run_until([&] { return p.a.tx.path(ConnIndex{2}, 1).source_port == 50001; }, kSecond));
}

}  // namespace
}  // namespace metaroce
