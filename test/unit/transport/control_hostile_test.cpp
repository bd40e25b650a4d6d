// What a hostile network may try: cookies, amplification, floods, mutated and replayed packets.
#include "control_net.h"

namespace metaroce::test {

using control::CtrlMessage;
using Kind = ControlEventKind;
using wire::CtrlType;

namespace {

// A hand-made peer: sends CONN_REQs as it likes and records what comes back.
struct Forger {
  Net& net;
  Host& target;
  CtrlMessage req;
  PacketSource source;
  std::vector<CtrlMessage> answers;
  std::size_t answer_bytes = 0;

  Forger(Net& n, Host& t, const IpAddress& from, std::uint64_t seed) : net(n), target(t) {
    Rng r(seed);
    req.type = CtrlType::kConnReq;
    req.scid = 0x101;
    req.conn_epoch = r.next();
    req.conn.payload_mtu = 4096;
    req.conn.n_planes = 1;
    req.conn.planes[0] = {PlaneId{0}, from};
    req.conn.max_streams = 10;
    req.conn.spn_window = 64;
    req.conn.paths_per_plane = 1;
    req.conn.line_rate = 1000;
    req.conn.worker_port = 50000;
    req.conn.instance = {r.next(), r.next()};
    req.serial = req.conn.attempt = static_cast<std::uint32_t>(r.next());
    source.src = from;
    source.dst = Net::address(2, 0);
    source.src_port = 60000;
    source.dst_port = wire::kDefaultBasePort;
  }
  // Sends without the wire; returns the request's size.
  std::size_t send(const CtrlMessage& m) {
    control::CtrlBytes b;
    const std::uint32_t n = control::encode_ctrl(m, WireTime{0}, b);
    const auto previous = net.on_send;
    net.on_send = [&](const Packet& p) {
      if (p.source.dst != source.src) return;
      CtrlMessage a;
      EXPECT_EQ(control::decode_ctrl(p.bytes, a), DropReason::kNone);
      answers.push_back(a);
      answer_bytes += p.bytes.size();
    };
    target.deliver({source, {b.begin(), b.begin() + n}}, net.now);
    for (int i = 0; i < 3; ++i) net.step(net.now);
    net.on_send = previous;
    return n;
  }
  // Fetches a cookie and uses it.
  void half_open() {
    send(req);
    ASSERT_EQ(answers.size(), 1U);
    req.cookie = answers[0].cookie;
    answers.clear();
    send(req);
  }
};

}  // namespace

// [MR-5.2.2] [MR-5.2.3] [MR-10.2.2] [MR-10.2.3]
TEST(ControlHostile, no_state_and_no_amplification_before_the_cookie) {
  Pair p(1);
  const ControlCounts base = p.b->role->counts();
  for (std::uint32_t i = 0; i < 5000; ++i) {
    Forger f(p.net, *p.b,
             IpAddress::v4(11, static_cast<std::uint8_t>(i >> 16),
                           static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)),
             i);
    f.req.crc = i % 2 == 0;
    const std::size_t n = f.send(f.req);
    ASSERT_EQ(f.answers.size(), 1U);
    ASSERT_EQ(f.answers[0].status, control::CtrlStatus::kRetry);
    ASSERT_LE(f.answer_bytes, n);
  }
  EXPECT_EQ(p.b->role->counts(), base);
}

// [MR-5.2.4] [MR-5.2.5] [MR-5.2.18] [MR-5.2.19]
TEST(ControlHostile, wrong_foreign_and_expired_cookies_only_earn_a_new_one) {
  Pair p(2);
  const ControlCounts base = p.b->role->counts();
  Forger f(p.net, *p.b, IpAddress::v4(11, 0, 0, 1), 1),
      g(p.net, *p.b, IpAddress::v4(11, 0, 0, 2), 2);
  f.send(f.req);
  const std::uint64_t cookie = f.answers[0].cookie;
  for (unsigned bit = 0; bit < 64; ++bit) {
    f.req.cookie = cookie ^ (std::uint64_t{1} << bit);
    f.send(f.req);
    ASSERT_EQ(f.answers.back().status, control::CtrlStatus::kRetry) << bit;
  }
  g.req.cookie = cookie;
  g.send(g.req);
  EXPECT_EQ(g.answers.back().status, control::CtrlStatus::kRetry);
  EXPECT_EQ(p.b->role->drops()[DropReason::kCtrlCookie], 65U);
  p.net.run(5 * kSecond);
  f.req.cookie = cookie;
  f.send(f.req);
  EXPECT_EQ(f.answers.back().status, control::CtrlStatus::kRetry);
  EXPECT_EQ(p.b->role->counts(), base);
}

// [MR-5.2.6] [MR-5.2.25] [MR-5.5.3]
TEST(ControlHostile, repeated_requests_get_the_same_answer) {
  Pair p(3);
  Forger f(p.net, *p.b, IpAddress::v4(11, 0, 0, 1), 1);
  f.half_open();
  ASSERT_EQ(f.answers.size(), 1U);
  ASSERT_EQ(f.answers[0].status, control::CtrlStatus::kOk);
  const CtrlMessage first = f.answers[0];
  for (int i = 0; i < 5; ++i) {
    f.send(f.req);
    const CtrlMessage& m = f.answers.back();
    EXPECT_EQ(m.scid, first.scid);
    EXPECT_EQ(m.conn.pseq_seed, first.conn.pseq_seed);
    EXPECT_EQ(m.conn.first_serial, first.conn.first_serial);
  }
  EXPECT_EQ(p.b->role->counts().half_open, 1U);
  // An older attempt of the same instance is late, not a new connection.
  f.req.conn_epoch ^= 1;
  f.req.cookie = 0;
  --f.req.conn.attempt;
  --f.req.serial;
  f.answers.clear();
  f.half_open();
  EXPECT_EQ(f.answers.size(), 0U);
  EXPECT_EQ(p.b->role->drops()[DropReason::kCtrlEpoch], 1U);
  EXPECT_EQ(p.b->role->counts().half_open, 1U);
}

// [MR-5.2.13] [MR-5.2.24] [MR-10.2.1]
TEST(ControlHostile, half_open_is_bounded_and_an_honest_client_gets_through) {
  TransportConfig c;
  c.max_half_open = 16;
  Pair p(4, c);
  for (std::uint32_t i = 0; i < 200; ++i) {
    Forger f(p.net, *p.b, IpAddress::v4(11, 0, 1, static_cast<std::uint8_t>(i)), i);
    f.half_open();
    ASSERT_LE(p.b->role->counts().half_open, 16U);
    // One address does not get more than one.
    Forger again(p.net, *p.b, IpAddress::v4(11, 0, 1, static_cast<std::uint8_t>(i)), i + 1000);
    again.half_open();
    ASSERT_LE(p.b->role->counts().half_open, 16U);
  }
  EXPECT_GT(p.b->role->drops()[DropReason::kCtrlLimit], 0U);
  const Nanos start = p.net.now;
  const std::uint64_t t = p.connect();
  std::uint32_t i = 5000;
  while (p.b->events.empty() && p.net.now - start < 2 * kSecond) {  // the flood goes on
    Forger f(p.net, *p.b,
             IpAddress::v4(11, 0, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)),
             i);
    f.half_open();
    ++i;
    p.net.run(kMillisecond);
  }
  p.accept(p.b->await_kind(Kind::kConnectRequest));
  EXPECT_EQ(p.a->await_token(t).status, ControlStatus::kOk);
  EXPECT_LT(p.net.now - start, kSecond);
  p.net.run(5 * kSecond);
  EXPECT_EQ(p.b->role->counts().half_open, 0U);
  EXPECT_EQ(p.b->role->counts().connections, 1U);
}

// [MR-5.2.26]
TEST(ControlHostile, claimed_addresses_neither_attract_streams_nor_end_connections) {
  Net net(5);
  Host& a = net.add(1);
  Host& b = net.add(2);
  const std::uint32_t cq_a = a.add_client(1), cq_b = b.add_client(1);
  b.role->listen(1, ClientId{1}, 7);
  b.await_token(1);
  // The forger opens a connection to b and claims a's address as its second plane.
  Forger f(net, b, IpAddress::v4(11, 0, 0, 1), 1);
  f.req.conn.n_planes = 2;
  f.req.conn.planes[1] = {PlaneId{1}, Net::address(1, 0)};
  f.half_open();
  CtrlMessage rtu;
  rtu.type = CtrlType::kConnRtu;
  rtu.dcid = f.answers[0].scid;
  rtu.scid = f.req.scid;
  rtu.conn_epoch = f.req.conn_epoch;
  f.send(rtu);
  ASSERT_EQ(b.role->counts().connections, 1U);
  ASSERT_EQ(b.role->counts().half_open, 0U);
  a.role->listen(2, ClientId{1}, 8);
  a.await_token(2);
  b.role->connect(3, ClientId{1}, Net::address(1, 0), 8, attr_of(cq_b), net.now + kSecond);
  a.role->accept(4, ClientId{1}, a.await_kind(Kind::kConnectRequest).request, attr_of(cq_a));
  EXPECT_EQ(b.await_token(3).status, ControlStatus::kOk) << "reached a, not the forger";
  Forger g(net, b, IpAddress::v4(11, 0, 0, 9), 2);
  g.req.conn.n_planes = 2;
  g.req.conn.planes[1] = {PlaneId{1}, Net::address(1, 0)};
  g.half_open();
  rtu.dcid = g.answers[0].scid;
  rtu.conn_epoch = g.req.conn_epoch;
  g.send(rtu);
  net.run(kSecond);
  EXPECT_TRUE(b.events.empty()) << "a's stream was ended by a claim";
}

// [MR-4.1.2] [MR-4.1.6] [MR-5.1.4] [MR-5.6.3] [MR-10.1.4]
TEST(ControlHostile, packets_off_the_connection_are_dropped_by_name_and_never_answered) {
  Pair p(6);
  p.open();
  const ConnParams c = p.b->groups[0]->conn_params.begin()->second;
  Forger f(p.net, *p.b, Net::address(1, 0), 1);
  p.net.run(kSecond);
  CtrlMessage m;
  m.type = CtrlType::kConnClose;
  m.status = control::CtrlStatus::kAborted;
  m.dcid = c.own_dcid;
  m.scid = c.peer_dcid;
  const DropCounters& d = p.b->role->drops();
  Rng r(7);
  for (int i = 0; i < 1000; ++i) {  // an off-path sender guesses the epoch
    m.conn_epoch = r.next();
    f.send(m);
  }
  EXPECT_EQ(d[DropReason::kCtrlEpoch], 1000U);
  m.dcid = c.own_dcid ^ 1;
  f.send(m);
  EXPECT_EQ(d[DropReason::kStaleConn], 1U);
  m.dcid = 0xffffff00;
  f.send(m);
  m.dcid = c.own_dcid + 0x500;
  f.send(m);
  EXPECT_EQ(d[DropReason::kUnknownConn], 2U);
  EXPECT_TRUE(f.answers.empty());
  EXPECT_EQ(p.b->role->counts().connections, 1U);
}

// Real exchanges, of which every packet is followed by mutations of itself. [MR-4.1.5] [MR-10.2.1]
TEST(ControlHostile, ten_thousand_mutations_leave_bounded_state) {
  int mutants = 0;
  for (std::uint64_t seed = 1; mutants < 10000; ++seed) {
    TransportConfig c;
    c.max_half_open = 8;
    Pair p(seed, c);
    std::vector<Packet> corpus;
    p.net.on_send = [&](const Packet& pk) {
      if (corpus.size() < 64) corpus.push_back(pk);
    };
    const Pair::Ends e = p.open();
    p.a->role->close(90, Pair::kClient, e.a.stream, p.net.now);
    p.a->await_token(90);
    p.open();
    p.net.on_send = nullptr;
    for (int i = 0; i < 500; ++i, ++mutants) {
      Packet pk = corpus[p.net.random.below(static_cast<std::uint32_t>(corpus.size()))];
      const std::uint32_t flips = p.net.random.below(4);
      for (std::uint32_t k = 0; k < flips; ++k)
        pk.bytes[p.net.random.below(static_cast<std::uint32_t>(pk.bytes.size()))] ^=
            static_cast<std::uint8_t>(1U << p.net.random.below(8));
      if (p.net.random.below(8) == 0)
        pk.bytes.resize(p.net.random.below(static_cast<std::uint32_t>(pk.bytes.size()) + 1));
      if (p.net.random.below(8) == 0)
        pk.bytes.resize(pk.bytes.size() + p.net.random.below(40), 0xaa);
      if (pk.bytes.size() > wire::kMaxCtrlBytes) pk.bytes.resize(wire::kMaxCtrlBytes);
      p.net.schedule(std::move(pk));
      if (i % 10 == 0) p.net.run(kMillisecond);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    }
    p.net.run(15 * kSecond);
    for (const Host* h : {p.a, p.b}) {
      ASSERT_LE(h->role->counts().connections, 2U) << "seed " << seed;
      ASSERT_EQ(h->role->counts().half_open, 0U);
      ASSERT_LE(h->role->counts().streams, 3U);
      ASSERT_EQ(h->role->counts().queued_commands, 0U);
    }
  }
}

// [MR-5.2.25] [MR-5.5.3]
TEST(ControlHostile, replay_of_a_whole_past_has_no_effect) {
  Pair p(8);
  std::vector<Packet> past;
  p.net.on_send = [&](const Packet& pk) { past.push_back(pk); };
  const Pair::Ends e = p.open();
  p.a->role->close(90, Pair::kClient, e.a.stream, p.net.now);
  p.a->await_token(90);
  p.b->await_kind(Kind::kStreamDown);
  p.open();
  p.net.on_send = nullptr;
  p.net.run(10 * kSecond);
  const ControlCounts a = p.a->role->counts(), b = p.b->role->counts();
  for (int round = 0; round < 3; ++round)
    for (const Packet& pk : past) p.net.schedule(pk);
  p.net.run(10 * kSecond);
  EXPECT_EQ(p.a->role->counts(), a);
  EXPECT_EQ(p.b->role->counts(), b);
  EXPECT_TRUE(p.a->events.empty() && p.b->events.empty());
}

}  // namespace metaroce::test
