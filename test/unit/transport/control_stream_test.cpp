// Streams: accept, reject, deadlines, close from both ends, failures, limits, many at once.
#include "control_net.h"

namespace metaroce::test {

using Kind = ControlEventKind;

namespace {

void expect_nothing_left(Pair& p) {
  p.net.run(10 * kSecond);
  EXPECT_EQ(p.a->role->counts().streams, 0U);
  EXPECT_EQ(p.b->role->counts().streams, 0U);
  EXPECT_EQ(p.a->groups[0]->rx.streams.size() + p.a->groups[0]->tx.streams.size(), 0U);
  EXPECT_EQ(p.b->groups[0]->rx.streams.size() + p.b->groups[0]->tx.streams.size(), 0U);
}

}  // namespace

// [MR-6.7.1] [MR-6.7.4]
TEST(ControlStream, close_hands_the_final_spn_to_both_transmitters) {
  Pair p(1);
  const Pair::Ends e = p.open();
  p.a->groups[0]->cum_spn = 111;
  p.b->groups[0]->cum_spn = 222;
  p.a->role->close(90, Pair::kClient, e.a.stream, p.net.now + kSecond);
  EXPECT_EQ(p.a->await_token(90).status, ControlStatus::kOk);
  const ControlEvent down = p.b->await_kind(Kind::kStreamDown);
  EXPECT_EQ(down.stream, e.b.stream);
  EXPECT_EQ(down.status, ControlStatus::kOk);
  EXPECT_TRUE(p.a->groups[0]->tx_stops.at(e.a.stream).has_spn);
  EXPECT_EQ(p.a->groups[0]->tx_stops.at(e.a.stream).spn.v, 222U);
  EXPECT_TRUE(p.b->groups[0]->tx_stops.at(e.b.stream).has_spn);
  EXPECT_EQ(p.b->groups[0]->tx_stops.at(e.b.stream).spn.v, 111U);
  // Both linger in the roles, to acknowledge late packets again.
  EXPECT_TRUE(p.a->groups[0]->rx.streams.contains(e.a.stream));
  p.b->role->close(91, Pair::kClient, e.b.stream, p.net.now);
  EXPECT_EQ(p.b->await_token(91).status, ControlStatus::kOk) << "while the handle is known";
  expect_nothing_left(p);
  p.b->role->close(92, Pair::kClient, e.b.stream, p.net.now);
  EXPECT_EQ(p.b->await_token(92).status, ControlStatus::kNoSuchObject);
}

TEST(ControlStream, close_waits_for_the_drain_but_not_beyond_its_deadline) {
  Pair p(2);
  const Pair::Ends e = p.open();
  p.a->groups[0]->drains = false;
  const Nanos start = p.net.now;
  p.a->role->close(90, Pair::kClient, e.a.stream, start + 400 * kMillisecond);
  p.net.run(300 * kMillisecond);
  EXPECT_EQ(p.a->groups[0]->rx.stopped.size(), 0U);
  EXPECT_EQ(p.a->await_token(90).status, ControlStatus::kOk);
  EXPECT_GE(p.net.now - start, 400 * kMillisecond);
  EXPECT_LT(p.net.now - start, 410 * kMillisecond);
  expect_nothing_left(p);
}

// [MR-6.7.1]
TEST(ControlStream, crossing_closes_end_well_for_both) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Pair p(seed);
    const Pair::Ends e = p.open();
    p.net.loss_ppm = seed % 3 == 0 ? 200000 : 0;
    p.net.jitter_max = seed % 2 == 0 ? 5 * kMillisecond : 0;
    p.a->role->close(90, Pair::kClient, e.a.stream, p.net.now + kSecond);
    p.net.run(static_cast<Nanos>(p.net.random.below(40)) * kMicrosecond);
    p.b->role->close(91, Pair::kClient, e.b.stream, p.net.now + kSecond);
    ASSERT_EQ(p.a->await_token(90).status, ControlStatus::kOk);
    ASSERT_EQ(p.b->await_token(91).status, ControlStatus::kOk);
    ASSERT_TRUE(p.a->groups[0]->tx_stops.at(e.a.stream).has_spn);
    ASSERT_TRUE(p.b->groups[0]->tx_stops.at(e.b.stream).has_spn);
    // b may have learnt of a's close before it closed itself.
    std::erase_if(p.b->events, [](const ControlEvent& x) { return x.kind == Kind::kStreamDown; });
    ASSERT_TRUE(p.a->events.empty() && p.b->events.empty());
    expect_nothing_left(p);
  }
}

// [MR-6.1.8]
TEST(ControlStream, nobody_listens_and_reject_are_refusals) {
  Pair p(3);
  p.a->role->connect(50, Pair::kClient, Net::address(2, 0), 999, attr_of(p.cq_a),
                     p.net.now + kSecond);
  EXPECT_EQ(p.a->await_token(50).status, ControlStatus::kRefused);
  const std::uint64_t t = p.connect();
  p.b->role->reject(Pair::kClient, p.b->await_kind(Kind::kConnectRequest).request);
  EXPECT_EQ(p.a->await_token(t).status, ControlStatus::kRefused);
  EXPECT_EQ(p.a->role->counts().streams, 0U);
  EXPECT_EQ(p.b->role->counts().streams, 0U);
}

// [MR-5.5.3] [MR-6.1.5]
TEST(ControlStream, lost_refusals_are_repeated_from_memory) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Pair p(seed);
    p.open();
    p.net.loss_ppm = 400000;
    const std::uint64_t t = p.connect(20 * kSecond);
    p.b->role->reject(Pair::kClient, p.b->await_kind(Kind::kConnectRequest).request);
    const ControlEvent e = p.a->await_token(t);
    ASSERT_EQ(e.status, ControlStatus::kRefused) << e.message;
    p.net.run(3 * kSecond);
    ASSERT_TRUE(p.b->events.empty()) << "a repeated OPEN became a second request";
  }
}

// [MR-6.1.6] [MR-6.1.7]
TEST(ControlStream, slow_acceptor_is_waited_for_until_the_deadline) {
  Pair p(4);
  const std::uint64_t t = p.connect(60 * kSecond);
  const ControlEvent request = p.b->await_kind(Kind::kConnectRequest);
  p.net.run(30 * kSecond);
  p.accept(request);
  EXPECT_EQ(p.a->await_token(t).status, ControlStatus::kOk);

  const Nanos start = p.net.now;
  const std::uint64_t u = p.connect(2 * kSecond);
  const ControlEvent late = p.b->await_kind(Kind::kConnectRequest);
  EXPECT_EQ(p.a->await_token(u).status, ControlStatus::kTimeout);
  EXPECT_EQ(p.net.now - start, 2 * kSecond);
  p.net.run(kMillisecond);
  EXPECT_EQ(p.b->await_token(p.accept(late)).status, ControlStatus::kNoSuchObject);
  EXPECT_EQ(p.a->role->counts().connections, 1U);
}

TEST(ControlStream, cancelled_connect_leaves_nothing_on_either_side) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Pair p(seed);
    p.open();
    p.net.loss_ppm = 100000;
    p.net.duplicate_ppm = 300000;
    p.net.jitter_max = 20 * kMillisecond;
    const std::uint64_t t =
        p.connect(static_cast<Nanos>(1 + p.net.random.below(40)) * kMillisecond);
    p.net.run(static_cast<Nanos>(p.net.random.below(40)) * kMillisecond);
    for (const ControlEvent& e : p.b->events)
      if (e.kind == Kind::kConnectRequest) p.accept(e);
    const ControlEvent end = p.a->await_token(t);
    p.net.loss_ppm = 0;
    p.net.run(10 * kSecond);
    const std::uint32_t want = end.status == ControlStatus::kOk ? 2U : 1U;
    ASSERT_EQ(p.a->role->counts().streams, want);
    ASSERT_EQ(p.b->role->counts().streams, want);
    ASSERT_EQ(p.a->role->counts().connections, 1U);
  }
}

// [MR-6.6.5]
TEST(ControlStream, failure_by_the_transmit_role_is_told_to_both_ends) {
  Pair p(5);
  const Pair::Ends e = p.open(), other = p.open();
  TxToControl failed;
  failed.kind = TxToControlKind::kStreamFailed;
  failed.status = static_cast<std::uint8_t>(WorkStatus::kRnrRetryExceeded);
  failed.id = e.a.stream;
  p.a->groups[0]->tx_out.push_back(failed);
  const ControlEvent down = p.a->await_kind(Kind::kStreamDown);
  EXPECT_EQ(down.work_status, WorkStatus::kRnrRetryExceeded);
  EXPECT_EQ(p.b->await_kind(Kind::kStreamDown).stream, e.b.stream);
  p.net.run(5 * kSecond);
  EXPECT_TRUE(p.a->events.empty() && p.b->events.empty());
  EXPECT_EQ(p.a->role->counts().streams, 1U) << "the other stream lives on";
  EXPECT_TRUE(p.a->groups[0]->rx.streams.contains(other.a.stream));
}

// [MR-5.5.2]
TEST(ControlStream, close_to_a_dead_peer_ends) {
  Pair p(6);
  const Pair::Ends e = p.open();
  p.net.remove(*p.b);
  const Nanos start = p.net.now;
  p.a->role->close(90, Pair::kClient, e.a.stream, start + kSecond);
  EXPECT_EQ(p.a->await_token(90).status, ControlStatus::kTimeout);
  EXPECT_LT(p.net.now - start, 8 * kSecond);
  p.net.run(kSecond);
  EXPECT_EQ(p.a->role->counts().connections, 0U);
  EXPECT_EQ(p.a->role->counts().streams, 0U);
}

TEST(ControlStream, roles_without_room_are_a_limit) {
  for (const bool at_b : {false, true}) {
    Pair p(7);
    (at_b ? p.b : p.a)->groups[0]->refuse.insert(CommandKind::kAddStream);
    const std::uint64_t t = p.connect();
    const std::uint64_t u = p.accept(p.b->await_kind(Kind::kConnectRequest));
    EXPECT_EQ(p.a->await_token(t).status, ControlStatus::kLimit);
    EXPECT_EQ(p.b->await_token(u).status, at_b ? ControlStatus::kLimit : ControlStatus::kOk);
    p.net.run(10 * kSecond);
    EXPECT_EQ(p.a->role->counts().streams, 0U);
    EXPECT_EQ(p.b->role->counts().streams, 0U);
    EXPECT_EQ(p.a->role->counts().connections, 1U);
  }
}

// [MR-6.1.9] [MR-10.2.1]
TEST(ControlStream, limits_are_named_on_both_sides) {
  TransportConfig c;
  c.max_streams_per_connection = 3;
  Pair p(8, c);
  for (int i = 0; i < 3; ++i) p.open();
  EXPECT_EQ(p.a->await_token(p.connect()).status, ControlStatus::kLimit);

  Net net(9);
  TransportConfig few;
  few.max_streams = 2;
  Host& a = net.add(1);
  Host& b = net.add(2, few);
  const std::uint32_t cq = a.add_client(1);
  b.add_client(1);
  b.role->listen(1, ClientId{1}, 7);
  b.await_token(1);
  for (std::uint64_t t = 10; t < 13; ++t)
    a.role->connect(t, ClientId{1}, Net::address(2, 0), 7, attr_of(cq), net.now + kSecond);
  int limits = 0;
  net.run(500 * kMillisecond);
  for (const ControlEvent& e : a.events) limits += e.status == ControlStatus::kLimit ? 1 : 0;
  EXPECT_EQ(limits, 1);
  EXPECT_EQ(b.role->drops()[DropReason::kCtrlLimit], 1U);
}

// [MR-5.5.8] [MR-6.1.5]
TEST(ControlStream, two_thousand_at_once_over_a_bad_wire) {
  Pair p(10);
  p.net.loss_ppm = 50000;
  p.net.duplicate_ppm = 50000;
  p.net.jitter_max = 5 * kMillisecond;
  constexpr unsigned kStreams = 2000;
  for (unsigned i = 0; i < kStreams; ++i) p.connect(60 * kSecond, i % 2);
  unsigned accepted = 0;
  const Nanos until = p.net.now + 60 * kSecond;
  while (p.net.now < until && accepted < kStreams) {
    p.net.run(kMillisecond);
    std::deque<ControlEvent> events;
    events.swap(p.b->events);
    for (const ControlEvent& e : events)
      if (e.kind == Kind::kConnectRequest) {
        p.accept(e);
        ++accepted;
      }
  }
  p.net.run(5 * kSecond);
  unsigned connected = 0;
  std::set<std::uint16_t> numbers;
  for (const ControlEvent& e : p.a->events) {
    ASSERT_EQ(e.status, ControlStatus::kOk) << e.message;
    if (e.kind != Kind::kConnected) continue;
    ++connected;
    numbers.insert(p.a->groups[0]->params.at(e.stream).own_number);
  }
  EXPECT_EQ(connected, kStreams);
  EXPECT_EQ(numbers.size(), kStreams);
  EXPECT_EQ(p.b->role->counts().streams, kStreams);
  EXPECT_EQ(p.a->role->counts().connections, 1U);
}

TEST(ControlStream, handles_of_reused_slots_differ) {
  TransportConfig c;
  c.max_streams = 1;
  Pair p(11, c);
  std::set<StreamHandle> seen;
  for (int i = 0; i < 5; ++i) {
    const Pair::Ends e = p.open();
    EXPECT_TRUE(seen.insert(e.a.stream).second);
    EXPECT_EQ(stream_slot(e.a.stream), 0U);
    p.a->role->close(90, Pair::kClient, e.a.stream, p.net.now);
    p.a->await_token(90);
    p.net.run(5 * kSecond);
  }
}

}  // namespace metaroce::test
