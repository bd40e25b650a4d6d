// The ring between two honest threads, and with a foreign side that lies.
#include "base/ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "support/seed.h"

namespace metaroce {
namespace {

struct Entry {
  std::uint64_t number = 0;
  std::uint64_t check = 0;
  std::uint32_t pad[5] = {};  // 40 bytes: slots that straddle cache lines
};
Entry entry(std::uint64_t n) { return Entry{n, mix64(n), {}}; }

// Header and slots as they lie in shared memory, with guards that must stay as they are.
template <std::uint32_t kCapacity>
struct Shared {
  std::uint64_t guard0 = 0x1111;
  RingHeader header;
  std::uint64_t slots[kCapacity] = {};
  std::uint64_t guard1 = 0x2222;

  void start_at(std::uint32_t cursor) {
    header.head = cursor;
    header.tail = cursor;
  }
  RingProducer<std::uint64_t> producer() { return {&header, slots, kCapacity}; }
  RingConsumer<std::uint64_t> consumer() { return {&header, slots, kCapacity}; }
  [[nodiscard]] bool guards_intact() const { return guard0 == 0x1111 && guard1 == 0x2222; }
};

TEST(Ring, all_of_the_capacity_is_usable) {
  SpscRing<std::uint32_t> r(4);
  EXPECT_TRUE(r.empty());
  EXPECT_EQ(r.room(), 4U);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(r.push(i));
  EXPECT_FALSE(r.push(9));
  EXPECT_EQ(r.room(), 0U);
  std::uint32_t v = 99;
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(r.peek(v));
    EXPECT_EQ(v, i);
    EXPECT_TRUE(r.pop(v));
    EXPECT_EQ(v, i);
  }
  EXPECT_FALSE(r.pop(v));
  EXPECT_TRUE(r.empty());
  EXPECT_EQ(r.room(5), 4U);  // more than there can be: what there is
}

TEST(Ring, capacity__other_than_a_power_of_two_is_rounded_down) {
  SpscRing<std::uint32_t> six(6);
  EXPECT_EQ(six.producer().capacity(), 4U);
  EXPECT_EQ(six.consumer().capacity(), 4U);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(six.push(i));
  EXPECT_FALSE(six.push(4));
  SpscRing<std::uint32_t> none(0);
  std::uint32_t v;
  EXPECT_FALSE(none.push(1));
  EXPECT_FALSE(none.pop(v));
}

TEST(Ring, unattached_ends_say_so) {
  RingProducer<int> p;
  RingConsumer<int> c;
  EXPECT_FALSE(p.valid());
  EXPECT_FALSE(c.valid());
  EXPECT_EQ(ring_bytes<std::uint64_t>(16), 128U + 128U);
}

TEST(Ring, stage__invisible_until_published) {
  Shared<8> s;
  auto p = s.producer();
  auto c = s.consumer();
  ASSERT_GE(p.room(3), 3U);
  for (std::uint64_t i = 0; i < 3; ++i) p.stage(i);
  EXPECT_EQ(c.available(), 0U);
  EXPECT_EQ(p.room(8), 5U);  // staged entries count as used
  p.publish();
  EXPECT_EQ(c.available(), 3U);
  std::uint64_t v = 0;
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(c.pop(v));
    EXPECT_EQ(v, i);
  }
  EXPECT_EQ(p.room(8), 8U);
}

TEST(Ring, drop__of_an_empty_ring_does_nothing) {
  Shared<8> s;
  auto c = s.consumer();
  c.drop();
  EXPECT_EQ(s.header.tail.load(), 0U);
  EXPECT_EQ(c.available(), 0U);
  EXPECT_FALSE(c.corrupt());
}

TEST(Ring, random_operations_as_a_queue__across_the_wrap) {
  const test::Seed seed(4);
  SCOPED_TRACE(seed.replay());
  Rng rng(seed.value());
  for (const std::uint32_t start : {0U, 0xfffffff8U, 0x7ffffff0U}) {
    Shared<16> s;
    s.start_at(start);
    auto p = s.producer();
    auto c = s.consumer();
    std::deque<std::uint64_t> published, staged;
    std::uint64_t next = 0;
    for (int step = 0; step < 4000; ++step) {
      switch (rng.below(4)) {
        case 0: {
          const std::uint32_t n = rng.below(18);
          const std::uint32_t room = p.room(n);
          ASSERT_LE(room, 16 - published.size() - staged.size());
          if (room < n) {
            ASSERT_EQ(room, 16 - published.size() - staged.size());
          }
          for (std::uint32_t i = 0; i < std::min(n, room); ++i) {
            p.stage(next);
            staged.push_back(next++);
          }
          break;
        }
        case 1:
          p.publish();
          published.insert(published.end(), staged.begin(), staged.end());
          staged.clear();
          break;
        default: {
          std::uint64_t v = 0;
          const bool got = c.pop(v);
          ASSERT_EQ(got, !published.empty());
          if (got) {
            ASSERT_EQ(v, published.front());
            published.pop_front();
          }
        }
      }
    }
    EXPECT_FALSE(p.corrupt());
    EXPECT_FALSE(c.corrupt());
    EXPECT_TRUE(s.guards_intact());
  }
}

TEST(Ring, two_threads__everything_once_and_in_order) {
  constexpr std::uint64_t kCount = 200000;
  SpscRing<Entry> ring(64);
  std::thread producer([&] {
    auto& p = ring.producer();
    Rng rng(5);
    for (std::uint64_t n = 0; n < kCount;) {
      const std::uint32_t want = 1 + rng.below(16);
      const std::uint32_t room = std::min(p.room(want), want);
      if (room == 0) std::this_thread::yield();
      for (std::uint32_t i = 0; i < room && n < kCount; ++i) p.stage(entry(n++));
      p.publish();
    }
  });
  std::uint64_t expected = 0, wrong = 0;
  Entry e;
  while (expected < kCount) {
    if (!ring.consumer().pop(e)) {
      std::this_thread::yield();
      continue;
    }
    if (e.number != expected || e.check != mix64(expected)) ++wrong;
    ++expected;
  }
  producer.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_TRUE(ring.empty());
}

// ---- A foreign cursor that lies ----------------------------------------------------------------

TEST(RingHostile, consumer__head_beyond_the_capacity) {
  for (const std::uint32_t lie : {9U, 16U, 0x7fffffffU, 0x80000000U, 0xffffffffU /* backwards */}) {
    Shared<8> s;
    auto c = s.consumer();
    s.header.head = lie;
    std::uint64_t v = 0;
    EXPECT_FALSE(c.pop(v)) << lie;
    EXPECT_TRUE(c.corrupt()) << lie;
    s.header.head = 1;  // too late to be believed
    EXPECT_FALSE(c.pop(v)) << lie;
    EXPECT_EQ(c.available(), 0U) << lie;
    EXPECT_EQ(s.header.tail.load(), 0U) << lie;
  }
}

TEST(RingHostile, consumer__head_exactly_at_the_capacity_is_honest) {
  Shared<8> s;
  auto c = s.consumer();
  s.header.head = 8;
  EXPECT_EQ(c.available(), 8U);
  EXPECT_FALSE(c.corrupt());
}

TEST(RingHostile, producer__tail_past_the_head) {
  for (const std::uint32_t lie : {9U, 10U, 0x80000000U, 0xffffffffU /* behind where it was */}) {
    Shared<8> s;
    auto p = s.producer();
    for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(p.push(i));
    s.header.tail = lie;
    EXPECT_EQ(p.room(), 0U) << lie;
    EXPECT_TRUE(p.corrupt()) << lie;
    s.header.tail = 8;
    EXPECT_FALSE(p.push(99)) << lie;
    EXPECT_EQ(s.header.head.load(), 8U) << lie;
  }
}

TEST(RingHostile, producer__tail_moves_back) {
  Shared<8> s;
  auto p = s.producer();
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(p.push(i));
  s.header.tail = 5;
  EXPECT_EQ(p.room(), 5U);
  s.header.tail = 4;
  EXPECT_EQ(p.room(8), 0U);
  EXPECT_TRUE(p.corrupt());
}

TEST(RingHostile, producer__tail_lies_before_the_first_look) {
  Shared<8> s;
  s.header.tail = 100;
  auto p = s.producer();
  EXPECT_TRUE(p.corrupt());
  EXPECT_EQ(p.room(), 0U);
  EXPECT_FALSE(p.push(1));
}

// What was reserved with room() may still be staged after a lie was seen: it stays in bounds.
TEST(RingHostile, producer__reserved_entries_stay_in_bounds) {
  Shared<8> s;
  auto p = s.producer();
  ASSERT_EQ(p.room(8), 8U);
  s.header.tail = 77;
  EXPECT_EQ(p.room(9), 0U);
  EXPECT_TRUE(p.corrupt());
  for (std::uint64_t i = 0; i < 20; ++i) p.stage(i);
  p.publish();
  EXPECT_TRUE(s.guards_intact());
}

// Both cursors and the slots are scribbled over at random between operations.
TEST(RingHostile, random_cursors__never_out_of_bounds_never_more_than_the_capacity) {
  const test::Seed seed(6);
  SCOPED_TRACE(seed.replay());
  Rng rng(seed.value());
  int corrupt = 0;
  for (int round = 0; round < 20000; ++round) {
    Shared<8> s;
    s.start_at(rng.below(2) != 0 ? 0xfffffffcU : 0U);
    auto p = s.producer();
    auto c = s.consumer();
    for (int step = 0; step < 12; ++step) {
      auto& cursor = rng.below(2) != 0 ? s.header.head : s.header.tail;
      cursor =
          rng.below(2) != 0 ? cursor + rng.below(12) - 4 : static_cast<std::uint32_t>(rng.next());
      s.slots[rng.below(8)] = rng.next();
      ASSERT_LE(p.room(1 + rng.below(10)), 8U);
      p.push(rng.next());
      ASSERT_LE(c.available(), 8U);
      std::uint64_t v = 0;
      c.pop(v);
    }
    ASSERT_TRUE(s.guards_intact());
    corrupt += p.corrupt() || c.corrupt() ? 1 : 0;
  }
  EXPECT_GT(corrupt, 10000);  // the lies were noticed
}

}  // namespace
}  // namespace metaroce
