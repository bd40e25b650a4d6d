#include "transport/rtt.h"

#include <gtest/gtest.h>

namespace metaroce {
namespace {

// [MR-7.2.3]
TEST(Rtt, sample__first_then_smoothed) {
  RttEstimator r;
  EXPECT_FALSE(r.valid());
  r.sample(8000);
  EXPECT_TRUE(r.valid());
  EXPECT_EQ(r.srtt(), 8000);
  // rttvar = 4000: srtt + 4 * rttvar + ack delay.
  EXPECT_EQ(r.probe_timeout(0, 0, 0), 8000 + 16000);
  r.sample(16000);
  EXPECT_EQ(r.srtt(), 9000);                             // + 8000 / 8
  EXPECT_EQ(r.probe_timeout(0, 0, 0), 9000 + 4 * 5000);  // 4000 + (8000 - 4000) / 4
  r.sample(1000);
  EXPECT_EQ(r.srtt(), 8000);
  EXPECT_EQ(r.probe_timeout(0, 0, 0), 8000 + 4 * 5750);
}

TEST(Rtt, sample__converges) {
  RttEstimator r;
  r.sample(1000000);
  for (int i = 0; i < 200; ++i) r.sample(10000);
  EXPECT_NEAR(static_cast<double>(r.srtt()), 10000, 10);
  EXPECT_LT(r.probe_timeout(0, 0, 0), 15100);  // half a round trip besides
}

// [MR-7.4.1] [MR-7.4.2] [MR-7.2.4]
TEST(Rtt, probe_timeout__floor_granularity_and_fallback) {
  RttEstimator r;
  EXPECT_EQ(r.probe_timeout(0, 25, 100), 2 * 100 + 25);
  EXPECT_EQ(r.probe_timeout(200000, 25, 100), 200000);
  for (int i = 0; i < 100; ++i) r.sample(5000);
  EXPECT_EQ(r.probe_timeout(0, 25, 100),
            5000 + 5000 / 2 + 25);  // no variation: the timer's grain
  EXPECT_EQ(r.probe_timeout(200 * kMicrosecond, 25, 100), 200 * kMicrosecond);
}

// [MR-8.4.15] A queue does not raise it; a longer route does, when two windows have passed.
TEST(LowestRtt, forgets_after_two_windows) {
  LowestRtt r;
  EXPECT_EQ(r.value(), kNever);
  Nanos now = kMillisecond;
  r.sample(8000, now);
  for (int k = 0; k < 90; ++k) r.sample(20000, now += kMillisecond);
  EXPECT_EQ(r.value(), 8000);
  for (int k = 0; k < 90; ++k) r.sample(20000, now += kMillisecond);
  EXPECT_EQ(r.value(), 8000);
  for (int k = 0; k < 90; ++k) r.sample(20000, now += kMillisecond);
  EXPECT_EQ(r.value(), 20000);
  r.sample(9000, now += kSecond);
  EXPECT_EQ(r.value(), 9000);
}

// [MR-8.4.17]
TEST(MeanTrip, value__bytes_over_the_rate_that_they_stand_for) {
  MeanTrip m(10 * kMillisecond);
  m.add(10'000'000, 10 * kMillisecond);
  EXPECT_EQ(m.value(), 10 * kMillisecond);
  m.add(30'000'000, 30 * kMillisecond);  // the same rate
  EXPECT_NEAR(static_cast<double>(m.value()), 20e6, 1e4);
  MeanTrip one(10 * kMillisecond);
  one.add(4096, 30 * kMillisecond);
  EXPECT_NEAR(static_cast<double>(one.value()), 30e6, 3e6);
}

// [MR-8.4.17] A queue is not a longer way.
TEST(MeanTrip, value__small_differences_do_not_count) {
  MeanTrip m(10 * kMicrosecond);
  m.add(100'000, 110 * kMicrosecond);
  m.add(100'000, kNever);  // no sample yet
  EXPECT_EQ(m.value(), 10 * kMicrosecond);
  m.add(100'000, 120 * kMicrosecond);
  EXPECT_GT(m.value(), 10 * kMicrosecond);
  MeanTrip far(10 * kMillisecond);
  far.add(100'000, 12 * kMillisecond);
  EXPECT_EQ(far.value(), 10 * kMillisecond);
}

TEST(MeanTrip, value__nothing_in_flight) {
  MeanTrip m(10 * kMicrosecond);
  m.add(0, kMillisecond);
  EXPECT_EQ(m.value(), 10 * kMicrosecond);
}

TEST(PathLowestRtt, value__of_two_windows) {
  PathLowestRtt r;
  EXPECT_EQ(r.value(), kNever);
  r.sample(5000);
  r.sample(7000);
  EXPECT_EQ(r.value(), 5000);
  r.turn();
  r.sample(6000);
  EXPECT_EQ(r.value(), 5000);
  r.turn();
  EXPECT_EQ(r.value(), 6000);
  r.turn();
  EXPECT_EQ(r.value(), kNever);
}

}  // namespace
}  // namespace metaroce
