// What a receiver answers, places and completes: NACKs, credits, ordered packets.
#include <numeric>

#include "support/pair.h"

namespace metaroce::test {
namespace {

WorldOptions options(std::uint32_t streams = 1, std::uint32_t paths = 4) {
  WorldOptions o;
  o.streams = streams;
  o.paths = paths;
  return o;
}

// ---- retriable NACKs
// ------------------------------------------------------------------------------

// [MR-6.3.3] [MR-6.3.6] [MR-6.3.7] Without credit nothing is sent; posted receives are announced.
TEST(RxRole, credit__late_receives_start_the_sender) {
  Pair p(options());
  for (std::uint64_t i = 0; i < 20; ++i) p.send(i, 3000, i * 4096);
  p.run_for(3 * kMillisecond);
  EXPECT_EQ(p.a.tx.counters().data_packets, 0U) << "sent without credit";
  EXPECT_GT(p.a.tx.counters().probes, 1U);
  EXPECT_LT(p.a.tx.counters().probes, 20U) << "asks with back-off";
  for (std::uint64_t i = 0; i < 20; ++i) p.receive(i, 4096, i * 4096);
  ASSERT_TRUE(p.finish(20, kMillisecond)) << "the push was not seen";
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(p.received(i), WorkStatus::kSuccess);
  EXPECT_EQ(p.drops_b(DropReason::kNoReceive), 0U);
}

// [MR-6.3.7] The push is lost: the probe makes progress.
TEST(RxRole, credit__lost_push_is_asked_for) {
  Pair p(options());
  p.send(1, 3000);
  p.ba.drop_if = [](const Frame& f) { return Pair::is(f, wire::Type::kAck); };
  p.run_for(kMillisecond);
  p.receive(1, 4096);
  p.run_for(kMillisecond);
  p.ba.drop_if = nullptr;
  ASSERT_TRUE(p.finish(1, 200 * kMillisecond));
  EXPECT_TRUE(p.same(0, 3000));
}

// [MR-6.3.8] [MR-6.5.3] [MR-6.5.5] A sender that believes in credit which is not there (a limit
// forged in flight) is told RNR, and finishes when receives appear.
TEST(RxRole, rnr__absorbed_when_receives_are_posted_late) {
  Pair p(options());
  wire::Ack a{};
  a.c.set(wire::Type::kAck);
  a.c.dcid = (1U << 8) | 0x5a;
  a.n_streams = 1;
  wire::AckStream s{};
  s.cum_spn = p.options.initial_spn;
  s.rqn_limit = 100;
  Frame f;
  f.bytes.resize(sizeof a + sizeof s);
  std::memcpy(f.bytes.data(), &a, sizeof a);
  std::memcpy(f.bytes.data() + sizeof a, &s, sizeof s);
  p.ba.send(p.now, f);
  for (std::uint64_t i = 0; i < 10; ++i) p.send(i, 3000, i * 4096);
  p.run_for(2 * kMillisecond);
  EXPECT_GT(p.drops_b(DropReason::kNoReceive), 0U);
  EXPECT_TRUE(p.a.sent_completions.empty());
  const std::uint64_t before = p.a.tx.counters().data_packets;
  p.run_for(10 * kMillisecond);
  // Only the named packet is tried again, once per wait of 100 us. [MR-6.5.5]
  EXPECT_LE(p.a.tx.counters().data_packets - before, 110U);
  EXPECT_GE(p.a.tx.counters().data_packets - before, 50U);
  EXPECT_EQ(p.a.tx.counters().lost_packets, 0U)
      << "a reject is not a loss";  // [MR-6.5.4] [MR-8.3.9]
  for (std::uint64_t i = 0; i < 10; ++i) p.receive(i, 4096, i * 4096);
  ASSERT_TRUE(p.finish(10));
  for (std::uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(p.status(i), WorkStatus::kSuccess);
    EXPECT_TRUE(p.same(i * 4096, 3000));
  }
  EXPECT_EQ(p.conn().lost, 0U);
}

// [MR-6.3.9]
TEST(RxRole, rnr__retries_are_counted_as_in_verbs) {
  WorldOptions o = options();
  o.config.rnr_retry = 3;
  Pair p(o);
  p.receive(0, 4096);
  p.send(0, 1000);
  ASSERT_TRUE(p.finish(1));
  wire::Ack a{};
  a.c.set(wire::Type::kAck);
  a.c.dcid = (1U << 8) | 0x5a;
  a.n_streams = 1;
  wire::AckStream s{};
  s.cum_spn = p.options.initial_spn + 1;
  s.rqn_limit = 100;
  Frame f;
  f.bytes.resize(sizeof a + sizeof s);
  std::memcpy(f.bytes.data(), &a, sizeof a);
  std::memcpy(f.bytes.data() + sizeof a, &s, sizeof s);
  p.ba.send(p.now, f);
  p.send(1, 1000, 4096);
  p.send(2, 1000, 8192);
  ASSERT_TRUE(p.finish(3));
  EXPECT_EQ(p.status(1), WorkStatus::kRnrRetryExceeded);
  EXPECT_EQ(p.status(2), WorkStatus::kFlushed);
}

// For ever means for ever: more rejects in a row than the plausible distance of pseq.
TEST(RxRole, rnr__ten_thousand_rejects_do_not_lose_the_path) {
  Pair p(options(1, 1));
  p.check_invariants = false;
  Command k;
  k.kind = CommandKind::kRemoveStream;
  k.id = p.handle(0);
  ASSERT_TRUE(p.b.to_rx(k).ok);
  ASSERT_TRUE(p.b.to_tx(k).ok);
  p.write(1, 3000);
  p.run_until([&] { return p.drops_b(DropReason::kNoStream) >= 10000; }, 4 * kSecond);
  ASSERT_GE(p.drops_b(DropReason::kNoStream), 10000U);
  EXPECT_EQ(p.drops_b(DropReason::kPathSeq), 0U);
  p.add_stream(p.b, 0);
  ASSERT_TRUE(p.finish(1, 10 * kMillisecond));
  EXPECT_EQ(p.status(1), WorkStatus::kSuccess);
}

// [MR-4.3.1] The receiver opens the stream a little later than the sender believes.
TEST(RxRole, not_ready__stream_opened_late) {
  Pair p(options());
  Command k;
  k.kind = CommandKind::kRemoveStream;
  k.id = p.handle(0);
  ASSERT_TRUE(p.b.to_rx(k).ok);
  ASSERT_TRUE(p.b.to_tx(k).ok);
  for (std::uint64_t i = 0; i < 8; ++i) p.write(i, 5000, i * 8192);
  p.run_for(5 * kMillisecond);
  EXPECT_GT(p.drops_b(DropReason::kNoStream), 0U);
  EXPECT_TRUE(p.a.sent_completions.empty());
  p.add_stream(p.b, 0);
  ASSERT_TRUE(p.finish(8));
  for (std::uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(p.status(i), WorkStatus::kSuccess);
    EXPECT_TRUE(p.same(i * 8192, 5000));
  }
}

// [MR-4.3.1] ... or never: the sender's own limit ends it, and nothing but the stream.
TEST(RxRole, not_ready__for_ever_fails_the_stream_only) {
  Pair p(options(2));
  Command k;
  k.kind = CommandKind::kRemoveStream;
  k.id = p.handle(0);
  ASSERT_TRUE(p.b.to_rx(k).ok);
  p.check_invariants = false;
  p.write(1, 5000);
  p.write(2, 5000);
  ASSERT_TRUE(p.finish(2, 6 * kSecond));
  EXPECT_EQ(p.status(1), WorkStatus::kRetryExceeded);
  EXPECT_EQ(p.status(2), WorkStatus::kFlushed);
  p.write(3, 5000, 8192, 1);
  ASSERT_TRUE(p.finish(3));
  EXPECT_EQ(p.status(3), WorkStatus::kSuccess);
  for (const auto& e : p.a.events) EXPECT_NE(e.kind, TxToControlKind::kConnFailed);
  p.run_for(5 * kSecond);  // [MR-6.6.5] nor later: nothing of the stream is left waiting
  for (const auto& e : p.a.events) EXPECT_NE(e.kind, TxToControlKind::kConnFailed);
  EXPECT_TRUE(p.a.tx.quiet());
}

// A sender whose window is larger than the receiver's. [MR-4.1.1] check 16
TEST(RxRole, stream_window__absorbed) {
  Pair p(options(1, 4));
  Command k;
  k.kind = CommandKind::kRemoveStream;
  k.id = p.handle(0);
  ASSERT_TRUE(p.b.to_tx(k).ok);
  ASSERT_TRUE(p.b.to_rx(k).ok);
  p.config.spn_window = 64;
  p.add_stream(p.b, 0);
  std::uint64_t n = 0;
  p.ab.drop_if = [&](const Frame& f) {
    return Pair::is(f, wire::Type::kData) && n++ == 0;
  };  // the first: a hole
  p.write(1, 400000);
  ASSERT_TRUE(p.finish(1));
  EXPECT_GT(p.drops_b(DropReason::kStreamWindow), 0U);
  EXPECT_EQ(p.status(1), WorkStatus::kSuccess);
  EXPECT_TRUE(p.same(0, 400000));
}

// [MR-2.2.6] With the window that was announced no packet falls outside it.
TEST(RxRole, stream_window__respected_under_loss) {
  WorldOptions o = options(2, 4);
  o.config.spn_window = 64;
  Pair p(o);
  p.ab.faults.loss_ppm = 50000;
  for (std::uint64_t i = 0; i < 4; ++i)
    p.write(i, 200000, i * 200000, static_cast<std::uint32_t>(i % 2));
  ASSERT_TRUE(p.finish(4));
  EXPECT_EQ(p.drops_b(DropReason::kStreamWindow), 0U);
  EXPECT_TRUE(p.same(0, 800000));
}

// [MR-2.5.6] [MR-2.5.7] [MR-6.4.5] Few hold buffers, many ordered packets behind a hole.
TEST(RxRole, no_resource__ordered_packets_beyond_the_quota) {
  for (const std::uint32_t quota : {0U, 1U, 4U}) {
    WorldOptions o = options(1, 4);
    o.ordered = true;
    o.config.ordered_hold_packets = quota;
    Pair p(o);
    std::uint64_t n = 0;
    p.ab.drop_if = [&](const Frame& f) { return Pair::is(f, wire::Type::kData) && n++ == 0; };
    for (std::uint64_t i = 0; i < 50; ++i) p.write(i, 700, i * 1024);
    ASSERT_TRUE(p.finish(50));
    EXPECT_GT(p.drops_b(DropReason::kNoResource), 0U);
    for (std::uint64_t i = 0; i < 50; ++i) {
      EXPECT_EQ(p.status(i), WorkStatus::kSuccess);
      EXPECT_TRUE(p.same(i * 1024, 700));
    }
    EXPECT_EQ(p.b.rx.conn(ConnIndex{1})->held, 0U);
  }
}

// [MR-6.5.6] [MR-6.5.2] NACKs may be lost; at most one per stream and burst leaves.
TEST(RxRole, retriable__lost_nacks_are_harmless) {
  WorldOptions o = options(1, 4);
  o.ordered = true;
  o.config.ordered_hold_packets = 1;
  Pair p(o);
  p.ab.faults.loss_ppm = 50000;
  std::uint64_t n = 0;
  p.ba.drop_if = [&](const Frame& f) { return Pair::is(f, wire::Type::kNack) && ++n % 3 != 0; };
  for (std::uint64_t i = 0; i < 200; ++i) p.write(i, 700, i * 1024);
  ASSERT_TRUE(p.finish(200));
  EXPECT_GT(n, 0U);
  EXPECT_LE(p.b.rx.counters().nacks_sent, p.drops_b(DropReason::kNoResource));
  for (std::uint64_t i = 0; i < 200; ++i) EXPECT_TRUE(p.same(i * 1024, 700));
}

// ---- final NACKs
// ------------------------------------------------------------------------------------

struct Final {
  const char* name;
  DropReason drop;
  WorkStatus status;
  std::function<void(WorkRequest&)> spoil;
};

// [MR-6.6.1] [MR-6.6.3] [MR-6.6.4] [MR-6.6.5] [MR-6.6.6] What precedes completes, the message fails
// with its status, the rest is flushed, another stream lives on.
TEST(RxRole, final__acts_in_order_and_on_one_stream) {
  const Final cases[] = {
      {"bad key", DropReason::kBadKey, WorkStatus::kRemoteAccess,
       [](WorkRequest& r) { r.rkey ^= 1; }},
      {"bounds", DropReason::kBounds, WorkStatus::kRemoteAccess,
       [](WorkRequest& r) { r.remote_addr += Pair::kBytes - 100; }},
      {"wrap", DropReason::kBounds, WorkStatus::kRemoteAccess,
       [](WorkRequest& r) { r.remote_addr = ~std::uint64_t{0} - 3000; }},
      {"access", DropReason::kAccess, WorkStatus::kRemoteAccess,
       [](WorkRequest& r) { r.rkey = 0; }},
      {"length", DropReason::kLength, WorkStatus::kRemoteInvalidRequest,
       [](WorkRequest& r) {
         r.op = static_cast<std::uint8_t>(WorkOp::kSend);
         r.length = 9000;
       }},
  };
  for (const Final& c : cases) {
    for (const std::uint32_t loss : {0U, 100000U}) {
      SCOPED_TRACE(c.name);
      Pair p(options(2, 4));
      p.ab.faults.loss_ppm = p.ba.faults.loss_ppm = loss;
      auto& readonly = p.b.add_memory(1 << 16, (3U << 12) | 1, kAccessLocalWrite);
      for (std::uint64_t i = 0; i < 10; ++i) p.receive(i, 4096, 900000);
      p.run_for(kMillisecond);  // the credit is known
      for (std::uint64_t i = 0; i < 10; ++i) {
        WorkRequest r = p.request(WorkOp::kWrite, i, 5000, i * 8192);
        if (i == 5) c.spoil(r);
        if (r.rkey == 0) {
          r.rkey = readonly.key;
          r.remote_addr = readonly.va;
        }
        p.post(r);
        p.write(100 + i, 5000, 262144 + i * 8192, 1);
      }
      ASSERT_TRUE(p.finish(20));
      for (std::uint64_t i = 0; i < 10; ++i) {
        EXPECT_EQ(p.status(i), i < 5    ? WorkStatus::kSuccess
                               : i == 5 ? c.status
                                        : WorkStatus::kFlushed)
            << i;
        EXPECT_EQ(p.status(100 + i), WorkStatus::kSuccess) << i;
        if (i < 5) {
          EXPECT_TRUE(p.same(i * 8192, 5000));
        }
        EXPECT_TRUE(p.same(262144 + i * 8192, 5000));
      }
      // In order, also between success and error.
      std::uint64_t next = 0;
      for (const auto& done : p.a.sent_completions)
        if (done.wr_id < 100) {
          EXPECT_EQ(done.wr_id, next++);
        }
      EXPECT_GT(p.drops_b(c.drop), 0U);
      EXPECT_TRUE(
          std::all_of(readonly.bytes.begin(), readonly.bytes.end(), [](auto x) { return x == 0; }));
      ASSERT_EQ(
          std::count_if(p.a.events.begin(), p.a.events.end(),
                        [](const auto& e) { return e.kind == TxToControlKind::kStreamFailed; }),
          1);
      p.run_for(10 * kMillisecond);
      EXPECT_TRUE(p.a.tx.quiet());
      // [MR-6.6.1] Nothing at or above the failing packet is placed.
      EXPECT_EQ(p.b.rx.stream(p.handle(0))->cum(), p.b.rx.stream(p.handle(0))->fail_spn());
      // What is posted to the failed stream is flushed at once.
      p.write(50, 10);
      ASSERT_TRUE(p.finish(21, kMillisecond));
      EXPECT_EQ(p.status(50), WorkStatus::kFlushed);
    }
  }
}

// [MR-6.6.3] A final NACK may be lost: the packet is not acknowledged, and answered again.
TEST(RxRole, final__lost_nack_comes_again) {
  Pair p(options());
  unsigned n = 0;
  p.ba.drop_if = [&](const Frame& f) { return Pair::is(f, wire::Type::kNack) && n++ < 4; };
  WorkRequest r = p.request(WorkOp::kWrite, 1, 3000);
  r.rkey ^= 1;
  p.post(r);
  ASSERT_TRUE(p.finish(1));
  EXPECT_EQ(p.status(1), WorkStatus::kRemoteAccess);
  EXPECT_GT(n, 4U);
}

// [MR-4.5.1] longer than any message may be.
TEST(RxRole, write__message_above_the_limit_is_refused) {
  Pair p(options(1, 1));
  Frame seen;
  p.ab.drop_if = [&](const Frame& f) {
    if (!Pair::is(f, wire::Type::kData)) return false;
    seen = f;
    return true;
  };
  p.write(1, 3000);
  p.run_until([&] { return !seen.bytes.empty(); }, kMillisecond);
  auto& w = *reinterpret_cast<wire::Write*>(seen.bytes.data());
  w.message_length = 0x80000001U;
  w.d.c.flags = 0;
  w.d.op = 0x01;
  p.b.rx.begin_burst(p.now);
  p.b.deliver(seen, p.a.ip);
  p.b.rx.end_burst(true, true);
  EXPECT_EQ(p.drops_b(DropReason::kLength), 1U);
  EXPECT_EQ(p.b.placed, 0U);
}

// [MR-10.1.3] A region that is removed while packets are on their way: none of them changes it.
TEST(RxRole, remove_region__mid_flight) {
  Pair p(options());
  p.write(1, 500000);
  p.run_until([&] { return p.b.placed > 50000; }, kSecond);
  Command k;
  k.kind = CommandKind::kRemoveRegion;
  k.id = Pair::kSinkKey;
  ASSERT_TRUE(p.b.to_rx(k).ok);
  const auto before = p.dst.bytes;
  ASSERT_TRUE(p.finish(1));
  EXPECT_EQ(p.status(1), WorkStatus::kRemoteAccess);
  EXPECT_EQ(p.dst.bytes, before);
  EXPECT_GT(p.drops_b(DropReason::kBadKey), 0U);
}

// [MR-6.4.6] ... and of a held packet as well: its bytes are discarded.
TEST(RxRole, remove_region__under_a_held_packet) {
  WorldOptions o = options(1, 1);
  o.ordered = true;
  Pair p(o);
  auto& other = p.b.add_memory(4096, (3U << 12) | 1, kAccessLocalWrite | kAccessRemoteWrite);
  bool hole = true;
  p.ab.drop_if = [&](const Frame& f) {
    return hole && Pair::is(f, wire::Type::kData) && Pair::data(f).spn == p.options.initial_spn;
  };
  p.write(1, 100);
  WorkRequest r = p.request(WorkOp::kWrite, 2, 100);
  r.rkey = other.key;
  r.remote_addr = other.va;
  p.post(r);
  ASSERT_TRUE(p.run_until([&] { return p.b.rx.counters().held == 1; }, kMillisecond));
  Command k;
  k.kind = CommandKind::kRemoveRegion;
  k.id = other.key;
  ASSERT_TRUE(p.b.to_rx(k).ok);
  hole = false;
  ASSERT_TRUE(p.finish(2));
  EXPECT_TRUE(std::all_of(other.bytes.begin(), other.bytes.end(), [](auto x) { return x == 0; }));
  EXPECT_TRUE(p.same(0, 100));
}

// ---- ordered packets
// ----------------------------------------------------------------------------------

// [MR-6.4.1] [MR-6.4.2] [MR-6.4.3] At each step: when the last byte of a Write is visible, so is
// everything before it.
TEST(RxRole, ordered__last_byte_after_everything_before_it) {
  std::uint64_t held = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    WorldOptions o = options(2, 4);
    o.seed = seed;
    o.ordered = true;
    Pair p(o);
    p.ab.faults.loss_ppm = 30000;
    p.ab.faults.path_skew = 6 * kMicrosecond;
    Rng rng(seed);
    struct Piece {
      std::size_t at, n;
      bool seen = false;
    };
    std::array<std::vector<Piece>, 2> streams;
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < 80; ++i) {
      const std::uint32_t n = 1 + rng.below(5000);
      streams[i % 2].push_back({at, n});
      p.write(i, n, at, static_cast<std::uint32_t>(i % 2));
      at += n + rng.below(9);
    }
    ASSERT_TRUE(p.run_until(
        [&] {
          for (auto& pieces : streams) {
            bool all_before = true;
            for (auto& piece : pieces) {
              if (!piece.seen && p.dst.bytes[piece.at + piece.n - 1] != 0) {
                EXPECT_TRUE(all_before) << "visible before an earlier Write: " << p.replay();
                EXPECT_TRUE(p.same(piece.at, piece.n))
                    << "last byte before the others: " << p.replay();
                piece.seen = true;
              }
              all_before = all_before && piece.seen;
            }
          }
          return p.a.sent_completions.size() == 80;
        },
        kSecond));
    held += p.b.rx.counters().held;
  }
  EXPECT_GT(held, 100U) << "nothing was ever out of order";
}

// [MR-6.4.3]
TEST(RxRole, ordered__flag_only_on_last_packets_of_ordered_streams) {
  for (const bool ordered : {false, true}) {
    WorldOptions o = options();
    o.ordered = ordered;
    Pair p(o);
    p.receive(0, 4096);
    unsigned set = 0;
    p.ab.drop_if = [&](const Frame& f) {
      if (!Pair::is(f, wire::Type::kData)) return false;
      const bool ord = (f.bytes[1] & wire::kFlagOrd) != 0;
      EXPECT_EQ(ord, ordered && Pair::data(f).code() == wire::Op::kWrite &&
                         (Pair::data(f).op & wire::kOpLast) != 0);
      set += ord ? 1 : 0;
      return false;
    };
    p.write(1, 5000);
    p.send(2, 3000);
    ASSERT_TRUE(p.finish(2));
    EXPECT_EQ(set, ordered ? 1U : 0U);
  }
}

// ---- messages
// -----------------------------------------------------------------------------------------

// [MR-3.4.10] [MR-4.5.5] No key, no address: nothing is touched.
TEST(RxRole, zero_length__of_every_operation) {
  Pair p(options());
  for (std::uint64_t i = 0; i < 3; ++i) p.receive(10 + i, 0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    WorkRequest r = p.request(static_cast<WorkOp>(i), i, 0);
    r.rkey = r.lkey = 0xdeadbeef;
    r.remote_addr = r.local_addr = ~std::uint64_t{0};
    p.post(r);
  }
  ASSERT_TRUE(p.finish(4));
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(p.status(i), WorkStatus::kSuccess);
  ASSERT_TRUE(p.run_until([&] { return p.b.received_completions.size() == 3; }, kMillisecond));
  for (const auto& c : p.b.received_completions) EXPECT_EQ(c.byte_len, 0U);
  EXPECT_EQ(p.a.tx.counters().data_packets, 4U);
  EXPECT_EQ(p.b.placed, 0U);
}

// [MR-6.2.4] [MR-6.2.5] What a receive tells; a plain Write tells nothing.
TEST(RxRole, receive__length_and_immediate) {
  Pair p(options());
  for (std::uint64_t i = 0; i < 3; ++i) p.receive(10 + i, 4096, i * 8192);
  for (std::uint64_t i = 0; i < 4; ++i)
    p.post(p.request(static_cast<WorkOp>(i), i, 2000 + static_cast<std::uint32_t>(i), i * 8192));
  ASSERT_TRUE(p.finish(4));
  ASSERT_TRUE(p.run_until([&] { return p.b.received_completions.size() == 3; }, kMillisecond));
  const auto& c = p.b.received_completions;
  EXPECT_EQ(c[0].op, static_cast<std::uint8_t>(WorkOp::kRecvWriteImm));
  EXPECT_EQ(c[0].byte_len, 2001U);
  EXPECT_EQ(c[0].imm, 1001U);
  EXPECT_EQ(c[0].flags, kCompletionImm);
  EXPECT_EQ(c[1].op, static_cast<std::uint8_t>(WorkOp::kRecv));
  EXPECT_EQ(c[1].flags, 0);
  EXPECT_EQ(c[2].imm, 1003U);
  EXPECT_EQ(c[2].byte_len, 2003U);
}

// ---- closing
// ------------------------------------------------------------------------------------------

// [MR-6.7.3] [MR-4.3.3] [MR-6.7.5] Stopped in the middle: what is below stays acknowledged,
// receives are flushed, what comes is refused.
TEST(RxRole, stop_stream__mid_flight) {
  Pair p(options());
  for (std::uint64_t i = 0; i < 5; ++i) p.receive(i, 4096, 900000);
  p.write(1, 300000);
  p.run_until([&] { return p.b.placed > 30000; }, kSecond);
  Command k;
  k.kind = CommandKind::kStopStream;
  k.id = p.handle(0);
  const CommandResult r = p.b.to_rx(k);
  ASSERT_TRUE(r.ok);
  EXPECT_EQ(r.cum_spn, p.b.rx.stream(p.handle(0))->cum());
  const std::uint64_t placed = p.b.placed;
  ASSERT_TRUE(p.finish(1));
  EXPECT_EQ(p.status(1), WorkStatus::kRemoteInvalidRequest);  // [MR-6.6.6] BAD_STREAM
  EXPECT_EQ(p.b.placed, placed);
  EXPECT_EQ(p.b.rx.stream(p.handle(0))->cum(), r.cum_spn);
  ASSERT_EQ(p.b.received_completions.size(), 5U);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(p.received(i), WorkStatus::kFlushed);
}

}  // namespace
}  // namespace metaroce::test
