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
      const Picos limit = rng.below(4) == 0 ? q.now() + rng.below(1U << 20) : kNever;
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
