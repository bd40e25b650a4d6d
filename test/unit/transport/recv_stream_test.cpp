// RecvStream against sets and queues.
#include "transport/recv_stream.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "base/rng.h"

namespace metaroce {
namespace {

WindowPool& windows() {
  static WindowPool pool(64, 1024);
  return pool;
}
StreamParams params(std::uint32_t initial_spn, std::uint32_t window = 64, std::uint32_t depth = 8) {
  StreamParams p;
  p.peer_initial_spn = StreamSeq{initial_spn};
  p.recv_window = window;
  p.recv_depth = depth;
  return p;
}
WorkRequest receive(std::uint64_t id, std::uint32_t length = 100) {
  WorkRequest w{};
  w.wr_id = id;
  w.local_addr = id * 1000;
  w.length = length;
  w.lkey = 5;
  return w;
}

void post(RecvStream& s, const WorkRequest& w) {
  ASSERT_TRUE(s.receive_room());
  s.post(w);
}
void arrive(RecvStream& s, StreamSeq spn) {
  ASSERT_TRUE(s.can_mark(spn));
  s.mark(spn);
}

// [MR-2.5.1] each number once over the whole window; [MR-2.2.6] cumulative point.
TEST(RecvStream, classify__agrees_with_a_set) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const std::int64_t initial = 0xffffffff - rng.below(300);
    const std::uint32_t window = 64U << rng.below(4);
    RecvStream s;
    s.start(params(static_cast<std::uint32_t>(initial), window), windows());
    std::set<std::int64_t> seen;
    std::int64_t cum = initial;
    for (int step = 0; step < 20000; ++step) {
      const std::int64_t spn = cum - 20 + rng.below(rng.below(4) == 0 ? 2 * window : 60);
      const StreamSeq n{static_cast<std::uint32_t>(spn)};
      const RecvStream::Window want = spn < cum || seen.count(spn) != 0
                                          ? RecvStream::Window::kDuplicate
                                      : spn >= cum + window ? RecvStream::Window::kBeyond
                                                            : RecvStream::Window::kNew;
      ASSERT_EQ(s.classify(n), want) << spn - cum;
      if (want != RecvStream::Window::kNew) continue;
      arrive(s, n);
      seen.insert(spn);
      ASSERT_EQ(s.advance(), spn == cum);
      while (seen.count(cum) != 0) seen.erase(cum++);
      ASSERT_EQ(s.cum().v, static_cast<std::uint32_t>(cum));
    }
    EXPECT_GT(cum, initial + 1000);
  }
}

// [MR-2.5.2] [MR-6.3.1] in the order of ordinals, when the cumulative point has passed the last
// packet and not before.
TEST(RecvStream, completable__when_cum_passes_the_last_packet) {
  RecvStream s;
  s.start(params(0xfffffffe), windows());
  for (std::uint64_t i = 0; i < 3; ++i) post(s, receive(i));
  const auto end = [&](std::uint32_t rqn, StreamSeq spn) {
    s.slot(RecvNumber{rqn})->has_last = true;
    s.slot(RecvNumber{rqn})->last_spn = spn;
  };
  end(1, StreamSeq{1});
  arrive(s, StreamSeq{1});
  arrive(s, StreamSeq{0});
  EXPECT_FALSE(s.advance());
  EXPECT_EQ(s.completable(), nullptr);
  end(0, StreamSeq{0xffffffff});
  arrive(s, StreamSeq{0xffffffff});
  EXPECT_EQ(s.completable(), nullptr);
  arrive(s, StreamSeq{0xfffffffe});
  EXPECT_TRUE(s.advance());
  EXPECT_EQ(s.cum(), StreamSeq{2});
  ASSERT_NE(s.completable(), nullptr);
  EXPECT_EQ(s.completable()->wr_id, 0U);
  s.complete_one();
  ASSERT_NE(s.completable(), nullptr);
  EXPECT_EQ(s.completable()->wr_id, 1U);
  s.complete_one();
  EXPECT_EQ(s.completable(), nullptr);
  EXPECT_EQ(s.oldest()->wr_id, 2U);
}

// [MR-6.3.4] slots exist from post to completion, at ring positions that wrap.
TEST(RecvStream, slot__agrees_with_a_queue) {
  Rng rng(9);
  RecvStream s;
  s.start(params(0, 64, 5), windows());  // rounded up to 8
  std::uint32_t posted = 0, completed = 0;
  for (int step = 0; step < 20000; ++step) {
    if (rng.below(2) == 0) {
      ASSERT_EQ(s.receive_room(), posted - completed < 8);
      if (!s.receive_room()) continue;
      post(s, receive(posted++));
    } else if (completed < posted) {
      ASSERT_EQ(s.oldest()->wr_id, completed);
      s.complete_one();
      ++completed;
    }
    ASSERT_EQ(s.credit_limit().v, posted);
    for (std::uint32_t r = completed - 3; r != posted + 3; ++r) {
      RecvSlot* slot = s.slot(RecvNumber{r});
      const bool there = r - completed < posted - completed;
      ASSERT_EQ(slot != nullptr, there) << r;
      if (there) {
        ASSERT_EQ(slot->wr_id, r);
      }
    }
  }
}

// [MR-6.3.6] [MR-6.3.10] pushed when the sender may be waiting: nothing, or little, is left.
TEST(RecvStream, credit_push_due__when_little_is_left) {
  RecvStream s;
  s.start(params(0, 64, 16), windows());
  post(s, receive(0));
  EXPECT_TRUE(s.credit_push_due());
  s.advertised(s.credit_limit());
  EXPECT_FALSE(s.credit_push_due());
  for (std::uint64_t i = 1; i < 10; ++i) post(s, receive(i));
  EXPECT_TRUE(s.credit_push_due()) << "one is little";
  s.advertised(s.credit_limit());
  post(s, receive(10));
  EXPECT_FALSE(s.credit_push_due()) << "ten are known to the sender";
  for (std::uint32_t r = 0; r < 8; ++r) s.note_consumed(RecvNumber{r});
  EXPECT_TRUE(s.credit_push_due());
}

// [MR-6.4.1] held packets come out in spn order, as the cumulative point passes them.
TEST(RecvStream, held__ripe_in_order) {
  RecvStream s;
  s.start(params(0xfffffffd), windows());
  for (const std::uint32_t spn : {3U, 0xffffffffU, 1U})
    s.hold(HeldPacket{StreamSeq{spn}, spn & 7, 1, 0, 0});
  EXPECT_TRUE(s.holds_any());
  EXPECT_EQ(s.ripe(), nullptr);
  for (const std::uint32_t spn : {0xfffffffdU, 0xfffffffeU, 0xffffffffU, 0U, 1U}) {
    arrive(s, StreamSeq{spn});
    s.advance();
  }
  ASSERT_NE(s.ripe(), nullptr);
  EXPECT_EQ(s.ripe()->spn, StreamSeq{0xffffffff});
  s.drop_front_held();
  EXPECT_EQ(s.ripe()->spn, StreamSeq{1});
  s.drop_front_held();
  EXPECT_EQ(s.ripe(), nullptr);
  EXPECT_TRUE(s.holds_any());
  s.clear_held();
  EXPECT_FALSE(s.holds_any());
}

// [MR-6.6.1] [MR-6.6.2]
TEST(RecvStream, fail__lowest_and_from_there_on) {
  RecvStream s;
  s.start(params(0xfffffff0), windows());
  EXPECT_FALSE(s.refuses(StreamSeq{3}));
  s.fail(StreamSeq{3}, wire::NackReason::kBounds);
  s.fail(StreamSeq{4}, wire::NackReason::kLength);
  EXPECT_EQ(s.fail_reason(), wire::NackReason::kBounds);
  s.fail(StreamSeq{0xfffffff4}, wire::NackReason::kBadKey);
  EXPECT_EQ(s.fail_spn(), StreamSeq{0xfffffff4});
  EXPECT_EQ(s.fail_reason(), wire::NackReason::kBadKey);
  EXPECT_FALSE(s.refuses(StreamSeq{0xfffffff3}));
  EXPECT_TRUE(s.refuses(StreamSeq{0xfffffff4}));
}

// [MR-6.7.3]
TEST(RecvStream, stop__refuses_from_the_cumulative_point_on) {
  RecvStream s;
  s.start(params(10), windows());
  arrive(s, StreamSeq{12});
  arrive(s, StreamSeq{10});
  s.advance();
  s.stop();
  EXPECT_TRUE(s.stopped());
  EXPECT_EQ(s.classify(StreamSeq{10}), RecvStream::Window::kDuplicate);
  EXPECT_TRUE(s.refuses(StreamSeq{11}));
  EXPECT_EQ(s.fail_reason(), wire::NackReason::kBadStream);
}

// Bits only while something arrived ahead; without any only the next in order is taken.
TEST(RecvStream, window__from_the_pool) {
  WindowPool pool(1, 64);
  RecvStream a, b;
  a.start(params(0), pool);
  b.start(params(0), pool);
  arrive(a, StreamSeq{0});
  EXPECT_TRUE(a.advance());
  EXPECT_EQ(pool.used(), 0U);
  arrive(a, StreamSeq{2});
  EXPECT_EQ(pool.used(), 1U);
  EXPECT_FALSE(b.can_mark(StreamSeq{1}));
  EXPECT_EQ(b.classify(StreamSeq{1}), RecvStream::Window::kNew);
  arrive(b, StreamSeq{0});
  EXPECT_TRUE(b.advance());
  arrive(a, StreamSeq{1});
  EXPECT_TRUE(a.advance());
  EXPECT_EQ(a.cum(), StreamSeq{3});
  EXPECT_EQ(pool.used(), 0U);
  arrive(b, StreamSeq{2});
  EXPECT_EQ(b.classify(StreamSeq{3}), RecvStream::Window::kNew) << "left clean";
  b.release();
  EXPECT_EQ(pool.used(), 0U);
  EXPECT_TRUE(a.can_mark(StreamSeq{5}));
  EXPECT_EQ(a.classify(StreamSeq{66}), RecvStream::Window::kNew) << "left clean";
}

}  // namespace
}  // namespace metaroce
