// Clients, queues, regions: ownership, limits, and removal in every state.
#include "control_net.h"

namespace metaroce::test {

using Kind = ControlEventKind;

namespace {
std::uint8_t memory[64];

ControlEvent region(Host& h, std::uint16_t client) {
  const std::uint64_t t = h.next_token++;
  h.role->add_region(t, ClientId{client}, 0x1000, memory, sizeof memory, kAccessRemoteWrite);
  return h.await_token(t);
}
}  // namespace

// [MR-10.1.3]
TEST(ControlObjects, regions_are_installed_everywhere_with_keys_that_differ) {
  Net net(1);
  Host& h = net.add(1, {}, 1, 2);
  h.add_client(1);
  std::set<std::uint32_t> keys, indices;
  for (int i = 0; i < 100; ++i) {
    const ControlEvent e = region(h, 1);
    ASSERT_EQ(e.status, ControlStatus::kOk);
    EXPECT_TRUE(keys.insert(e.id).second);
    indices.insert(e.id >> 12);
    for (const auto& g : h.groups)
      EXPECT_TRUE(g->rx.regions.contains(e.id) && g->tx.regions.contains(e.id));
  }
  EXPECT_EQ(indices.size(), 100U);
  EXPECT_GT(*indices.rbegin() - *indices.begin(), 10000U) << "indices in a row can be guessed";
  for (const std::uint32_t k : keys) {
    h.role->remove_region(h.next_token, ClientId{1}, k);
    EXPECT_EQ(h.await_token(h.next_token++).status, ControlStatus::kOk);
  }
  for (const auto& g : h.groups) EXPECT_EQ(g->rx.regions.size() + g->tx.regions.size(), 0U);
  EXPECT_EQ(h.role->counts().regions, 0U);
}

TEST(ControlObjects, limits_are_named) {
  Net net(2);
  TransportConfig c;
  c.max_regions = 8;
  c.max_cqs = 2;
  c.max_clients = 2;
  Host& h = net.add(1, c);
  h.add_client(1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(region(h, 1).status, ControlStatus::kOk);
  EXPECT_EQ(region(h, 1).status, ControlStatus::kLimit);
  h.add_client(2);
  h.role->add_cq(50, ClientId{1}, std::vector<CqRings>(1), nullptr, -1);
  EXPECT_EQ(h.await_token(50).status, ControlStatus::kLimit);
  h.role->add_client(51, ClientId{3}, std::vector<GroupRings>(1));
  EXPECT_EQ(h.await_token(51).status, ControlStatus::kLimit);
  h.groups[0]->refuse.insert(CommandKind::kAddRegion);
  h.role->remove_region(52, ClientId{1}, *h.groups[0]->rx.regions.begin());
  h.await_token(52);
  EXPECT_EQ(region(h, 1).status, ControlStatus::kLimit) << "the role has no room";
  net.run(kMillisecond);
  EXPECT_EQ(h.role->counts().regions, 3U);
}

TEST(ControlObjects, bad_arguments_are_refused) {
  Pair p(3);
  const ClientId me = Pair::kClient;
  p.a->role->add_region(10, me, UINT64_MAX - 3, memory, 64, 0);
  p.a->role->add_region(11, me, 0, memory, 0, 0);
  p.a->role->add_region(12, me, 0, nullptr, 64, 0);
  p.a->role->add_region(13, me, 0, memory, 64, 0x100);
  p.a->role->add_cq(14, me, {}, nullptr, -1);
  p.a->role->add_client(15, me, std::vector<GroupRings>(1));
  p.a->role->add_client(16, ClientId{9}, {});
  StreamAttr a = attr_of(p.cq_a);
  a.send_depth = 0;
  p.a->role->connect(17, me, Net::address(2, 0), 7, a, kNever);
  a = attr_of(p.cq_a);
  a.private_data.length = 129;
  p.a->role->connect(18, me, Net::address(2, 0), 7, a, kNever);
  p.b->role->listen(19, me, 7);
  for (std::uint64_t t = 10; t < 19; ++t) {
    const ControlEvent e = p.a->await_token(t);
    EXPECT_EQ(e.status, t == 15 ? ControlStatus::kInUse : ControlStatus::kInvalid) << t;
    EXPECT_FALSE(e.message.empty());
  }
  EXPECT_EQ(p.b->await_token(19).status, ControlStatus::kInUse);
}

TEST(ControlObjects, ids_of_another_client_are_as_good_as_unknown) {
  Pair p(4);
  const Pair::Ends e = p.open();
  const ControlEvent key = region(*p.a, 1);
  p.b->add_client(2);
  p.a->add_client(2);
  const ClientId thief{2};
  ControlRole& a = *p.a->role;
  a.close(10, thief, e.a.stream, 0);
  a.remove_region(11, thief, key.id);
  a.remove_cq(12, thief, p.cq_a);
  a.unlisten(13, thief, 7);
  a.connect(14, thief, Net::address(2, 0), 7, attr_of(p.cq_a), kNever);
  ConnStats stats;
  EXPECT_FALSE(a.conn_stats(thief, e.a.stream, stats));
  EXPECT_TRUE(a.conn_stats(Pair::kClient, e.a.stream, stats));
  EXPECT_EQ(stats.acked_bytes, 7U);
  EXPECT_EQ(stats.streams, 1U);
  for (std::uint64_t t = 10; t < 14; ++t)
    EXPECT_EQ(p.a->await_token(t).status, ControlStatus::kNoSuchObject) << t;
  EXPECT_EQ(p.a->await_token(14).status, ControlStatus::kInvalid);
  p.connect();
  const ControlEvent request = p.b->await_kind(Kind::kConnectRequest);
  p.b->role->reject(thief, request.request);
  p.b->role->accept(15, thief, request.request, attr_of(p.cq_b));
  p.b->role->unlisten(16, thief, 7);
  EXPECT_EQ(p.b->await_token(15).status, ControlStatus::kNoSuchObject);
  EXPECT_EQ(p.b->await_token(16).status, ControlStatus::kNoSuchObject);
  p.b->role->accept(17, Pair::kClient, request.request, attr_of(p.cq_b));
  EXPECT_EQ(p.b->await_token(17).status, ControlStatus::kOk) << "the thief changed nothing";
}

TEST(ControlObjects, any_handle_key_or_request_is_survived) {
  Pair p(5);
  const Pair::Ends e = p.open();
  Rng r(6);
  for (int i = 0; i < 3000; ++i) {
    const auto id =
        static_cast<std::uint32_t>(r.below(3) == 0 ? r.next() : e.a.stream + r.below(4));
    const ClientId c{static_cast<std::uint16_t>(r.below(4))};
    switch (r.below(6)) {
      case 0:
        if (id != e.a.stream) p.a->role->close(1, c, id, 0);
        break;
      case 1:
        p.a->role->remove_region(1, c, id);
        break;
      case 2:
        p.a->role->remove_cq(1, c, id);
        break;
      case 3:
        p.a->role->accept(1, c, r.next(), attr_of(id));
        break;
      case 4:
        p.a->role->reject(c, id);
        break;
      default:
        p.a->role->unlisten(1, c, id);
        break;
    }
    p.net.step(p.net.now + kMicrosecond);
  }
  EXPECT_EQ(p.a->role->counts().streams, 1U);
  EXPECT_EQ(p.b->role->counts().streams, 1U);
}

TEST(ControlObjects, queue_in_use_stays) {
  Pair p(7);
  const Pair::Ends e = p.open();
  p.a->role->remove_cq(10, Pair::kClient, p.cq_a);
  EXPECT_EQ(p.a->await_token(10).status, ControlStatus::kInUse);
  p.a->role->close(11, Pair::kClient, e.a.stream, 0);
  p.a->await_token(11);
  p.a->role->remove_cq(12, Pair::kClient, p.cq_a);
  EXPECT_EQ(p.a->await_token(12).status, ControlStatus::kOk) << "at once after close";
}

TEST(ControlObjects, unlisten_rejects_what_waits) {
  Pair p(8);
  const std::uint64_t t = p.connect();
  p.b->await_kind(Kind::kConnectRequest);
  p.b->role->unlisten(10, Pair::kClient, 7);
  EXPECT_EQ(p.b->await_token(10).status, ControlStatus::kOk);
  EXPECT_EQ(p.a->await_token(t).status, ControlStatus::kRefused);
}

// One client goes away at a random moment of a random life; everything that it had goes with it,
// in an order that the fakes check, and each request ends in exactly one event.
TEST(ControlObjects, remove_client_in_every_state_returns_counts_to_base) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Pair p(seed);
    p.open();
    for (Host* h : {p.a, p.b}) h->groups[0]->capacity = 1 + p.net.random.below(4);
    p.net.loss_ppm = seed % 2 == 0 ? 100000 : 0;
    p.net.jitter_max = seed % 3 == 0 ? 10 * kMillisecond : 0;
    const ControlCounts base_a = p.a->role->counts(), base_b = p.b->role->counts();
    const std::size_t objects_a = p.a->objects(), objects_b = p.b->objects();
    const ClientId late{2};
    std::set<std::uint64_t> open_tokens;
    const auto token = [&](Host* h) {
      open_tokens.insert(h->next_token);
      return h->next_token++;
    };

    const bool at_a = seed % 4 < 2;
    Host* h = at_a ? p.a : p.b;
    h->next_token = 1000;
    const std::uint32_t cq = h->add_client(2);
    h->role->add_region(token(h), late, 0, memory, 64, 0);
    h->role->listen(token(h), late, 8);
    if (at_a) {
      for (int i = 0; i < 3; ++i)
        h->role->connect(token(h), late, Net::address(2, static_cast<unsigned>(i % 2)), 7,
                         attr_of(cq), kNever);
    } else {
      for (int i = 0; i < 3; ++i)
        p.a->role->connect(p.a->next_token++, Pair::kClient, Net::address(2, 0), 8, attr_of(p.cq_a),
                           p.net.now + 20 * kSecond);
    }
    const Nanos end =
        p.net.now +
        static_cast<Nanos>(p.net.random.below(seed % 5 == 0 ? 3000000 : 300)) * kMicrosecond;
    while (p.net.now < end) {
      p.net.step(end);
      for (const ControlEvent& e : p.b->events)
        if (e.kind == Kind::kConnectRequest)
          p.b->role->accept(at_a ? p.b->next_token++ : token(p.b), e.client, e.request,
                            attr_of(at_a ? p.cq_b : cq));
      std::erase_if(p.b->events,
                    [](const ControlEvent& e) { return e.kind == Kind::kConnectRequest; });
      for (const ControlEvent& e : h->events)
        if (e.client == late && e.stream != 0 && e.kind != Kind::kStreamDown &&
            p.net.random.below(8) == 0)
          h->role->close(token(h), late, e.stream, p.net.now + p.net.random.below(1000000));
      ASSERT_FALSE(HasFatalFailure());
    }
    h->role->add_region(token(h), late, 0, memory, 64, 0);  // still being installed
    const std::uint64_t removed = token(h);
    h->role->remove_client(removed, late);
    h->role->remove_client(token(h), late);
    p.net.loss_ppm = 0;
    p.net.run(30 * kSecond);

    for (const ControlEvent& e : h->events) {
      if (e.client != late || e.token < 1000) continue;
      if (e.token == removed) {
        ASSERT_EQ(e.status, ControlStatus::kOk);
      }
      open_tokens.erase(e.token);
    }
    ASSERT_TRUE(open_tokens.empty()) << *open_tokens.begin() << " never ended";
    // Streams that the other client holds on to are down; only the first pair's are left.
    ASSERT_EQ(p.a->role->counts(), base_a);
    ASSERT_EQ(p.b->role->counts(), base_b);
    ASSERT_EQ(p.a->objects(), objects_a);
    ASSERT_EQ(p.b->objects(), objects_b);
  }
}

TEST(ControlObjects, removed_client_is_not_waited_for_by_its_peers_silence) {
  Pair p(9);
  p.open();
  p.net.remove(*p.b);
  const Nanos start = p.net.now;
  p.a->role->remove_client(10, Pair::kClient);
  EXPECT_EQ(p.a->await_token(10).status, ControlStatus::kOk);
  EXPECT_LT(p.net.now - start, 10 * kMillisecond);
}

}  // namespace metaroce::test
