// What a sender does about loss and rejects, one event at a time.
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
    Frame f = Pair::ack();
    wire::AckPath& b = Pair::block(f);
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
  Frame f = Pair::ack();
  for (std::uint8_t path = 0; path < 2; ++path) {
    wire::AckPath& b = Pair::block(f);
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
