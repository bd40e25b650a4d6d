#include "fabric/event_queue.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"

namespace metaroce::fabric {
namespace {

TEST(EventQueue, empty) {
  EventQueue q;
  Event e{};
  EXPECT_EQ(q.next(), kNever);
  EXPECT_FALSE(q.pop(e, kNever));
  q.advance_to(5000);
  EXPECT_EQ(q.now(), 5000);
}

TEST(EventQueue, equal_times_in_insertion_order_across_the_horizon) {
  EventQueue q;
  const Picos at = 100'000'000;
  q.schedule(at, 1, 0);  // far away
  q.schedule(at, 1, 1);
  q.schedule(at - 1'000'000, 2, 0);
  Event e{};
  ASSERT_TRUE(q.pop(e, kNever));
  EXPECT_EQ(e.kind, 2);
  q.schedule(at, 1, 2);  // near by now
  for (std::uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(q.pop(e, kNever));
    EXPECT_EQ(e.at, at);
    EXPECT_EQ(e.a, i);
  }
}

// The heap gives a slot up as soon as the ring can hold it, whatever the size of the ring.
TEST(EventQueue, insertion_order_at_the_edge_of_the_ring) {
  for (Picos at = 512; at <= 512 << 16; at *= 2) {
    EventQueue q;
    q.schedule(at, 1, 0);
    q.schedule(512, 2, 0);
    q.schedule(1024, 3, 0);
    Event e{};
    while (q.pop(e, 1024)) {
      if (e.kind != 1) q.schedule(at, 1, e.kind);
    }
    std::uint32_t last = 0;
    while (q.pop(e, kNever)) {
      EXPECT_GE(e.a, last) << at;
      last = e.a;
    }
    EXPECT_EQ(last == 0, at <= 1024) << at;
  }
}

TEST(EventQueue, past_is_now) {
  EventQueue q;
  q.advance_to(1000);
  q.schedule(10, 7, 8, 9);
  Event e{};
  ASSERT_TRUE(q.pop(e, 1000));
  EXPECT_EQ(e.at, 1000);
  EXPECT_EQ(e.kind, 7);
  EXPECT_EQ(e.a, 8U);
  EXPECT_EQ(e.b, 9U);
}

TEST(EventQueue, limit_and_advance_never_skip_an_event) {
  EventQueue q;
  q.schedule(2000, 1, 0);
  Event e{};
  EXPECT_FALSE(q.pop(e, 1999));
  EXPECT_EQ(q.now(), 0);
  q.advance_to(9000);
  EXPECT_EQ(q.now(), 2000);
  EXPECT_TRUE(q.pop(e, 2000));
}

// A slot that was looked into and left gives way to what is scheduled before it.
TEST(EventQueue, earlier_slot_after_a_look_ahead) {
  EventQueue q;
  for (std::uint32_t i = 0; i < 3; ++i) q.schedule(2000 + i, 1, i);
  Event e{};
  EXPECT_FALSE(q.pop(e, 1999));  // in the same slot as 2,000
  q.schedule(100, 2, 0);
  q.schedule(2001, 1, 3);
  q.schedule(2000, 1, 4);
  EXPECT_EQ(q.next(), 100);
  for (const std::uint32_t a : {0U, 0U, 4U, 1U, 3U, 2U}) {
    ASSERT_TRUE(q.pop(e, kNever));
    EXPECT_EQ(e.a, a);
  }
  EXPECT_EQ(q.size(), 0U);
}

// Against a multimap, which keeps insertion order among equal keys.
void compare(std::uint64_t seed, std::uint32_t spread) {
  Rng rng(seed);
  EventQueue q;
  std::multimap<Picos, std::uint32_t> model;
  std::uint32_t id = 0;
  for (int step = 0; step < 60'000; ++step) {
    if (rng.below(100) < (step < 40'000 ? 52U : 30U)) {
      Picos at = q.now() + rng.below(1U << rng.below(spread));
      if (rng.below(20) == 0) at -= 1000;
      const auto b = static_cast<std::uint32_t>(rng.next());
      q.schedule(at, static_cast<std::uint8_t>(id), id, b);
      model.emplace(std::max(at, q.now()), id++);
    } else {
      const Picos limit = rng.below(4) == 0 ? q.now() + rng.below(1U << rng.below(21)) : kNever;
      Event e{};
      const bool popped = q.pop(e, limit);
      ASSERT_EQ(popped, !model.empty() && model.begin()->first <= limit);
      if (popped) {
        ASSERT_EQ(e.at, model.begin()->first);
        ASSERT_EQ(e.a, model.begin()->second);
        ASSERT_EQ(e.kind, static_cast<std::uint8_t>(e.a));
        ASSERT_EQ(q.now(), e.at);
        model.erase(model.begin());
      } else if (rng.below(2) == 0) {
        q.advance_to(limit == kNever ? q.now() + 12'345 : limit);
      }
    }
    ASSERT_EQ(q.next(), model.empty() ? kNever : model.begin()->first);
    ASSERT_EQ(q.size(), model.size());
  }
}

TEST(EventQueue, property__same_as_a_multimap) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    compare(seed, 12);  // crowded slots
    compare(seed, 24);  // the ring and just behind it
    compare(seed, 31);  // mostly the heap
  }
}

}  // namespace
}  // namespace metaroce::fabric
