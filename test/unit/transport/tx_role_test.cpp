// Life of streams, connections, paths and buffers at the sender.
#include <set>

#include "support/pair.h"
#include "support/workload.h"

namespace metaroce::test {
namespace {

WorldOptions options(std::uint32_t paths = 4, std::uint32_t streams = 1) {
  WorldOptions o;
  o.paths = paths;
  o.streams = streams;
  return o;
}
Command command(CommandKind kind, std::uint32_t id) {
  Command k;
  k.kind = kind;
  k.id = id;
  return k;
}

// [MR-6.7.2] The peer's final number decides what was delivered, whatever ACKs were lost.
TEST(TxRole, stop_stream__completes_below_the_peers_final_number) {
  Pair p(options());
  p.ba.drop_if = [](const Frame&) { return true; };
  for (std::uint64_t i = 0; i < 4; ++i) p.write(i, 3000, i * 4096);  // 3 packets each
  p.run_until([&] { return p.b.placed == 12000; }, kMillisecond);
  ASSERT_TRUE(p.a.sent_completions.empty());
  Command k = command(CommandKind::kStopStream, p.handle(0));
  k.has_spn = true;
  k.spn = StreamSeq{p.options.initial_spn} + 7;  // two messages and a packet
  ASSERT_TRUE(p.a.to_tx(k).ok);
  p.step();
  ASSERT_EQ(p.a.sent_completions.size(), 4U);
  for (std::uint64_t i = 0; i < 4; ++i)
    EXPECT_EQ(p.status(i), i < 2 ? WorkStatus::kSuccess : WorkStatus::kFlushed);
  p.write(9, 100);
  ASSERT_TRUE(p.finish(5, kMillisecond));
  EXPECT_EQ(p.status(9), WorkStatus::kFlushed);
}

// Removed in the middle of a transfer, at any moment: everything completes once, pools empty.
TEST(TxRole, remove_stream__mid_flight) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    WorldOptions o = options(4, 2);
    o.seed = seed;
    Pair p(o);
    p.ab.faults.loss_ppm = p.ba.faults.loss_ppm = 50000;
    for (std::uint64_t i = 0; i < 10; ++i) {
      p.write(i, 30000, i * 32768);
      p.write(100 + i, 30000, 400000 + i * 32768, 1);
    }
    p.run_for(static_cast<Nanos>(seed * 4) * kMicrosecond);
    ASSERT_TRUE(p.a.to_tx(command(CommandKind::kRemoveStream, p.handle(0))).ok);
    ASSERT_FALSE(p.a.to_tx(command(CommandKind::kRemoveStream, p.handle(0))).ok);
    ASSERT_TRUE(p.finish(20)) << p.replay();
    std::set<std::uint64_t> ids;
    bool failed = false;
    for (const auto& c : p.a.sent_completions) {
      EXPECT_TRUE(ids.insert(c.wr_id).second) << "completed twice";
      if (c.wr_id >= 100) {
        EXPECT_EQ(c.status, 0);
        continue;
      }
      EXPECT_FALSE(failed && c.status == 0) << "success behind a failure";
      failed = failed || c.status != 0;
    }
    p.run_for(20 * kMillisecond);
    EXPECT_TRUE(p.a.tx.quiet()) << p.replay();
  }
}

TEST(TxRole, drain__reported_when_nothing_is_outstanding) {
  Pair p(options());
  for (std::uint64_t i = 0; i < 10; ++i) p.write(i, 30000, i * 32768);
  p.step();
  ASSERT_TRUE(p.a.to_tx(command(CommandKind::kDrainStream, p.handle(0))).ok);
  p.write(10, 1000);
  const auto drained = [&] {
    return std::any_of(p.a.events.begin(), p.a.events.end(),
                       [](const auto& e) { return e.kind == TxToControlKind::kStreamDrained; });
  };
  ASSERT_TRUE(p.run_until(drained, kSecond));
  EXPECT_EQ(p.a.sent_completions.size(), 11U);
  p.run_for(kMillisecond);
  EXPECT_EQ(p.a.events.size(), 1U);
}

// [MR-9.3.1] [MR-9.3.2] [MR-9.3.3] [MR-9.3.4] [MR-9.3.7] [MR-4.2.2] Ports change again and again
// under loss: epochs count, nothing is lost, what was lost is not more than the link's losses.
TEST(TxRole, change_port__in_flight_under_loss) {
  std::uint64_t changes = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    WorldOptions o = options(4, 2);
    o.seed = seed;
    World w(o);
    w.check_invariants = true;
    w.ab.faults.loss_ppm = w.ba.faults.loss_ppm = 20000;
    w.ab.faults.path_skew = 2 * kMicrosecond;
    std::map<std::uint8_t, std::pair<std::uint8_t, std::uint16_t>> last;  // path -> epoch, port
    w.ab.drop_if = [&](const Frame& f) {
      if (!Pair::is(f, wire::Type::kData) && !Pair::is(f, wire::Type::kFlush)) return false;
      auto& l = last[f.bytes[2]];
      if (l.second != 0) {
        EXPECT_TRUE(f.bytes[3] == l.first || f.bytes[3] == static_cast<std::uint8_t>(l.first + 1));
      }
      l = {f.bytes[3], f.src_port};
      return false;
    };
    Workload load(w, 60);
    Rng rng(seed);
    ASSERT_TRUE(w.run_until(
        [&] {
          load.feed();
          if (rng.below(20) == 0) {
            Command k = command(CommandKind::kChangePort, 1);
            k.path = static_cast<std::uint8_t>(rng.below(4));
            k.port = static_cast<std::uint16_t>(rng.below(2) != 0 ? 50000 + rng.below(1000) : 0);
            EXPECT_TRUE(w.a.to_tx(k).ok);
          }
          return load.done();
        },
        kSecond))
        << w.replay();
    load.check();
    changes += w.a.tx.counters().epoch_changes;
    EXPECT_EQ(w.b.rx.counters().drops[DropReason::kPathSeq], 0U);
  }
  EXPECT_GT(changes, 100U);
}

// Two changes with nothing in between that the peer saw: it knows the epoch before, and must
// understand what comes after.
TEST(TxRole, change_port__twice_without_traffic) {
  Pair p(options(1));
  for (unsigned i = 0; i < 5; ++i) {
    Command k = command(CommandKind::kChangePort, 1);
    k.port = static_cast<std::uint16_t>(50001 + i);
    ASSERT_TRUE(p.a.to_tx(k).ok);
  }
  p.write(1, 20000);
  ASSERT_TRUE(p.finish(1)) << "the receiver is " << int{p.path(0).epoch} << " epochs behind";
  EXPECT_EQ(p.path(0).source_port, 50005);
  // ... and again while everything of the new epoch is lost.
  p.ab.drop_if = [](const Frame&) { return true; };
  Command k = command(CommandKind::kChangePort, 1);
  k.port = 50100;
  ASSERT_TRUE(p.a.to_tx(k).ok);
  p.write(2, 20000, 32768);
  p.run_for(5 * kMillisecond);
  k.port = 50101;
  ASSERT_TRUE(p.a.to_tx(k).ok);
  p.run_for(5 * kMillisecond);
  p.ab.drop_if = nullptr;
  ASSERT_TRUE(p.finish(2));
  EXPECT_TRUE(p.same(32768, 20000));
}

// [MR-9.3.7] 300 epochs: the number wraps.
TEST(TxRole, change_port__epochs_wrap) {
  Pair p(options(1));
  p.check_invariants = false;
  for (std::uint64_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(p.a.to_tx(command(CommandKind::kChangePort, 1)).ok);
    p.write(i, 2000, i * 2048);
    ASSERT_TRUE(p.finish(i + 1));
  }
  EXPECT_EQ(p.a.tx.counters().epoch_changes, 300U);
  EXPECT_EQ(p.b.rx.conn(ConnIndex{1})->paths[0].epoch(), 300 % 256);
  EXPECT_EQ(p.a.tx.counters().resent_packets, 0U);
  EXPECT_TRUE(p.same(0, 2000));
}

// A buffer that a port still reads is not given back, though everything is acknowledged; order
// holds.
TEST(TxRole, busy__delays_completion) {
  Pair p(options());
  p.a.tx_io.busy_works = {0};
  p.write(1, 5000);
  p.write(2, 5000, 8192);
  p.run_for(5 * kMillisecond);
  EXPECT_TRUE(p.same(0, 5000));
  EXPECT_TRUE(p.a.sent_completions.empty());
  // Nor is its region free, nor its stream's slot lost.
  ASSERT_FALSE(p.a.to_tx(command(CommandKind::kRemoveRegion, Pair::kSourceKey)).ok);
  p.a.tx_io.busy_works = {};
  ASSERT_TRUE(p.finish(2, kMillisecond));
  EXPECT_EQ(p.a.sent_completions[0].wr_id, 1U);
  p.run_for(kMillisecond);
  EXPECT_TRUE(p.a.tx.quiet());
}

TEST(TxRole, busy__outlives_its_stream) {
  Pair p(options());
  p.a.tx_io.busy_works = {0};
  p.write(1, 5000);
  p.run_for(kMillisecond);
  ASSERT_TRUE(p.a.to_tx(command(CommandKind::kRemoveStream, p.handle(0))).ok);
  p.step();
  ASSERT_EQ(p.a.sent_completions.size(), 1U);
  EXPECT_FALSE(p.a.tx.quiet()) << "the work slot is still the port's";
  p.a.tx_io.busy_works = {};
  p.run_for(kMillisecond);
  EXPECT_TRUE(p.a.tx.quiet());
}

// What an application posts wrongly fails in its place in the order.
TEST(TxRole, submissions__bad_ones_fail_in_order) {
  struct Bad {
    WorkStatus status;
    std::function<void(WorkRequest&)> spoil;
  };
  const Bad cases[] = {
      {WorkStatus::kLocalProtection, [](WorkRequest& r) { r.lkey ^= 1; }},
      {WorkStatus::kLocalProtection, [](WorkRequest& r) { r.local_addr += Pair::kBytes; }},
      {WorkStatus::kLocalLength, [](WorkRequest& r) { r.length = 0xffffffff; }},  // [MR-3.4.11]
      {WorkStatus::kLocalOperation, [](WorkRequest& r) { r.op = 77; }},
  };
  for (const Bad& bad : cases) {
    Pair p(options());
    p.write(1, 5000);
    WorkRequest r = p.request(WorkOp::kWrite, 2, 5000);
    bad.spoil(r);
    p.post(r);
    p.write(3, 5000);
    WorkRequest foreign = p.request(WorkOp::kWrite, 4, 10);
    foreign.stream = p.handle(7);
    p.post(foreign);
    ASSERT_TRUE(p.finish(3));
    EXPECT_EQ(p.status(1), WorkStatus::kSuccess);
    EXPECT_EQ(p.status(2), bad.status);
    EXPECT_EQ(p.status(3), WorkStatus::kFlushed);
    p.run_for(kMillisecond);
    EXPECT_EQ(p.a.sent_completions.size(), 3U);
    EXPECT_EQ(p.a.tx.counters().bad_submissions, 1U);
    EXPECT_TRUE(p.a.tx.quiet());
  }
}

// [MR-2.5.3] Success without a completion when none was asked for; errors always.
TEST(TxRole, unsignaled__completes_in_error_only) {
  Pair p(options());
  for (std::uint64_t i = 0; i < 6; ++i) {
    WorkRequest r = p.request(WorkOp::kWrite, i, 3000, i * 4096);
    r.flags = i == 3 ? kWorkSignaled : 0;
    if (i == 4) r.rkey ^= 1;
    p.post(r);
  }
  ASSERT_TRUE(p.finish(3));
  EXPECT_EQ(p.status(3), WorkStatus::kSuccess);
  EXPECT_EQ(p.status(4), WorkStatus::kRemoteAccess);
  EXPECT_EQ(p.status(5), WorkStatus::kFlushed);
  EXPECT_EQ(p.a.sent_completions.size(), 3U);
}

// [MR-2.1.4] [MR-2.1.2] Everything that wraps does, at once: pseq, spn, the wire's clock.
TEST(TxRole, wrap__of_every_number) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    WorldOptions o = options(1 + static_cast<std::uint32_t>(seed % 2), 2);
    o.seed = seed;
    o.pseq_wraps = true;
    o.start = (Nanos{1} << 38) - 100 * kMicrosecond;  // 2^32 x 64 ns
    World w(o);
    w.check_invariants = true;
    w.ab.faults.loss_ppm = w.ba.faults.loss_ppm = seed % 3 == 0 ? 30000 : 0;
    const std::uint32_t first = initial_pseq(w.pseq_seed(1), PathId{0}).v;
    Workload load(w, 400);
    ASSERT_TRUE(load.run(kSecond)) << w.replay();
    load.check();
    EXPECT_GT(first, w.a.tx.path(ConnIndex{1}, 0).seq.next.v) << "pseq did not wrap";
    EXPECT_GT(w.now, Nanos{1} << 38);
    EXPECT_LT(w.a.tx.path(ConnIndex{1}, 0).rtt.srtt(), 200 * kMicrosecond);
  }
}

// [MR-3.2.1] [MR-3.2.2] [MR-4.1.3] A link that flips bits, and a trailer that finds every flip.
TEST(TxRole, crc__corruption_is_found_and_repaired) {
  std::uint64_t found = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    WorldOptions o = options(4, 2);
    o.seed = seed;
    o.crc = true;
    World w(o);
    w.check_invariants = true;
    w.ab.faults.corrupt_ppm = w.ba.faults.corrupt_ppm = 30000;
    Workload load(w, 60);
    ASSERT_TRUE(load.run(3 * kSecond)) << w.replay();
    load.check();
    found += w.b.rx.counters().drops[DropReason::kCrc] + w.a.rx.counters().drops[DropReason::kCrc];
  }
  EXPECT_GT(found, 1000U);
}

// [MR-8.1.4] A burst of the pacer's size, then the line rate.
TEST(TxRole, pacing__burst_then_line_rate) {
  WorldOptions o = options();
  o.mtu = 4096;
  o.gbps = 10;
  o.config.initial_window = 4 << 20;
  Pair p(o);
  p.write(1, 1 << 20);
  p.write(2, 1 << 20);
  p.run_for(20 * kMicrosecond);
  EXPECT_LE(p.a.tx.counters().data_packets, 16U + 10U);  // 20 us at 10 Gb/s: 25 kB
  ASSERT_TRUE(p.finish(2));
  EXPECT_GE(p.now, 2 * (1 << 20) * 8 / 10 * 9 / 10);
}

}  // namespace
}  // namespace metaroce::test
