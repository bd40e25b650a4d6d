// SendStream against a list of packets.
#include "transport/send_stream.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "base/rng.h"

namespace metaroce {
namespace {

constexpr std::uint32_t kMtu = 1000;

WindowPool& windows() {
  static WindowPool pool(64, 1024);
  return pool;
}
StreamParams params(std::uint32_t initial_spn, std::uint32_t window = 64, std::uint32_t depth = 8) {
  StreamParams p;
  p.own_initial_spn = StreamSeq{initial_spn};
  p.send_window = window;
  p.send_depth = depth;
  p.peer_rqn_limit = RecvNumber{1};
  return p;
}

struct Fixture {
  explicit Fixture(std::uint32_t initial_spn, std::uint32_t window = 64, std::uint32_t depth = 8)
      : pool(64) {
    s.start(params(initial_spn, window, depth), windows());
  }
  std::uint32_t post(std::uint32_t length, WorkOp op = WorkOp::kWrite) {
    WorkState& w = pool[used];
    w = WorkState{};
    w.length = length;
    w.op = op;
    EXPECT_TRUE(s.make_room());
    s.push(used, w, kMtu);
    return used++ % 64;
  }
  void send_one() { s.sent_one(pool[s.current()], 0); }
  SendStream s;
  std::vector<WorkState> pool;
  std::uint32_t used = 0;
};

// [MR-2.2.3] [MR-6.2.1] consecutive numbers, [MR-3.4.10] one packet for nothing, [MR-6.3.2] one
// ordinal per message that consumes a receive.
TEST(SendStream, push__numbers_packets_receives_and_messages) {
  Fixture f(0xfffffffe);
  f.post(0);
  f.post(2500, WorkOp::kSend);
  f.post(1000, WorkOp::kWriteImm);
  f.post(1, WorkOp::kSendImm);
  EXPECT_EQ(f.pool[0].first, StreamSeq{0xfffffffe});
  EXPECT_EQ(f.pool[0].packets, 1U);
  EXPECT_EQ(f.pool[1].first, StreamSeq{0xffffffff});
  EXPECT_EQ(f.pool[1].packets, 3U);
  EXPECT_EQ(f.pool[1].rqn, RecvNumber{0});
  EXPECT_EQ(f.pool[2].first, StreamSeq{2});
  EXPECT_EQ(f.pool[2].rqn, RecvNumber{1});
  EXPECT_EQ(f.pool[3].rqn, RecvNumber{2});
  EXPECT_EQ(f.pool[3].msn, 3U);
  EXPECT_EQ(f.s.end_spn(), StreamSeq{4});
  EXPECT_TRUE(f.s.credit_for(f.pool[0]));
  EXPECT_TRUE(f.s.credit_for(f.pool[1]));
  EXPECT_FALSE(f.s.credit_for(f.pool[2]));  // [MR-6.3.3]
}

// [MR-2.2.6] the window counts from the cumulative point, across the wrap.
TEST(SendStream, window_open__up_to_the_peers_window) {
  Fixture f(0xffffffe0);
  f.post(200 * kMtu);
  std::uint32_t sent = 0;
  while (f.s.window_open()) {
    f.send_one();
    ++sent;
  }
  EXPECT_EQ(sent, 64U);
  f.s.on_acked(StreamSeq{0xffffffe0} + 1);
  EXPECT_FALSE(f.s.window_open()) << "the first is missing";
  f.s.on_acked(StreamSeq{0xffffffe0});
  for (sent = 0; f.s.window_open(); ++sent) f.send_one();
  EXPECT_EQ(sent, 2U);
}

// Random order of acknowledgments, of single packets and by the peer's cumulative number.
TEST(SendStream, acknowledged__agrees_with_a_set) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const std::int64_t initial = 0xffffffff - rng.below(200);
    const std::uint32_t window = 64U << rng.below(3);
    SendStream s;
    s.start(params(static_cast<std::uint32_t>(initial), window, 64), windows());
    std::vector<WorkState> pool(64);
    std::deque<std::pair<std::uint32_t, std::pair<std::int64_t, std::int64_t>>>
        work;  // slot, [first, end)
    std::set<std::int64_t> acked;
    std::int64_t cum = initial, next = initial, end = initial;
    std::uint32_t slot = 0;
    for (int step = 0; step < 5000; ++step) {
      switch (rng.below(6)) {
        case 0:
          if (!s.has_room()) {
            ASSERT_EQ(work.size(), 64U);
            break;
          }
          pool[slot] = WorkState{};
          pool[slot].length = rng.below(8000);
          ASSERT_TRUE(s.make_room());
          s.push(slot, pool[slot], kMtu);
          work.push_back({slot, {end, end + pool[slot].packets}});
          end += pool[slot].packets;
          slot = (slot + 1) % 64;
          break;
        case 1:
        case 2:
          ASSERT_EQ(s.window_open(), next - cum < window);
          ASSERT_EQ(s.has_unsent(), next < end);
          if (!s.has_unsent() || !s.window_open()) break;
          ASSERT_EQ(s.next_spn().v, static_cast<std::uint32_t>(next));
          ASSERT_EQ(s.current(), s.find(s.next_spn(), pool));
          s.sent_one(pool[s.current()], 0);
          ++next;
          break;
        case 3:
        case 4: {
          if (next == cum) break;
          const std::int64_t spn =
              next - 1 -
              rng.below(static_cast<std::uint32_t>(std::min<std::int64_t>(next - initial, 100)));
          s.on_acked(StreamSeq{static_cast<std::uint32_t>(spn)});
          acked.insert(spn);
          break;
        }
        default: {
          const std::int64_t peer = cum - 5 + rng.below(12);
          ASSERT_EQ(s.on_stream_ack(StreamSeq{static_cast<std::uint32_t>(peer)}, RecvNumber{0}),
                    peer <= next);
          if (peer > next) break;
          for (std::int64_t x = cum; x < peer; ++x) acked.insert(x);
        }
      }
      while (acked.count(cum) != 0) ++cum;
      ASSERT_EQ(s.cum().v, static_cast<std::uint32_t>(cum)) << step;
      for (std::int64_t x = cum; x < next; ++x)
        ASSERT_EQ(s.is_acked(StreamSeq{static_cast<std::uint32_t>(x)}), acked.count(x) != 0);
      ASSERT_TRUE(s.is_acked(StreamSeq{static_cast<std::uint32_t>(cum - 1)}));
      // Every outstanding packet is found at its request, others nowhere.
      for (const auto& [at, range] : work) {
        ASSERT_EQ(s.find(StreamSeq{static_cast<std::uint32_t>(range.first)}, pool), at);
        ASSERT_EQ(s.find(StreamSeq{static_cast<std::uint32_t>(range.second - 1)}, pool), at);
      }
      ASSERT_EQ(s.find(StreamSeq{static_cast<std::uint32_t>(end)}, pool), kNil);
      while (!work.empty() && work.front().second.second <= cum) {
        ASSERT_EQ(s.oldest(), work.front().first);
        s.pop_oldest();
        work.pop_front();
      }
      ASSERT_EQ(s.outstanding(), work.size());
      ASSERT_EQ(s.idle(), work.empty());
    }
  }
}

// [MR-3.6.8] and work that is bounded whatever the peer claims: exactly half the number space away
// neither "ahead" nor "behind" is defined.
TEST(SendStream, on_stream_ack__unsent_is_not_believed) {
  Fixture f(100);
  f.post(10 * kMtu);
  f.send_one();
  EXPECT_FALSE(f.s.on_stream_ack(StreamSeq{102}, RecvNumber{50}));
  EXPECT_EQ(f.s.credit_limit(), RecvNumber{1});
  for (const std::uint32_t far : {0x80000063U, 0x80000064U, 0x80000065U, 0x80000066U}) {
    f.s.on_stream_ack(StreamSeq{far}, RecvNumber{0});
    ASSERT_EQ(f.s.cum(), StreamSeq{100}) << far;
  }
  EXPECT_TRUE(f.s.on_stream_ack(StreamSeq{101}, RecvNumber{5}));
  EXPECT_EQ(f.s.cum(), StreamSeq{101});
  f.s.on_stream_ack(StreamSeq{101 + 0x80000000U}, RecvNumber{0});
  EXPECT_EQ(f.s.cum(), StreamSeq{101});
  EXPECT_EQ(f.s.credit_limit(), RecvNumber{5});
}

// [MR-6.3.5]
TEST(SendStream, on_stream_ack__limit_is_the_serial_maximum) {
  Fixture f(0);
  f.s.on_stream_ack(StreamSeq{0}, RecvNumber{0x7fffffff});
  f.s.on_stream_ack(StreamSeq{0}, RecvNumber{0x70000000});
  EXPECT_EQ(f.s.credit_limit(), RecvNumber{0x7fffffff});
  f.s.on_stream_ack(StreamSeq{0}, RecvNumber{0x90000000});
  EXPECT_EQ(f.s.credit_limit(), RecvNumber{0x90000000});
}

TEST(SendStream, fail__the_lowest_wins) {
  Fixture f(0xfffffff0);
  EXPECT_FALSE(f.s.beyond_failure(StreamSeq{5}));
  f.s.fail(StreamSeq{5}, WorkStatus::kRemoteAccess);
  f.s.fail(StreamSeq{7}, WorkStatus::kRetryExceeded);
  EXPECT_EQ(f.s.fail_status, WorkStatus::kRemoteAccess);
  f.s.fail(StreamSeq{0xfffffff8}, WorkStatus::kRemoteInvalidRequest);
  EXPECT_EQ(f.s.fail_spn, StreamSeq{0xfffffff8});
  EXPECT_EQ(f.s.fail_status, WorkStatus::kRemoteInvalidRequest);
  EXPECT_FALSE(f.s.beyond_failure(StreamSeq{0xfffffff7}));
  EXPECT_TRUE(f.s.beyond_failure(StreamSeq{0xfffffff8}));
}

TEST(SendStream, start__rounds_the_depth_up_and_starts_clean) {
  Fixture f(9, 64, 5);
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(f.s.has_room());
    f.post(1);
  }
  EXPECT_FALSE(f.s.has_room());
  f.s.fail(StreamSeq{9}, WorkStatus::kFlushed);
  f.s.start(params(77), windows());
  EXPECT_TRUE(f.s.idle());
  EXPECT_FALSE(f.s.failing);
  EXPECT_EQ(f.s.cum(), StreamSeq{77});
}

// A window from the first request until everything is acknowledged; none is free: no room.
TEST(SendStream, window__from_the_pool) {
  WindowPool pool(1, 64);
  std::vector<WorkState> work(2);
  SendStream a, b;
  a.start(params(5), pool);
  b.start(params(5), pool);
  EXPECT_EQ(pool.used(), 0U);
  work[0].length = 3 * kMtu;
  ASSERT_TRUE(a.make_room());
  a.push(0, work[0], kMtu);
  EXPECT_FALSE(b.make_room());
  for (int i = 0; i < 3; ++i) a.sent_one(work[0], kMtu);
  a.on_acked(StreamSeq{7});
  a.on_acked(StreamSeq{5});
  a.on_acked(StreamSeq{6});
  EXPECT_EQ(a.cum(), a.end_spn());
  a.pop_oldest();
  EXPECT_EQ(pool.used(), 0U);
  a.on_acked(StreamSeq{7});
  EXPECT_TRUE(a.is_acked(StreamSeq{7}));
  EXPECT_FALSE(a.is_acked(StreamSeq{8}));
  ASSERT_TRUE(b.make_room());
  EXPECT_FALSE(b.is_acked(StreamSeq{5})) << "left clean";
}

}  // namespace
}  // namespace metaroce
