// What a sender does about silence: of a path, of all, of the peer; and what an answer ends.
#include <map>

#include "support/pair.h"

namespace metaroce::test {
namespace {

WorldOptions options(std::uint32_t paths = 4, std::uint32_t streams = 1) {
  WorldOptions o;
  o.paths = paths;
  o.streams = streams;
  return o;
}

// [MR-7.5.3] [MR-7.5.2] [MR-6.7.7] [MR-7.5.5] Four seconds of silence.
TEST(Silence, dead_link__fails_the_connection_after_four_seconds) {
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
TEST(Silence, dead_link__idle_is_not_dead) {
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
TEST(Silence, outage__one_second) {
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
TEST(Silence, outage__every_path_fails_and_no_node_is_free) {
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
TEST(Silence, path__silent_then_back) {
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
TEST(Silence, path__silent_while_others_answer) {
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
TEST(Silence, rtt__learned_from_what_was_given_up) {
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
TEST(Silence, path__everything_in_flight_lost_at_once) {
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
TEST(Silence, path__old_news_end_no_silence) {
  Pair p(options(2));
  p.write(1, 50000);
  ASSERT_TRUE(p.finish(1));
  p.ab.drop_if = [](const Frame& f) { return f.bytes[2] == 1; };
  p.write(2, 50000, 65536);
  ASSERT_TRUE(
      p.run_until([&] { return p.path(1).health.state == PathState::kSuspect; }, kMillisecond));
  Frame f = Pair::ack();
  wire::AckPath& b = Pair::block(f);
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
TEST(Silence, path__loss_alone_does_not_end_it) {
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
TEST(Silence, flush__of_a_timeout_waits_for_the_port) {
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

}  // namespace
}  // namespace metaroce::test
