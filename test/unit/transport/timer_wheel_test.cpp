// The wheel against a map of deadlines: never early, at most one tick late (of the poll that could
// have seen it), exactly once.
#include "transport/timer_role.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "transport/group_queues.h"

namespace metaroce {
namespace {

constexpr Nanos kTick = Nanos{1} << TimerWheel::kTickShift;

TEST(TimerWheel, poll__agrees_with_a_map) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    constexpr std::uint32_t kIds = 200;
    TimerWheel wheel(kIds);
    std::map<std::uint32_t, Nanos> model;
    Nanos now = static_cast<Nanos>(rng.next() >> 8);
    unsigned fired = 0;
    for (int step = 0; step < 4000; ++step) {
      for (std::uint32_t n = rng.below(4); n != 0; --n) {
        const std::uint32_t id = rng.below(kIds);
        if (rng.below(8) == 0) {
          ASSERT_TRUE(wheel.arm(id, kNever, now));
          model.erase(id);
          continue;
        }
        // In the past, close, within a round, many rounds away.
        constexpr Nanos kSpans[] = {kTick, 20 * kTick, TimerWheel::kSlots * kTick,
                                    5 * TimerWheel::kSlots * kTick};
        const Nanos span = kSpans[rng.below(4)];
        const Nanos deadline =
            now - kTick + static_cast<Nanos>(rng.next() % static_cast<std::uint64_t>(span));
        ASSERT_TRUE(wheel.arm(id, deadline, now));
        model[id] = deadline;
      }
      // A busy loop, a slow one, a host that slept for more than a round.
      constexpr Nanos kSteps[] = {kTick / 10, 3 * kTick, 100 * kTick,
                                  3 * TimerWheel::kSlots * kTick};
      now += static_cast<Nanos>(rng.next() %
                                static_cast<std::uint64_t>(
                                    kSteps[rng.below(100) < 97 ? rng.below(2) : 2 + rng.below(2)]));
      wheel.poll(now, [&](std::uint32_t id) {
        EXPECT_EQ(model.count(id), 1U) << "fired without being armed";
        EXPECT_LE(model[id], now) << "early";
        model.erase(id);
        ++fired;
        return true;
      });
      for (const auto& [id, deadline] : model)
        ASSERT_GT(deadline, now - 2 * kTick) << "late: " << id;
      ASSERT_EQ(wheel.armed(), model.size());
    }
    EXPECT_GT(fired, 500U);
  }
}

TEST(TimerWheel, arm__replaces_and_cancels) {
  TimerWheel wheel(2);
  EXPECT_FALSE(wheel.arm(2, 10, 0));
  EXPECT_TRUE(wheel.arm(0, 100 * kTick, 0));
  EXPECT_TRUE(wheel.arm(0, 5 * kTick, 0));
  EXPECT_EQ(wheel.armed(), 1U);
  unsigned fired = 0;
  const auto count = [&](std::uint32_t) {
    ++fired;
    return true;
  };
  wheel.poll(5 * kTick - 1, count);
  EXPECT_EQ(fired, 0U);
  wheel.poll(6 * kTick, count);
  EXPECT_EQ(fired, 1U);
  wheel.poll(200 * kTick, count);
  EXPECT_EQ(fired, 1U);
  wheel.arm(1, 300 * kTick, 200 * kTick);
  wheel.arm(1, kNever, 200 * kTick);
  EXPECT_EQ(wheel.armed(), 0U);
  wheel.poll(2000 * kTick, count);
  EXPECT_EQ(fired, 1U);
}

// A receiver that has no room for more stops the pass; nothing is lost.
TEST(TimerWheel, poll__stops_and_keeps_the_rest) {
  TimerWheel wheel(10);
  for (std::uint32_t id = 0; id < 10; ++id) wheel.arm(id, kTick, 0);
  std::vector<std::uint32_t> fired;
  for (int pass = 0; pass < 10; ++pass) {
    wheel.poll(3 * kTick, [&](std::uint32_t id) {
      if (fired.size() % 2 == 1 && fired.size() == static_cast<std::size_t>(pass) * 2 + 1)
        return false;
      if (fired.size() > static_cast<std::size_t>(pass) * 2) return false;
      fired.push_back(id);
      return true;
    });
    wheel.poll(3 * kTick, [&](std::uint32_t) { return false; });
  }
  wheel.poll(3 * kTick, [&](std::uint32_t id) {
    fired.push_back(id);
    return true;
  });
  std::sort(fired.begin(), fired.end());
  EXPECT_EQ(fired, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

// The same through the role's queues, both of size 1.
TEST(TimerRole, poll__queues_of_one) {
  using Queues = GroupQueues<SpscRing>;
  QueueSizes sizes;
  sizes.timers = 1;
  Queues q(sizes);
  TimerRole<Queues> role(4, q);
  Nanos now = 1000;
  for (std::uint32_t id = 0; id < 4; ++id) {
    ASSERT_TRUE(q.tx_to_timer.push(TimerArm{id, now + kTick}));
    role.poll(now);
  }
  std::vector<std::uint32_t> fired;
  for (int pass = 0; pass < 8; ++pass) {
    now += kTick;
    role.poll(now);
    TimerFired f;
    while (q.timer_to_tx.pop(f)) fired.push_back(f.id);
  }
  std::sort(fired.begin(), fired.end());
  EXPECT_EQ(fired, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(role.fired(), 4U);
}

}  // namespace
}  // namespace metaroce
