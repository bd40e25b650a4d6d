// Handshake and life of connections: loss, crossing, restarts, planes, groups, shutdown.
#include "transport/control_role.h"

#include "control_net.h"

namespace metaroce::test {

using Kind = ControlEventKind;

// [MR-5.2.1] [MR-5.2.8] [MR-5.2.15] [MR-5.2.17] [MR-5.3.1] [MR-6.1.1] [MR-6.4.4] [MR-9.1.1]
// [MR-9.1.3]
TEST(ControlConnect, opens_with_what_both_ends_offered) {
  TransportConfig big, small;
  big.payload_mtu = 8192;
  small.payload_mtu = 1024;
  small.paths_per_plane = 2;
  small.spn_window = 128;
  Net net(1);
  Host& a = net.add(1, big, 2);
  Host& b = net.add(2, small, 3);
  const std::uint32_t cq_a = a.add_client(1), cq_b = b.add_client(1);
  b.role->listen(b.next_token, ClientId{1}, 7);
  b.await_token(b.next_token++);
  StreamAttr attr = attr_of(cq_a, "hello");
  attr.ordered_last = true;
  a.role->connect(100, ClientId{1}, Net::address(2, 0), 7, attr, net.now + kSecond);
  const ControlEvent request = b.await_kind(Kind::kConnectRequest);
  EXPECT_EQ(text(request.private_data), "hello");
  EXPECT_EQ(request.service, 7U);
  EXPECT_EQ(request.peer, Net::address(1, 0));
  b.role->accept(200, ClientId{1}, request.request, attr_of(cq_b, "welcome"));
  const ControlEvent accepted = b.await_token(200), connected = a.await_token(100);
  ASSERT_EQ(connected.status, ControlStatus::kOk);
  EXPECT_EQ(connected.kind, Kind::kConnected);
  EXPECT_EQ(text(connected.private_data), "welcome");

  const ConnParams& ca = a.groups[0]->conn_params.begin()->second;
  const ConnParams& cb = b.groups[0]->conn_params.begin()->second;
  EXPECT_EQ(ca.payload_mtu, 1024U);
  EXPECT_EQ(cb.payload_mtu, 1024U);
  EXPECT_EQ(ca.n_planes, 2);
  EXPECT_EQ(ca.n_paths, 4);
  EXPECT_EQ(cb.n_paths, 4);
  EXPECT_EQ(ca.peer_dcid, cb.own_dcid);
  EXPECT_EQ(cb.peer_dcid, ca.own_dcid);
  EXPECT_EQ(ca.peer_pseq_seed, cb.own_pseq_seed);
  EXPECT_EQ(cb.peer_pseq_seed, ca.own_pseq_seed);
  EXPECT_EQ(ca.planes[1].peer, Net::address(2, 1));
  EXPECT_EQ(ca.handshake_rtt, 20 * kMicrosecond);  // the wire's
  EXPECT_EQ(cb.handshake_rtt, 20 * kMicrosecond);  // as the asker told

  const StreamParams& sa = a.groups[0]->params.at(connected.stream);
  const StreamParams& sb = b.groups[0]->params.at(accepted.stream);
  EXPECT_EQ(sa.own_number, sb.peer_number);
  EXPECT_EQ(sa.peer_number, sb.own_number);
  EXPECT_EQ(sa.own_initial_spn, sb.peer_initial_spn);
  EXPECT_EQ(sa.peer_initial_spn, sb.own_initial_spn);
  EXPECT_EQ(sa.send_window, 128U);
  EXPECT_EQ(sb.send_window, 2048U);
  EXPECT_TRUE(sa.ordered_last);
  EXPECT_FALSE(sb.ordered_last);
  EXPECT_TRUE(a.groups[0]->tx.open_conns.size() == 1 && b.groups[0]->tx.open_conns.size() == 1);
}

// [MR-5.2.6] [MR-5.2.10] [MR-5.5.1] [MR-5.5.2] [MR-5.5.3]
TEST(ControlConnect, survives_loss_duplication_and_reordering) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Pair p(seed);
    p.net.loss_ppm = 200000;
    p.net.duplicate_ppm = 200000;
    p.net.jitter_max = 30 * kMillisecond;
    const Pair::Ends e = p.open();
    ASSERT_FALSE(HasFailure());
    const StreamParams& sa = p.a->groups[0]->params.at(e.a.stream);
    const StreamParams& sb = p.b->groups[0]->params.at(e.b.stream);
    ASSERT_EQ(sa.own_initial_spn, sb.peer_initial_spn);
    ASSERT_EQ(sa.peer_number, sb.own_number);
    p.a->role->close(900, Pair::kClient, e.a.stream, p.net.now + kSecond);
    ASSERT_EQ(p.a->await_token(900).status, ControlStatus::kOk);
    ASSERT_EQ(p.b->await_kind(Kind::kStreamDown).stream, e.b.stream);
    p.net.run(8 * kSecond);
    ASSERT_EQ(p.a->role->counts().streams, 0U);
    ASSERT_EQ(p.b->role->counts().streams, 0U);
    ASSERT_EQ(p.a->role->counts().connections, 1U);
    ASSERT_EQ(p.b->role->counts().connections, 1U);
    ASSERT_TRUE(p.b->events.empty()) << "an event without a cause";
  }
}

// [MR-5.1.2]
TEST(ControlConnect, one_connection_carries_all_streams_by_any_address) {
  Pair p(3);
  for (unsigned i = 0; i < 6; ++i) {
    const std::uint64_t t = p.connect(kSecond, i % 2);
    p.accept(p.b->await_kind(Kind::kConnectRequest));
    ASSERT_EQ(p.a->await_token(t).status, ControlStatus::kOk);
  }
  EXPECT_EQ(p.a->role->counts().connections, 1U);
  EXPECT_EQ(p.b->role->counts().connections, 1U);
  EXPECT_EQ(p.a->role->counts().streams, 6U);
  // The other direction as well.
  p.a->role->listen(500, Pair::kClient, 8);
  p.a->await_token(500);
  p.b->role->connect(501, Pair::kClient, Net::address(1, 1), 8, attr_of(p.cq_b),
                     p.net.now + kSecond);
  p.a->role->accept(502, Pair::kClient, p.a->await_kind(Kind::kConnectRequest).request,
                    attr_of(p.cq_a));
  EXPECT_EQ(p.b->await_token(501).status, ControlStatus::kOk);
  EXPECT_EQ(p.a->role->counts().connections, 1U);
}

// [MR-5.1.2] [MR-5.2.23]
TEST(ControlConnect, second_address_before_its_proof_joins_by_instance) {
  Pair p(4);
  const std::uint64_t t = p.connect(kSecond, 0), u = p.connect(kSecond, 1);
  p.accept(p.b->await_kind(Kind::kConnectRequest));
  p.accept(p.b->await_kind(Kind::kConnectRequest));
  EXPECT_EQ(p.a->await_token(t).status, ControlStatus::kOk);
  EXPECT_EQ(p.a->await_token(u).status, ControlStatus::kOk);
  p.net.run(5 * kSecond);
  EXPECT_EQ(p.a->role->counts().connections, 1U);
  EXPECT_EQ(p.b->role->counts().connections, 1U);
}

// [MR-5.1.2] [MR-5.2.11]
TEST(ControlConnect, crossing_requests_end_in_one_connection) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Pair p(seed);
    p.a->role->listen(500, Pair::kClient, 8);
    p.a->await_token(500);
    if (seed % 2 == 0) {
      p.net.loss_ppm = 100000;
      p.net.duplicate_ppm = 100000;
      p.net.jitter_max = 20 * kMillisecond;
    }
    // Odd seeds meet on the same plane, or cross on two.
    const std::uint64_t t = p.connect(10 * kSecond, static_cast<unsigned>(seed / 2 % 2));
    p.net.run(static_cast<Nanos>(p.net.random.below(60)) * kMicrosecond);
    p.b->role->connect(501, Pair::kClient, Net::address(1, 0), 8, attr_of(p.cq_b),
                       p.net.now + 10 * kSecond);
    const ControlEvent at_b = p.b->await_kind(Kind::kConnectRequest);
    const ControlEvent at_a = p.a->await_kind(Kind::kConnectRequest);
    p.accept(at_b);
    p.a->role->accept(502, Pair::kClient, at_a.request, attr_of(p.cq_a));
    ASSERT_EQ(p.a->await_token(t).status, ControlStatus::kOk);
    ASSERT_EQ(p.b->await_token(501).status, ControlStatus::kOk);
    ASSERT_EQ(p.a->await_token(502).status, ControlStatus::kOk);
    p.net.run(8 * kSecond);
    ASSERT_EQ(p.a->role->counts().connections, 1U);
    ASSERT_EQ(p.b->role->counts().connections, 1U);
    ASSERT_EQ(p.a->role->counts().streams, 2U);
    ASSERT_EQ(p.b->role->counts().streams, 2U);
  }
}

// [MR-5.2.12]
TEST(ControlConnect, restarted_peer_is_noticed_at_its_first_connection) {
  Pair p(5);
  const Pair::Ends e = p.open();
  p.a->role->listen(500, Pair::kClient, 8);
  p.a->await_token(500);
  p.net.remove(*p.b);
  Host& b2 = p.net.add(2);
  const std::uint32_t cq = b2.add_client(1);
  b2.role->connect(600, ClientId{1}, Net::address(1, 0), 8, attr_of(cq), p.net.now + kSecond);
  const ControlEvent down = p.a->await_kind(Kind::kStreamDown, 500 * kMillisecond);
  EXPECT_EQ(down.stream, e.a.stream);
  EXPECT_EQ(down.status, ControlStatus::kPeerLost);
  p.a->role->accept(501, Pair::kClient, p.a->await_kind(Kind::kConnectRequest).request,
                    attr_of(p.cq_a));
  EXPECT_EQ(b2.await_token(600).status, ControlStatus::kOk);
  p.net.run(5 * kSecond);
  EXPECT_EQ(p.a->role->counts().connections, 1U);
  EXPECT_EQ(p.a->role->counts().streams, 1U);
}

// [MR-5.2.12]
TEST(ControlConnect, connecting_to_a_restarted_peer_is_found_out_quickly) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Pair p(seed);
    const Pair::Ends e = p.open();
    p.net.remove(*p.b);
    Host& b2 = p.net.add(2);
    const std::uint32_t cq = b2.add_client(1);
    b2.role->listen(1, ClientId{1}, 7);
    b2.await_token(1);
    if (seed > 1) p.net.loss_ppm = 100000;
    const Nanos start = p.net.now;
    const std::uint64_t t = p.connect(10 * kSecond);
    b2.role->accept(2, ClientId{1}, b2.await_kind(Kind::kConnectRequest).request, attr_of(cq));
    ASSERT_EQ(p.a->await_token(t).status, ControlStatus::kOk);
    if (seed == 1) {
      ASSERT_LT(p.net.now - start, 100 * kMillisecond);
    }
    ASSERT_EQ(p.a->await_kind(Kind::kStreamDown).stream, e.a.stream);
    p.net.loss_ppm = 0;
    p.net.run(8 * kSecond);
    ASSERT_EQ(p.a->role->counts().connections, 1U);
    ASSERT_EQ(p.a->role->counts().streams, 1U);
  }
}

TEST(ControlConnect, a_peer_that_is_only_slow_keeps_its_connection) {
  Pair p(6);
  p.open();
  int held = 0;
  p.net.on_send = [&](const Packet& pk) { held += pk.bytes[16] == 9 ? 1 : 0; };
  p.net.attach(Net::address(1, 0), nullptr);  // b's answers are lost for a while
  p.net.attach(Net::address(1, 1), nullptr);
  const std::uint64_t t = p.connect(10 * kSecond);
  p.net.run(200 * kMillisecond);
  p.net.attach(Net::address(1, 0), p.a);
  p.net.attach(Net::address(1, 1), p.a);
  const std::uint64_t u = p.accept(p.b->await_kind(Kind::kConnectRequest));
  EXPECT_EQ(p.a->await_token(t).status, ControlStatus::kOk);
  EXPECT_EQ(p.b->await_token(u).status, ControlStatus::kOk);
  EXPECT_GT(held, 2);
  p.net.run(8 * kSecond);
  EXPECT_EQ(p.a->role->counts().connections, 1U);
  EXPECT_EQ(p.b->role->counts().connections, 1U);
  EXPECT_TRUE(p.b->events.empty());
}

// [MR-5.5.2]
TEST(ControlConnect, nobody_there_ends_at_the_deadline_or_after_the_retries) {
  Pair p(7);
  const Nanos start = p.net.now;
  p.a->role->connect(50, Pair::kClient, Net::address(99, 0), 7, attr_of(p.cq_a),
                     start + 300 * kMillisecond);
  EXPECT_EQ(p.a->await_token(50).status, ControlStatus::kTimeout);
  EXPECT_EQ(p.net.now - start, 300 * kMillisecond);
  p.a->role->connect(51, Pair::kClient, Net::address(98, 0), 7, attr_of(p.cq_a), kNever);
  EXPECT_EQ(p.a->await_token(51).status, ControlStatus::kTimeout);
  EXPECT_LT(p.net.now - start, 8 * kSecond);
  p.net.run(10 * kSecond);
  EXPECT_EQ(p.a->role->counts().connections, 0U);
  EXPECT_EQ(p.a->role->counts().streams, 0U);
}

TEST(ControlConnect, impossible_targets_are_refused_at_once) {
  Pair p(8);
  IpAddress six;
  six.v6 = true;
  six.b[0] = 0xfd;
  p.a->role->connect(50, Pair::kClient, six, 7, attr_of(p.cq_a), p.net.now + kSecond);
  EXPECT_EQ(p.a->await_token(50, kMicrosecond).status, ControlStatus::kUnreachable);
  p.a->role->connect(51, Pair::kClient, Net::address(1, 1), 7, attr_of(p.cq_a),
                     p.net.now + kSecond);
  EXPECT_EQ(p.a->await_token(51, kMicrosecond).status, ControlStatus::kUnreachable);
  EXPECT_EQ(p.a->role->counts().streams, 0U);
}

// [MR-5.2.14] [MR-9.1.3]
TEST(ControlConnect, no_common_plane_is_incompatible) {
  Net net(9);
  HostInfo info;
  info.planes = {{PlaneId{9}, Net::address(2, 0)}};
  info.instance = {1, 2};
  Host& a = net.add(1);
  net.hosts.push_back(std::make_unique<Host>(net, info, 3));
  const std::uint32_t cq = a.add_client(1);
  a.role->connect(50, ClientId{1}, Net::address(2, 0), 7, attr_of(cq), net.now + kSecond);
  EXPECT_EQ(a.await_token(50).status, ControlStatus::kIncompatible);
}

// [MR-3.1.2] [MR-5.1.2] [MR-5.2.16] [MR-5.2.20] [MR-6.1.10]
TEST(ControlConnect, a_connection_per_pair_of_groups) {
  Pair p(10, {}, 2, 2, 3);
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t t = p.connect();
    const std::uint64_t u = p.accept(p.b->await_kind(Kind::kConnectRequest));
    const ControlEvent at_b = p.b->await_token(u), at_a = p.a->await_token(t);
    ASSERT_EQ(at_a.status, ControlStatus::kOk);
    ASSERT_EQ(at_a.group, static_cast<std::uint32_t>(i % 2));
    ASSERT_EQ(at_b.group, at_a.group);
    ASSERT_TRUE(p.a->groups[at_a.group]->rx.streams.contains(at_a.stream));
  }
  EXPECT_EQ(p.a->role->counts().connections, 2U);
  EXPECT_EQ(p.b->role->counts().connections, 2U);
  EXPECT_EQ(p.b->groups[1]->conn_params.begin()->second.peer_port, wire::kDefaultBasePort + 1);
}

// [MR-5.5.7]
TEST(ControlConnect, a_plane_that_is_dark_does_not_stop_control) {
  for (unsigned dark = 0; dark < 2; ++dark) {
    Pair p(11 + dark);
    p.net.attach(Net::address(2, dark), nullptr);  // packets to b on that plane vanish
    const std::uint64_t t = p.connect(10 * kSecond, 1 - dark);
    p.accept(p.b->await_kind(Kind::kConnectRequest));
    EXPECT_EQ(p.a->await_token(t).status, ControlStatus::kOk);
  }
}

// Intervals double: a repetition that is spent on a plane without a way delays what could be sent.
TEST(ControlConnect, a_plane_without_a_way_costs_no_repetition) {
  Pair p(13);
  p.a->no_way = {0, 1};
  const Nanos start = p.net.now;
  const std::uint64_t t = p.connect(10 * kSecond, 0);
  p.net.run(400 * kMillisecond);
  p.a->no_way = {1};  // and plane 1 never has one
  p.accept(p.b->await_kind(Kind::kConnectRequest));
  EXPECT_EQ(p.a->await_token(t).status, ControlStatus::kOk);
  EXPECT_LT(p.net.now - start, 700 * kMillisecond);  // sent at 630
}

// A neighbour that answers late: its plane has proven nothing until then, and is to be used.
TEST(ControlConnect, neighbour_of_an_unproven_plane_reaches_the_transmit_role) {
  Pair p(31);
  p.net.attach(Net::address(2, 1), nullptr);
  const std::uint64_t t = p.connect(10 * kSecond, 0);
  p.accept(p.b->await_kind(Kind::kConnectRequest));
  ASSERT_EQ(p.a->await_token(t).status, ControlStatus::kOk);
  auto& told = p.a->groups[0]->peer_addresses;
  told.clear();
  p.a->role->neighbour_changed(PlaneId{0}, Net::address(2, 1));  // not that plane's
  p.a->role->neighbour_changed(PlaneId{1}, Net::address(3, 1));  // not that peer's
  p.net.run(kMillisecond);
  EXPECT_TRUE(told.empty());
  p.a->role->neighbour_changed(PlaneId{1}, Net::address(2, 1));
  p.net.run(kMillisecond);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].id, p.a->groups[0]->conn_params.begin()->first);
  EXPECT_EQ(told[0].path, 1U);
}

// [MR-5.1.6] [MR-6.7.7]
TEST(ControlConnect, failure_reported_by_the_transmit_role_takes_everything_down) {
  Pair p(13);
  const Pair::Ends e = p.open();
  TxToControl failed;
  failed.kind = TxToControlKind::kConnFailed;
  failed.status = static_cast<std::uint8_t>(WorkStatus::kRetryExceeded);
  failed.id = p.a->groups[0]->conn_params.begin()->first;
  const std::uint32_t old_dcid = p.a->groups[0]->conn_params.begin()->second.own_dcid;
  p.a->groups[0]->tx_out.push_back(failed);
  const ControlEvent down = p.a->await_kind(Kind::kStreamDown);
  EXPECT_EQ(down.stream, e.a.stream);
  EXPECT_EQ(down.work_status, WorkStatus::kRetryExceeded);
  EXPECT_EQ(p.b->await_kind(Kind::kStreamDown, 100 * kMillisecond).stream, e.b.stream)
      << "told by the peer";
  p.net.run(kSecond);
  EXPECT_EQ(p.a->role->counts().connections, 0U);
  EXPECT_EQ(p.b->role->counts().connections, 0U);
  p.open();
  EXPECT_NE(p.a->groups[0]->conn_params.rbegin()->second.own_dcid, old_dcid);
}

// [MR-5.2.7] [MR-5.2.8]
TEST(ControlConnect, half_open_ends_after_its_lifetime_and_opens_by_data_alone) {
  Pair p(14);
  // b's answers never arrive: b stays half-open.
  p.net.attach(Net::address(1, 0), nullptr);
  p.net.attach(Net::address(1, 1), nullptr);
  p.net.attach(Net::address(1, 0), p.a);
  int rsp = 0;
  p.net.on_send = [&](const Packet& pk) {
    if (pk.source.src == Net::address(2, 0) && pk.bytes[16] == 2 && pk.bytes[17] == 0 && rsp++ == 0)
      p.net.attach(Net::address(1, 0), nullptr);
  };
  p.connect(3 * kSecond);
  p.net.run(500 * kMillisecond);
  ASSERT_EQ(p.b->role->counts().half_open, 1U);
  p.net.run(6 * kSecond);
  EXPECT_EQ(p.b->role->counts().half_open, 0U);
  EXPECT_EQ(p.b->role->counts().connections, 0U);

  // The same, but a data packet is seen.
  rsp = 0;
  p.net.attach(Net::address(1, 0), p.a);
  p.connect(3 * kSecond);
  p.net.run(500 * kMillisecond);
  ASSERT_EQ(p.b->role->counts().half_open, 1U);
  RxToControl alive;
  alive.kind = RxToControlKind::kConnAlive;
  alive.conn = ConnIndex{*p.b->groups[0]->rx.conns.begin()};
  p.b->groups[0]->rx_out.push_back(alive);
  p.net.run(2 * kSecond);
  EXPECT_EQ(p.b->role->counts().half_open, 0U);
  EXPECT_EQ(p.b->role->counts().connections, 1U);
}

// [MR-5.6.2]
TEST(ControlConnect, shutdown_closes_in_order_on_both_sides) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Pair p(seed);
    const Pair::Ends e = p.open();
    p.open();
    if (seed > 1) p.net.loss_ppm = 200000;
    p.a->role->shutdown(p.net.now + 5 * kSecond);
    const Nanos start = p.net.now;
    while (!p.a->role->drained() && p.net.now < start + 6 * kSecond)
      p.net.step(start + 6 * kSecond);
    ASSERT_TRUE(p.a->role->drained());
    p.b->await_kind(Kind::kStreamDown);
    p.b->await_kind(Kind::kStreamDown);
    p.net.loss_ppm = 0;
    p.net.run(8 * kSecond);
    if (seed == 1) {
      ASSERT_EQ(p.b->role->counts().connections, 0U);
    }
    ASSERT_EQ(p.a->groups[0]->rx.conns.size() + p.a->groups[0]->rx.streams.size(), 0U);
    p.a->role->connect(800, Pair::kClient, Net::address(2, 0), 7, attr_of(p.cq_a),
                       p.net.now + kSecond);
    ASSERT_EQ(p.a->await_token(800).status, ControlStatus::kRefused);
  }
}

// [MR-5.2.15]
TEST(ControlConnect, crc_is_used_when_one_end_wants_it) {
  Net net(15);
  TransportConfig with;
  with.crc = true;
  Host& a = net.add(1, with);
  Host& b = net.add(2);
  const std::uint32_t cq_a = a.add_client(1), cq_b = b.add_client(1);
  b.role->listen(1, ClientId{1}, 7);
  b.await_token(1);
  a.role->connect(100, ClientId{1}, Net::address(2, 0), 7, attr_of(cq_a), net.now + kSecond);
  b.role->accept(200, ClientId{1}, b.await_kind(Kind::kConnectRequest).request, attr_of(cq_b));
  EXPECT_EQ(a.await_token(100).status, ControlStatus::kOk);
  EXPECT_TRUE(a.groups[0]->conn_params.begin()->second.crc);
  EXPECT_TRUE(b.groups[0]->conn_params.begin()->second.crc);
}

TEST(ControlConnect, same_seed_same_packets) {
  const auto digest = [] {
    std::uint64_t d = 0;
    Pair p(16);
    p.net.on_send = [&](const Packet& pk) {
      for (const std::uint8_t x : pk.bytes) d = mix64(d ^ x);
      d = mix64(d ^ static_cast<std::uint64_t>(p.net.now));
    };
    p.net.loss_ppm = 200000;
    p.open();
    return d;
  };
  EXPECT_EQ(digest(), digest());
}

}  // namespace metaroce::test
