#include "transport/host_limit.h"

#include <gtest/gtest.h>

namespace metaroce {
namespace {

constexpr Mbps kLine = 400000;

// A queue in front of a host that takes `service`; senders obey the limit. One step is an interval.
struct Rig {
  HostLimit limit;
  std::int64_t queue = 0;  // Mb/s times interval
  void step(Mbps offered, Mbps service) {
    queue += std::min(offered, limit.value());
    const std::int64_t taken = std::min<std::int64_t>(queue, service);
    queue -= taken;
    limit.interval(queue > 0, static_cast<Mbps>(taken), kLine);
  }
};

// [MR-8.4.21]
TEST(HostLimit, none__while_the_host_keeps_up) {
  Rig r;
  for (int i = 0; i < 100; ++i) r.step(kLine, kLine);
  EXPECT_EQ(r.limit.value(), HostLimit::kNone);
}

TEST(HostLimit, slow_host__short_queue_and_nearly_all_of_its_rate) {
  Rig r;
  for (int i = 0; i < 200; ++i) r.step(kLine, 260000);
  std::int64_t taken = 0, deepest = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t before = r.queue + std::min(kLine, r.limit.value());
    r.step(kLine, 260000);
    taken += before - r.queue;
    deepest = std::max(deepest, r.queue);
  }
  EXPECT_GT(taken / 1000, 260000 * 97 / 100);
  EXPECT_LT(deepest, 260000 / 4) << "a quarter of an interval";
}

TEST(HostLimit, ends__when_pressure_does_not_return) {
  Rig r;
  for (int i = 0; i < 20; ++i) r.step(kLine, 100000);
  ASSERT_LT(r.limit.value(), 120000U);
  int steps = 0;
  for (; steps < 100 && r.limit.value() != HostLimit::kNone; ++steps) r.step(kLine, kLine);
  EXPECT_LT(steps, 40);
}

// A thread that lost its core for most of an interval is not a host of that speed.
TEST(HostLimit, one_slow_interval_is_not_believed) {
  HostLimit l;
  l.interval(false, 200000, kLine);
  l.interval(true, 20000, kLine);
  EXPECT_GT(l.value(), 180000U);
}

// However slow: never 0, and no overflow at the ends.
TEST(HostLimit, bounds) {
  HostLimit l;
  for (int i = 0; i < 200; ++i) l.interval(true, 0, kLine);
  EXPECT_GT(l.value(), kLine / 512);
  l.interval(true, UINT32_MAX, kLine);
  EXPECT_EQ(l.value(), HostLimit::kNone);
}

}  // namespace
}  // namespace metaroce
