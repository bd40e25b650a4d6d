// What a sender does about loss, silence and rejects, one event at a time.
#include <map>
#include <set>

#include "support/pair.h"

namespace metaroce::test {
namespace {

WorldOptions options(std::uint32_t paths = 4, std::uint32_t streams = 1) {
  WorldOptions o;
  o.paths = paths;
  o.streams = streams;
  return o;
}

// [MR-7.3.1] [MR-7.3.5] [MR-7.3.6] [MR-7.3.8] [MR-2.2.4] [MR-2.1.1] One packet is lost: it alone is
// sent again, on its path, marked, with a new pseq and the same contents, after its gap showed.
TEST(Recovery, gap__resends_exactly_the_missing_packet) {
  Pair p(options());
  std::vector<Frame> copies;
  p.ab.drop_if = [&](const Frame& f) {
    if (!Pair::is(f, wire::Type::kData) || Pair::data(f).spn != p.options.initial_spn + 3)
      return false;
    copies.push_back(f);
    return copies.size() == 1;
  };
  p.write(1, 60000);
  ASSERT_TRUE(p.finish(1));
  ASSERT_EQ(copies.size(), 2U);
  EXPECT_EQ(p.a.tx.counters().resent_packets, 1U);
  EXPECT_EQ(p.a.tx.counters().timeouts, 0U);
  const wire::Data &first = Pair::data(copies[0]), &second = Pair::data(copies[1]);
  EXPECT_EQ(second.c.path, first.c.path);
  EXPECT_EQ(first.c.flags & wire::kFlagRtx, 0);
  EXPECT_NE(second.c.flags & wire::kFlagRtx, 0);
  EXPECT_NE(second.c.pseq, first.c.pseq);
  EXPECT_TRUE(std::equal(copies[0].bytes.begin() + sizeof(wire::Data), copies[0].bytes.end(),
                         copies[1].bytes.begin() + sizeof(wire::Data)));
  EXPECT_EQ(first.op, second.op);
}

// [MR-2.1.1] [MR-2.1.2] [MR-2.1.3] [MR-2.1.5] [MR-2.1.7] [MR-2.3.1] [MR-2.3.4] [MR-2.3.5] each
// path's numbers without a hole from the initial one on, under loss, and with one source port.
TEST(Recovery, pseq__consecutive_per_path_and_floor_bounded) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    WorldOptions o = options(4, 2);
    o.seed = seed;
    Pair p(o);
    p.ab.faults.loss_ppm = p.ba.faults.loss_ppm = 50000;
    std::map<std::uint8_t, std::uint32_t> next;
    std::map<std::uint8_t, std::uint16_t> port;
    for (std::uint8_t i = 0; i < 4; ++i) next[i] = initial_pseq(p.pseq_seed(1), PathId{i}).v;
    p.ab.drop_if = [&](const Frame& f) {
      const bool data = Pair::is(f, wire::Type::kData);
      if (!data && !Pair::is(f, wire::Type::kFlush)) return false;
      const auto& c = *reinterpret_cast<const wire::Common*>(f.bytes.data());
      EXPECT_EQ(c.pseq, next[c.path]++);
      const std::uint8_t delta = data ? Pair::data(f).floor_delta : f.bytes[16];
      EXPECT_LE(delta, data ? 253 : 255);
      if (port.count(c.path) == 0) port[c.path] = f.src_port;
      EXPECT_EQ(f.src_port, port[c.path]);
      return false;
    };
    for (std::uint64_t i = 0; i < 4; ++i)
      p.write(i, 150000, i * 150000, static_cast<std::uint32_t>(i % 2));
    ASSERT_TRUE(p.finish(4));
    EXPECT_TRUE(p.same(0, 600000));
    std::set<std::uint16_t> ports;
    for (const auto& [path, number] : port) ports.insert(number);
    EXPECT_EQ(ports.size(), 4U);  // [MR-9.1.5] for these seeds
  }
}

// [MR-7.3.6] Lost twice where it was: then on another path.
TEST(Recovery, gap__another_path_after_two_losses) {
  WorldOptions o = options();
  o.config.initial_window = 4 << 20;  // every path has room
  Pair p(o);
  std::vector<std::uint8_t> paths;
  p.ab.drop_if = [&](const Frame& f) {
    if (!Pair::is(f, wire::Type::kData) || Pair::data(f).spn != p.options.initial_spn + 3)
      return false;
    paths.push_back(f.bytes[2]);
    return paths.size() <= 2;
  };
  p.write(1, 500000);
  ASSERT_TRUE(p.finish(1));
  ASSERT_EQ(paths.size(), 3U);
  EXPECT_EQ(paths[1], paths[0]);
  EXPECT_NE(paths[2], paths[0]);
}

// [MR-7.5.1] [MR-6.6.5] Sixteen gap-declared losses fail the message and its stream, not the next
// one.
TEST(Recovery, retry_limit__sixteen_losses_fail_the_stream) {
  Pair p(options(4, 2));
  unsigned copies = 0;
  p.ab.drop_if = [&](const Frame& f) {
    if (!Pair::is(f, wire::Type::kData) || Pair::data(f).stream != 0 ||
        Pair::data(f).spn != p.options.initial_spn + 3)
      return false;
    ++copies;
    return true;
  };
  p.write(1, 2000);
  p.write(2, 60000, 4096);
  p.write(3, 100, 100000);
  for (std::uint64_t i = 0; i < 100; ++i) p.write(10 + i, 9000, 200000, 1);  // shows the gaps
  ASSERT_TRUE(p.finish(103));
  EXPECT_EQ(copies, 16U);
  EXPECT_EQ(p.status(1), WorkStatus::kSuccess);
  EXPECT_EQ(p.status(2), WorkStatus::kRetryExceeded);
  EXPECT_EQ(p.status(3), WorkStatus::kFlushed);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(p.status(10 + i), WorkStatus::kSuccess);
  p.run_for(10 * kMillisecond);
  EXPECT_TRUE(p.a.tx.quiet());
}

// [MR-6.6.5] ... also while a NACK of a later packet stands: nothing is left waiting that would
// look like an unanswered connection four seconds later.
TEST(Recovery, retry_limit__while_a_nack_stands) {
  WorldOptions o = options(4, 2);
  o.ordered = true;
  o.config.ordered_hold_packets = 0;  // ordered packets behind a hole are rejected
  Pair p(o);
  p.ab.drop_if = [&](const Frame& f) {
    return Pair::is(f, wire::Type::kData) && Pair::data(f).stream == 0 &&
           Pair::data(f).spn == p.options.initial_spn;
  };
  for (std::uint64_t i = 0; i < 20; ++i) p.write(i, 900, i * 1024);
  for (std::uint64_t i = 0; i < 100; ++i) p.write(100 + i, 9000, 200000, 1);
  ASSERT_TRUE(p.finish(120));
  EXPECT_GT(p.drops_b(DropReason::kNoResource), 0U);
  EXPECT_EQ(p.status(0), WorkStatus::kRetryExceeded);
  for (std::uint64_t i = 1; i < 20; ++i) EXPECT_EQ(p.status(i), WorkStatus::kFlushed);
  p.run_for(5 * kSecond);
  for (const auto& e : p.a.events) EXPECT_NE(e.kind, TxToControlKind::kConnFailed);
  EXPECT_TRUE(p.a.tx.quiet());
}

// [MR-6.6.5] The memory of a rejected packet is deregistered while it waits for its turn.
TEST(Recovery, standing_nack__local_region_removed) {
  Pair p(options());
  Command k;
  k.kind = CommandKind::kRemoveStream;
  k.id = p.handle(0);
  ASSERT_TRUE(p.b.to_rx(k).ok);  // NOT_READY for ever
  p.write(1, 20000);
  p.write(2, 100);
  p.run_for(5 * kMillisecond);
  k.kind = CommandKind::kRemoveRegion;
  k.id = Pair::kSourceKey;
  ASSERT_TRUE(p.a.to_tx(k).ok);
  ASSERT_TRUE(p.finish(2));
  EXPECT_EQ(p.status(1), WorkStatus::kLocalProtection);
  EXPECT_EQ(p.status(2), WorkStatus::kFlushed);
  p.run_for(5 * kSecond);
  for (const auto& e : p.a.events) EXPECT_NE(e.kind, TxToControlKind::kConnFailed);
  EXPECT_TRUE(p.a.tx.quiet());
}

// [MR-7.5.3] [MR-7.5.2] [MR-6.7.7] [MR-7.5.5] Four seconds of silence.
TEST(Recovery, dead_link__fails_the_connection_after_four_seconds) {
  for (const bool answered : {false, true}) {
    Pair p(options(4, 2));
    p.check_invariants = false;
    std::size_t done = 0;
    if (answered) {
      p.write(100, 5000);
      ASSERT_TRUE(p.finish(++done));
    }
    p.ab.drop_if = [](const Frame&) { return true; };
    const Nanos from = p.now;
    for (std::uint64_t i = 0; i < 3; ++i) {
      p.write(i, 5000);
      p.write(10 + i, 5000, 0, 1);
    }
    ASSERT_TRUE(p.finish(done + 6, 5 * kSecond));
    EXPECT_GE(p.now - from, 4 * kSecond);
    EXPECT_LE(p.now - from, 4 * kSecond + 100 * kMillisecond);
    for (std::uint64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(p.status(i), i == 0 ? WorkStatus::kRetryExceeded : WorkStatus::kFlushed);
      EXPECT_EQ(p.status(10 + i), i == 0 ? WorkStatus::kRetryExceeded : WorkStatus::kFlushed);
    }
    unsigned failures = 0;
    for (const auto& e : p.a.events) {
      if (e.kind != TxToControlKind::kConnFailed) continue;
      ++failures;
      EXPECT_EQ(e.never_answered, !answered);
    }
    EXPECT_EQ(failures, 1U);
    // 4 s at 64 ms at most between resends: backed off, not flooding. [MR-7.4.6]
    EXPECT_LT(p.a.tx.counters().resent_packets, 2000U);
    p.run_for(10 * kMillisecond);
    EXPECT_TRUE(p.a.tx.quiet());
  }
}

// [MR-7.5.4] Idle for longer than that is no failure.
TEST(Recovery, dead_link__idle_is_not_dead) {
  WorldOptions o = options();
  o.config.keepalive = 0;
  Pair p(o);
  p.check_invariants = false;
  p.write(1, 5000);
  ASSERT_TRUE(p.finish(1));
  p.run_for(6 * kSecond);
  p.write(2, 5000);
  ASSERT_TRUE(p.finish(2));
  EXPECT_EQ(p.status(2), WorkStatus::kSuccess);
}

// An outage of a second is absorbed without any error. [MR-7.4.6] [MR-7.5.1]
TEST(Recovery, outage__one_second) {
  Pair p(options());
  p.write(1, 400000);
  p.run_for(10 * kMicrosecond);
  p.ab.drop_if = p.ba.drop_if = [](const Frame&) { return true; };
  p.run_for(kSecond);
  p.ab.drop_if = p.ba.drop_if = nullptr;
  ASSERT_TRUE(p.finish(1, kSecond));
  EXPECT_EQ(p.status(1), WorkStatus::kSuccess);
  EXPECT_TRUE(p.same(0, 400000));
}

// [MR-9.3.8] Every path fails with more outstanding than there are nodes to remember it by: the
// network is back, and so are they.
TEST(Recovery, outage__every_path_fails_and_no_node_is_free) {
  WorldOptions o = options();
  o.limits = TxLimits{64, 8, 2};
  Pair p(o);
  p.write(1, 50000);
  ASSERT_TRUE(p.finish(1));
  p.ab.drop_if = [](const Frame&) { return true; };
  p.write(2, 200000, 65536);
  const auto failed = [&] {
    for (unsigned i = 0; i < 4; ++i)
      if (!p.path(i).health.asks()) return false;
    return true;
  };
  ASSERT_TRUE(p.run_until(failed, kSecond));
  ASSERT_GT(p.conn().unresolved, 4U);
  p.run_for(10 * kMillisecond);
  p.ab.drop_if = nullptr;
  ASSERT_TRUE(p.finish(2, kSecond));
  EXPECT_TRUE(p.same(65536, 200000));
}

// [MR-9.2.5] [MR-9.2.4] [MR-7.4.5] [MR-7.4.7] [MR-9.4.1] [MR-9.4.2] One of four paths dies and
// returns.
TEST(Recovery, path__silent_then_back) {
  Pair p(options());
  bool dead = true;
  std::uint64_t data_on_dead = 0, flushes_on_dead = 0;
  p.ab.drop_if = [&](const Frame& f) {
    if (!dead || f.bytes[2] != 2) return false;
    (Pair::is(f, wire::Type::kData) ? data_on_dead : flushes_on_dead) += 1;
    return true;
  };
  for (std::uint64_t i = 0; i < 20; ++i) p.write(i, 50000, i * 50000);
  ASSERT_TRUE(p.finish(20, 50 * kMillisecond));
  EXPECT_TRUE(p.same(0, 1000000));
  p.run_for(5 * kMillisecond);
  EXPECT_TRUE(!p.path(2).health.carries());
  EXPECT_GT(flushes_on_dead, 2U);
  EXPECT_LT(data_on_dead, 100U) << "new data on a suspect path";
  dead = false;
  ASSERT_TRUE(p.run_until([&] { return p.path(2).health.carries(); }, 200 * kMillisecond));
  const std::uint64_t before = p.path(2).counters.packets;
  for (std::uint64_t i = 0; i < 20; ++i) p.write(100 + i, 50000, i * 50000);
  ASSERT_TRUE(p.finish(40));
  EXPECT_GT(p.path(2).counters.packets, before + 10);
}

// [MR-7.4.9] [MR-7.4.6] [MR-7.3.9] A path that was never heard, while others are: all that it holds
// leaves it at the first timeout, goes where answers come from, and the next timeouts come as soon.
TEST(Recovery, path__silent_while_others_answer) {
  WorldOptions o = options();
  o.config.probe_timeout_floor = 20 * kMicrosecond;  // before the window of the stream is full
  Pair p(o);
  std::uint64_t resent_on_dead = 0;
  p.ab.drop_if = [&](const Frame& f) {
    if (f.bytes[2] != 2) return false;
    resent_on_dead += Pair::is(f, wire::Type::kData) && (f.bytes[1] & wire::kFlagRtx) != 0 ? 1 : 0;
    return true;
  };
  std::uint64_t posted = 0;
  const auto busy_until = [&](auto done) {
    return p.run_until(
        [&] {
          for (; posted < p.a.sent_completions.size() + 40; ++posted)
            p.write(posted, 50000, posted % 20 * 50000);
          return done();
        },
        5 * kMillisecond);
  };
  ASSERT_TRUE(busy_until([&] { return p.a.tx.counters().timeouts != 0; }));
  const Nanos at = p.now;
  EXPECT_EQ(p.path(2).data_unresolved, 0U);
  EXPECT_GT(p.path(2).counters.lost, 1U);
  ASSERT_TRUE(busy_until([&] { return p.a.tx.counters().paths_failed != 0; }));
  EXPECT_LE(p.now - at, 4 * p.a.config.probe_timeout_floor) << "two more without back-off";
  ASSERT_TRUE(p.finish(posted, 50 * kMillisecond));
  EXPECT_EQ(resent_on_dead, 0U);
}

// [MR-7.2.1] Answers that come when everything was given up for lost say how long the way is: what
// is lost by mistake is the packets of the first round trip, not those of every one.
TEST(Recovery, rtt__learned_from_what_was_given_up) {
  WorldOptions o = options();
  o.config.probe_timeout_floor = 20 * kMicrosecond;
  Pair p(o);
  p.ab.extra_delay = kMillisecond;
  for (std::uint64_t i = 0; i < 20; ++i) p.write(i, 50000, i * 50000);
  ASSERT_TRUE(p.finish(20, 100 * kMillisecond));
  EXPECT_TRUE(p.same(0, 1000000));
  for (unsigned i = 0; i < p.conn().rest.size(); ++i)
    EXPECT_GT(p.path(i).rtt.srtt(), kMillisecond) << i;
  const std::uint64_t resent = p.a.tx.counters().resent_packets;
  for (std::uint64_t i = 0; i < 20; ++i) p.write(20 + i, 50000, i * 50000);
  ASSERT_TRUE(p.finish(40, 100 * kMillisecond));
  EXPECT_EQ(p.a.tx.counters().resent_packets, resent);
}

// [MR-7.4.8] The answer to the FLUSH of the first timeout shows all that a path lost at once,
// however much it was.
TEST(Recovery, path__everything_in_flight_lost_at_once) {
  WorldOptions o = options(2);
  o.config.initial_window = 400 * 1024;
  Pair p(o);
  p.write(1, 50000);  // both paths are known
  ASSERT_TRUE(p.finish(1));
  std::uint64_t lost = 0;
  const Nanos end = p.now + 50 * kMicrosecond;  // as long as the windows take to leave
  p.ab.drop_if = [&](const Frame& f) {
    const bool gone = Pair::is(f, wire::Type::kData) && p.now < end;
    lost += gone ? 1 : 0;
    return gone;
  };
  p.write(2, 900 * 1024);  // more than the windows: nothing follows
  ASSERT_TRUE(p.finish(2));
  EXPECT_TRUE(p.same(0, 900 * 1024));
  EXPECT_GT(lost, PathWindow::kLimit);
  EXPECT_LE(p.a.tx.counters().timeouts, 4U);
}

// [MR-9.4.2] An ACK's block of a silent path without anything new in it, as hints bring it, does
// not make it ACTIVE.
TEST(Recovery, path__old_news_end_no_silence) {
  Pair p(options(2));
  p.write(1, 50000);
  ASSERT_TRUE(p.finish(1));
  p.ab.drop_if = [](const Frame& f) { return f.bytes[2] == 1; };
  p.write(2, 50000, 65536);
  ASSERT_TRUE(
      p.run_until([&] { return p.path(1).health.state == PathState::kSuspect; }, kMillisecond));
  Frame f;
  f.bytes.resize(sizeof(wire::Ack) + sizeof(wire::AckPath));
  auto& a = *reinterpret_cast<wire::Ack*>(f.bytes.data());
  a.c.set(wire::Type::kAck);
  a.c.dcid = (1U << 8) | 0x5a;
  a.n_paths = 1;
  auto& b = *reinterpret_cast<wire::AckPath*>(f.bytes.data() + sizeof a);
  const TxPathView<EcnAimd> path = p.path(1);
  b.path = 1;
  b.epoch = path.epoch;
  b.cum = path.highest_acked.v + 1;
  b.highest = path.highest_acked.v;
  b.ack_delay = wire::kNoDelaySample;
  const Nanos at = p.now;
  p.ba.send(p.now, f);
  p.run_for(12 * kMicrosecond);
  EXPECT_GT(p.conn().last_ack, at) << "it was believed";
  EXPECT_EQ(p.path(1).health.state, PathState::kSuspect);
  EXPECT_EQ(p.path(1).health.silences, 1);
  p.ab.drop_if = nullptr;
  ASSERT_TRUE(p.finish(2));
}

// [MR-9.4.5] Heavy loss on every path demotes none that still acknowledges for long.
TEST(Recovery, path__loss_alone_does_not_end_it) {
  WorldOptions o = options();
  o.config.packets_per_path = 0;  // the set of paths does not follow the window
  Pair p(o);
  p.ab.faults.loss_ppm = 200000;
  p.ab.faults.lose_data_only = true;
  for (std::uint64_t i = 0; i < 20; ++i) p.write(i, 50000, i * 50000);
  ASSERT_TRUE(p.finish(20, 2 * kSecond));
  EXPECT_TRUE(p.same(0, 1000000));
  for (unsigned i = 0; i < p.conn().rest.size(); ++i) EXPECT_GT(p.path(i).counters.packets, 100U);
  EXPECT_EQ(p.a.tx.counters().paths_failed, 0U);
}

// [MR-7.6.6] [MR-7.4.8] Paths time out in one pass, and the port takes one packet of it: the
// questions of the others go out as soon as it takes more, not at their next timeouts.
TEST(Recovery, flush__of_a_timeout_waits_for_the_port) {
  Pair p(options());
  std::map<unsigned, unsigned> asked;
  p.ab.drop_if = [&](const Frame& f) {
    if (Pair::is(f, wire::Type::kFlush)) ++asked[f.bytes[2]];
    return true;
  };
  p.write(1, 60000);
  p.run_for(kMicrosecond);
  asked.clear();
  p.a.tx_io.room = 1;
  const auto timed_out = [&] {
    unsigned n = 0;
    for (unsigned i = 0; i < 4; ++i) n += p.path(i).timeouts != 0 ? 1 : 0;
    return n;
  };
  ASSERT_TRUE(p.run_until([&] { return timed_out() == 4; }, 10 * kMillisecond));
  EXPECT_LE(asked.size(), 1U);
  const std::uint64_t timeouts = p.a.tx.counters().timeouts;
  p.a.tx_io.room = UINT32_MAX;
  p.run_for(2 * kMicrosecond);
  EXPECT_EQ(asked.size(), 4U);
  for (const auto& [path, times] : asked) EXPECT_EQ(times, 1U) << path;
  EXPECT_EQ(p.a.tx.counters().timeouts, timeouts);
  p.ab.drop_if = nullptr;
  ASSERT_TRUE(p.finish(1));
}

// [MR-2.4.4] [MR-6.6.7] [MR-10.1.4] A NACK acts only on an unresolved transmission, once.
TEST(Recovery, nack__unknown_is_dropped) {
  Pair p(options(1));
  Frame data;
  p.ab.drop_if = [&](const Frame& f) {
    if (Pair::is(f, wire::Type::kData)) data = f;
    return false;
  };
  p.write(1, 500);
  ASSERT_TRUE(p.finish(1));
  const std::uint32_t last = Pair::data(data).c.pseq;
  Rng rng(1);
  for (unsigned i = 0; i < 1000; ++i) {
    wire::Nack n{};
    n.c.set(wire::Type::kNack);
    n.c.dcid = (1U << 8) | 0x5a;
    n.reason = static_cast<std::uint8_t>(i % 24);
    n.spn = p.options.initial_spn + i % 4;
    n.pseq = i % 2 != 0 ? last - 2 + i % 5 : static_cast<std::uint32_t>(rng.next());
    Frame f;
    f.bytes.resize(sizeof n);
    std::memcpy(f.bytes.data(), &n, sizeof n);
    p.ba.send(p.now, f);
    p.step();
  }
  p.run_for(kMillisecond);
  EXPECT_EQ(p.a.tx.counters().drops[DropReason::kNackUnknown], 1000U);
  p.write(2, 500);
  ASSERT_TRUE(p.finish(2));
  EXPECT_EQ(p.status(2), WorkStatus::kSuccess);
}

// A NACK that comes after its packet arrived by another copy (the network repeated it) and the
// stream's cumulative number said so: it must not block the stream for ever.
TEST(Recovery, nack__for_a_packet_that_arrived_meanwhile) {
  Pair p(options(1));
  Frame sent;
  p.ab.drop_if = [&](const Frame& f) {
    if (Pair::is(f, wire::Type::kData)) {
      sent = f;
      return true;
    }
    return false;
  };
  p.write(1, 500);
  ASSERT_TRUE(p.run_until([&] { return !sent.bytes.empty(); }, kMillisecond));
  p.ba.drop_if = [](const Frame&) { return true; };
  p.b.rx.begin_burst(p.now);
  p.b.deliver(sent, p.a.ip);
  p.b.rx.end_burst(true, true);
  p.ba.drop_if = nullptr;
  Frame f;
  wire::Ack a{};
  a.c.set(wire::Type::kAck);
  a.c.dcid = (1U << 8) | 0x5a;
  a.n_streams = 1;
  wire::AckStream s{};
  s.cum_spn = p.options.initial_spn + 1;
  f.bytes.resize(sizeof a + sizeof s);
  std::memcpy(f.bytes.data(), &a, sizeof a);
  std::memcpy(f.bytes.data() + sizeof a, &s, sizeof s);
  p.ba.send(p.now, f);
  p.run_for(20 * kMicrosecond);
  ASSERT_EQ(p.a.sent_completions.size(), 1U);
  wire::Nack n{};
  n.c.set(wire::Type::kNack);
  n.c.dcid = a.c.dcid;
  n.reason = static_cast<std::uint8_t>(wire::NackReason::kRnr);
  n.spn = p.options.initial_spn;
  n.pseq = Pair::data(sent).c.pseq;
  f.bytes.resize(sizeof n);
  std::memcpy(f.bytes.data(), &n, sizeof n);
  p.ba.send(p.now, f);
  p.run_for(20 * kMicrosecond);
  p.ab.drop_if = nullptr;
  p.write(2, 500, 4096);
  ASSERT_TRUE(p.finish(2)) << "the stream is blocked";
  EXPECT_EQ(p.status(2), WorkStatus::kSuccess);
}

// [MR-3.6.8] [MR-3.6.9] [MR-7.2.2] Blocks that cannot be true change nothing; times that cannot be
// true stop nobody.
TEST(Recovery, ack__unbelievable_blocks) {
  Pair p(options(2));
  p.write(1, 5000);
  ASSERT_TRUE(p.finish(1));
  p.ab.drop_if = [](const Frame&) { return true; };
  p.write(2, 5000, 8192);
  p.run_for(20 * kMicrosecond);
  Rng rng(2);
  for (unsigned i = 0; i < 2000; ++i) {
    Frame f;
    f.bytes.resize(sizeof(wire::Ack) + sizeof(wire::AckPath));
    auto& a = *reinterpret_cast<wire::Ack*>(f.bytes.data());
    a.c.set(wire::Type::kAck);
    a.c.dcid = (1U << 8) | 0x5a;
    a.n_paths = 1;
    auto& b = *reinterpret_cast<wire::AckPath*>(f.bytes.data() + sizeof a);
    const PathWindow seq = p.path(0).seq;
    b.path = 0;
    switch (i % 3) {
      case 0:
        b.epoch = static_cast<std::uint8_t>(1 + rng.below(255));
        b.cum = seq.next.v;
        b.highest = seq.next.v - 1;
        break;
      case 1:
        b.cum = seq.next.v + 1 + rng.below(1U << 30);
        b.highest = seq.next.v - 1;
        break;
      default:
        b.cum = seq.floor.v;
        b.highest = seq.next.v + rng.below(1U << 30);
    }
    b.timestamp_echo = to_wire_time(p.now).v + 0x7fffffffU + rng.below(3);
    b.ack_delay = static_cast<std::uint16_t>(rng.next());
    p.ba.send(p.now, f);
    p.step();
  }
  p.run_for(20 * kMicrosecond);
  EXPECT_EQ(p.a.tx.counters().drops[DropReason::kAckUnsent] +
                p.a.tx.counters().drops[DropReason::kAckStale],
            2000U);
  EXPECT_EQ(p.a.sent_completions.size(), 1U);
  // A believable block with an absurd time.
  Frame f;
  f.bytes.resize(sizeof(wire::Ack) + sizeof(wire::AckPath));
  auto& a = *reinterpret_cast<wire::Ack*>(f.bytes.data());
  a.c.set(wire::Type::kAck);
  a.c.dcid = (1U << 8) | 0x5a;
  a.n_paths = 1;
  for (std::uint8_t path = 0; path < 2; ++path) {
    auto& b = *reinterpret_cast<wire::AckPath*>(f.bytes.data() + sizeof a);
    const PathWindow seq = p.path(path).seq;
    b.path = path;
    b.cum = seq.next.v;
    b.highest = seq.next.v - 1;
    b.timestamp_echo =
        to_wire_time(p.now).v + 0x80000050U;  // received - echo is near the lowest integer
    b.ack_delay = 0xfffe;
    p.ba.send(p.now, f);
    p.step();
  }
  p.run_for(20 * kMicrosecond);
  EXPECT_EQ(p.a.tx.validate(), nullptr);
}

// [MR-8.2.2]
TEST(Idle, windows__that_grew_start_again_after_a_pause) {
  WorldOptions o;
  o.config.initial_window = 16 * 1024;  // small: it grows at once
  Pair p(o);
  const Bytes start = p.conn().cc.window;
  p.write(1, Pair::kBytes);
  ASSERT_TRUE(p.finish(1));
  const Bytes grown = p.conn().cc.window;
  ASSERT_GT(grown, start);
  p.run_for(p.config.idle_restart / 2);
  p.write(2, 100);
  ASSERT_TRUE(p.finish(2));
  EXPECT_GE(p.conn().cc.window, grown) << "a short pause";
  p.run_for(2 * p.config.idle_restart);
  p.write(3, 100);
  ASSERT_TRUE(p.run_until([&] { return p.conn().inflight != 0; }, kMillisecond));
  EXPECT_EQ(p.conn().cc.window, start) << "until something answers";
  ASSERT_TRUE(p.finish(3));
  EXPECT_EQ(p.conn().cc.window, p.conn().cc.target);
  EXPECT_EQ(p.a.tx.validate(), nullptr);
}

}  // namespace
}  // namespace metaroce::test
