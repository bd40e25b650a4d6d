// Many senders into one port, all roles real: K hosts share one link of unlimited queue to the
// receiver. What the two halves of congestion control make of it, without loss to help them.
#include <gtest/gtest.h>

#include <memory>

#include "support/host.h"

namespace metaroce::test {
namespace {

constexpr std::uint32_t kGbps = 100;
constexpr Nanos kDelay = 4 * kMicrosecond;
constexpr std::uint32_t kMtu = 4096;
constexpr std::uint64_t kMessage = 512 << 10;

struct Flow {
  std::uint32_t bytes = kMessage;
  std::uint32_t gbps = kGbps;  // of the sender's own port
};

class Incast {
 public:
  explicit Incast(const std::vector<Flow>& flows)
      : config(make_config()),
        b(config, IpAddress::v4(10, 0, 0, 1), {}, TxLimits{64, 64, 256}),
        bottleneck(1, kDelay, kGbps),
        back(2, 0, 100 * kGbps) {
    b.out = &back;
    back.drop_if = [this](const Frame& f) { return divert(f); };
    for (std::uint32_t i = 0; i < flows.size(); ++i) add_sender(i, flows[i]);
  }

  static TransportConfig make_config() {
    TransportConfig c;
    c.payload_mtu = kMtu;
    c.max_connections = 80;
    c.max_streams = 80;
    c.max_streams_per_connection = 4;
    c.max_regions = 80;
    c.max_cqs = c.max_clients = 4;
    c.line_rate = kGbps * 1000;
    return c;
  }
  static IpAddress ip(std::uint32_t i) {
    return IpAddress::v4(10, 0, 1, static_cast<std::uint8_t>(i + 1));
  }
  static std::uint32_t dcid(std::uint32_t i) { return ((1U + i) << 8) | 7; }

  void add_sender(std::uint32_t i, const Flow& f) {
    Sender s;
    s.host = std::make_unique<Host>(config, ip(i), QueueSizes{}, TxLimits{64, 64, 4096});
    s.access = std::make_unique<Link>(100 + i, 0, f.gbps);
    s.back = std::make_unique<Link>(200 + i, kDelay, kGbps);
    s.host->out = s.access.get();
    connect(*s.host, i, f, s.host->ip, b.ip);
    connect(b, i, f, b.ip, s.host->ip);
    Host::Memory& src = s.host->add_memory(f.bytes, (1U << 12) | 5, kAccessLocalWrite);
    Host::Memory& dst =
        b.add_memory(f.bytes, ((1U + i) << 12) | 9, kAccessLocalWrite | kAccessRemoteWrite);
    WorkRequest r{};
    r.op = static_cast<std::uint8_t>(WorkOp::kWrite);
    r.flags = kWorkSignaled;
    r.stream = handle(i);
    r.local_addr = src.va;
    r.lkey = src.key;
    r.remote_addr = dst.va;
    r.rkey = dst.key;
    r.length = f.bytes;
    s.host->sends.push(r);
    senders.push_back(std::move(s));
  }
  static StreamHandle handle(std::uint32_t i) { return i | (5U << kStreamSlotBits); }

  void connect(Host& h, std::uint32_t i, const Flow& f, const IpAddress& own,
               const IpAddress& peer) {
    ConnParams p;
    p.index = ConnIndex{1 + i};
    p.own_dcid = p.peer_dcid = dcid(i);
    p.own_port = p.peer_port = 47910;
    p.n_paths = 8;
    p.n_planes = 1;
    p.planes[0] = PlanePair{PlaneId{0}, own, peer};
    p.payload_mtu = kMtu;
    p.line_rate = std::min(f.gbps, kGbps) * 1000;
    p.handshake_rtt = 2 * kDelay;
    p.verified = true;
    Command k;
    k.kind = CommandKind::kAddConn;
    k.conn = &p;
    ASSERT_TRUE(h.to_rx(k).ok);
    ASSERT_TRUE(h.to_tx(k).ok);
    k.kind = CommandKind::kOpenConn;
    k.id = 1 + i;
    ASSERT_TRUE(h.to_tx(k).ok);
    StreamParams s;
    s.conn = p.index;
    s.handle = handle(i);
    s.client = ClientId{1};
    s.pd = 1;
    s.send_window = s.recv_window = config.spn_window;
    s.send_depth = s.recv_depth = 4;
    k.kind = CommandKind::kAddStream;
    k.stream = &s;
    ASSERT_TRUE(h.to_rx(k).ok);
    ASSERT_TRUE(h.to_tx(k).ok);
  }
  // An ACK leaves b: it goes to the sender whose connection it names.
  bool divert(const Frame& f) {
    const auto& c = *reinterpret_cast<const wire::Common*>(f.bytes.data());
    const std::uint32_t i = (c.dcid >> 8) - 1;
    senders[i].back->send(now, f);
    return true;
  }

  void step() {
    Nanos next = bottleneck.next();
    for (const Sender& s : senders)
      next = std::min({next, s.access->next(), s.back->next(), s.wake});
    now = std::max(now + 1, std::min(next, now + kMicrosecond));
    for (std::uint32_t i = 0; i < senders.size(); ++i) {
      Frame f;
      while (senders[i].access->receive(now, f)) enqueue(f);
    }
    receive();
    for (Sender& s : senders) {
      s.host->pass(now, *s.back, b.ip);
      s.wake = s.host->tx.pacing_wake();
    }
  }
  // A switch port: tail drop at `limit`, marks from a fifth of it with a rising probability.
  void enqueue(Frame& f) {
    const Bytes on_the_wire = Bytes{kGbps} * kDelay / 8;
    const Bytes q = std::max<Bytes>(queued - on_the_wire, 0);
    if (q > limit) {
      // FLUSHes are lost too, and never sent again.
      drops += (f.bytes[0] & 0x0f) == static_cast<int>(wire::Type::kData) ? 1 : 0;
      return;
    }
    f.ce = q > limit / 5 && Bytes{rng.below(1000)} * (limit / 1000) * 3 / 5 < q - limit / 5;
    queued += static_cast<Bytes>(f.bytes.size()) + 66;
    bottleneck.send(now, f);
  }
  void receive() {
    b.now = now;
    b.rx.begin_burst(now);
    Frame f;
    while (bottleneck.receive(now, f)) {
      const auto& c = *reinterpret_cast<const wire::Common*>(f.bytes.data());
      queued -= static_cast<Bytes>(f.bytes.size()) + 66;
      last_arrival = now;
      b.deliver(f, ip((c.dcid >> 8) - 1));
    }
    b.rx.end_burst(true, true);
    b.tx.poll(now);
    b.timer.poll(now);
  }
  [[nodiscard]] bool done() const {
    return std::all_of(senders.begin(), senders.end(),
                       [](const Sender& s) { return !s.host->sent_completions.empty(); });
  }
  // Jain's index of what pacer and window allow the senders that have work left.
  [[nodiscard]] double jain() const {
    double sum = 0, squares = 0;
    int n = 0;
    for (std::uint32_t i = 0; i < senders.size(); ++i) {
      if (!senders[i].host->sent_completions.empty()) continue;
      const auto r = static_cast<double>(conn(i).pace_rate);
      sum += r;
      squares += r * r;
      ++n;
    }
    return n == 0 ? 1 : sum * sum / (n * squares);
  }
  [[nodiscard]] const Host::Tx::Conn& conn(std::uint32_t i) const {
    return *senders[i].host->tx.conn(ConnIndex{1 + i});
  }
  [[nodiscard]] Bytes inflight() const {
    Bytes sum = 0;
    for (std::uint32_t i = 0; i < senders.size(); ++i) sum += conn(i).inflight;
    return sum;
  }

  struct Sender {
    std::unique_ptr<Host> host;
    std::unique_ptr<Link> access, back;
    Nanos wake = 0;
  };
  TransportConfig config;
  Host b;
  Link bottleneck, back;
  std::vector<Sender> senders;
  Nanos now = 1000, last_arrival = 0;
  Bytes queued = 0, limit = Bytes{1} << 40;
  std::uint64_t drops = 0;
  Rng rng{5};
};

class IncastOf : public ::testing::TestWithParam<unsigned> {};
// Not more: hints expire when a queue outlasts them.
class DeepIncast : public ::testing::TestWithParam<unsigned> {};

// The link never idles, the rates are equal from two RTTs on, and the queue of the first RTT is
// gone after some more: what is in flight is a bandwidth-delay product and the slack.
TEST_P(DeepIncast, fair_full_and_drained) {
  const unsigned k = GetParam();
  Incast w(std::vector<Flow>(k, Flow{}));
  const Nanos start = w.now;
  const Bytes bdp = Bytes{kGbps} * 2 * kDelay / 8;
  const Nanos first = static_cast<Nanos>(k) * 8 * bdp / 10 * 8 / kGbps;
  const Nanos ideal = static_cast<Nanos>(k) * kMessage * 8 / kGbps;
  while (!w.done() && w.now < start + 2 * ideal) {
    w.step();
    ASSERT_FALSE(HasFatalFailure());
    // The queue of the first windows leaves at an eighth of the rate.
    if (w.now > start + 9 * first + 6 * kDelay && w.now < start + ideal * 9 / 10) {
      ASSERT_LE(w.inflight(), bdp * 16 / 10 + Bytes{k} * 2 * 4140) << w.now;
    }
    if (w.now > start + 6 * kDelay && w.now < start + ideal * 9 / 10) {
      ASSERT_GE(w.jain(), 0.98) << w.now;
      ASSERT_LE(w.now - w.last_arrival, 1500) << "link idle at " << w.now;
    }
  }
  ASSERT_TRUE(w.done());
  EXPECT_LE(w.now - start, ideal * 104 / 100 + 4 * kDelay);
  std::uint64_t resent = 0;
  for (const auto& s : w.senders) resent += s.host->tx.counters().resent_packets;
  EXPECT_EQ(resent, 0U);
}
INSTANTIATE_TEST_SUITE_P(Senders, DeepIncast, ::testing::Values(2U, 8U));
INSTANTIATE_TEST_SUITE_P(Senders, IncastOf, ::testing::Values(2U, 8U, 32U));

// A cold incast with a queue of one bandwidth-delay product: most of the first window is lost, and
// each packet of it is sent again once, without waiting for probe timeouts. [MR-8.4.15]
TEST_P(IncastOf, cold__short_queue) {
  const unsigned k = GetParam();
  Incast w(std::vector<Flow>(k, Flow{}));
  w.limit = Bytes{kGbps} * 2 * kDelay / 8;
  const Nanos start = w.now;
  const Nanos ideal = static_cast<Nanos>(k) * kMessage * (4206 * 8) / 4096 / kGbps;
  while (!w.done() && w.now < start + 2 * ideal) w.step();
  ASSERT_TRUE(w.done());
  EXPECT_LE(w.now - start, ideal * 105 / 100 + 4 * kDelay);
  std::uint64_t resent = 0, spurious = 0, timeouts = 0;
  for (const auto& s : w.senders) {
    resent += s.host->tx.counters().resent_packets;
    spurious += s.host->tx.counters().spurious_packets;
    timeouts += s.host->tx.counters().timeouts;
  }
  EXPECT_EQ(resent, w.drops);
  EXPECT_EQ(spurious, 0U);
  EXPECT_LE(timeouts, k);
}

// Storage: ports of 25, 50 and 100 Gb/s, requests of 64 KiB to 2 MiB. Max-min: who finishes leaves
// its share to the others, and the port stays full to the end.
TEST(Incast, mixed_rates_and_sizes) {
  std::vector<Flow> flows;
  for (unsigned i = 0; i < 12; ++i) flows.push_back(Flow{65536U << (i % 6), 25U << (i % 3)});
  Incast w(flows);
  const Nanos start = w.now;
  std::uint64_t bytes = 0;
  for (const Flow& f : flows) bytes += f.bytes;
  const Nanos ideal = static_cast<Nanos>(bytes) * 8 / kGbps;
  while (!w.done() && w.now < start + 2 * ideal) w.step();
  ASSERT_TRUE(w.done());
  EXPECT_LE(w.now - start, ideal * 108 / 100);
}

// A sender that starts alone uses the whole port, with the initial window only at first.
TEST(Incast, lone_sender__full_rate) {
  Incast w({Flow{2 << 20, kGbps}});
  const Nanos start = w.now;
  const Nanos ideal = Nanos{2 << 20} * 8 / kGbps;
  while (!w.done() && w.now < start + 2 * ideal) w.step();
  ASSERT_TRUE(w.done());
  EXPECT_LE(w.now - start, ideal * 108 / 100 + 2 * kDelay);
}

}  // namespace
}  // namespace metaroce::test
