#include "transport/delay_guard.h"

#include <gtest/gtest.h>

namespace metaroce {
namespace {

constexpr Nanos kUs = kMicrosecond;

class DelayGuardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    guard_.start(kPaths);
    for (std::uint32_t i = 0; i < DelayGuard::kFirstTrust * kPaths; ++i) round(10 * kUs);
  }
  // A round of one path with two samples, of which `lowest` is the lower one.
  DelayGuard::Verdict round(Nanos lowest, Nanos deviation = 0, Nanos allowance = 100 * kUs) {
    guard_.sample(round_, lowest, 10 * kUs, deviation, allowance);
    guard_.sample(round_, lowest + 5000 * kUs, 10 * kUs, deviation, allowance);
    return guard_.end_round(round_, kWindow, kTarget, kPaths);
  }
  static constexpr std::uint32_t kPaths = 4;
  static constexpr Bytes kWindow = 1'000'000, kTarget = 640'000;
  DelayGuard guard_;
  DelayGuard::Round round_;
};

// [MR-8.3.10]
TEST_F(DelayGuardTest, end_round__a_queue_below_the_allowance_is_nobodys_business) {
  EXPECT_EQ(round(110 * kUs).cut, 0);
  EXPECT_FALSE(guard_.careful());
}

// [MR-8.3.10] What fits into the way without the queue, at least half.
TEST_F(DelayGuardTest, end_round__a_standing_queue_cuts) {
  guard_.sample(round_, 1600 * kUs, 1000 * kUs, 0, 100 * kUs);
  EXPECT_EQ(guard_.end_round(round_, kWindow, kTarget, kPaths).cut, kWindow * 6 / 16);
  EXPECT_TRUE(guard_.careful());
  round(10 * kUs);  // rest
  round(10 * kUs);
  EXPECT_EQ(round(200 * kUs).cut, kWindow / 2);
}

// [MR-8.3.10] One sample without the queue, and it does not stand.
TEST_F(DelayGuardTest, end_round__the_lowest_sample_counts) {
  guard_.sample(round_, 9000 * kUs, 10 * kUs, 0, 100 * kUs);
  guard_.sample(round_, 20 * kUs, 10 * kUs, 0, 100 * kUs);
  EXPECT_EQ(guard_.end_round(round_, kWindow, kTarget, kPaths).cut, 0);
  EXPECT_EQ(guard_.end_round(round_, kWindow, kTarget, kPaths).cut, 0) << "a round without samples";
}

// [MR-8.3.10] A round of rest after each; then down to a quarter of the allowance, three at most.
TEST_F(DelayGuardTest, end_round__drains) {
  EXPECT_NE(round(200 * kUs).cut, 0);
  EXPECT_EQ(round(200 * kUs).cut, 0) << "in flight at the cut";
  EXPECT_NE(round(80 * kUs).cut, 0) << "above a quarter";
  round(80 * kUs);
  EXPECT_NE(round(80 * kUs).cut, 0);
  round(80 * kUs);
  EXPECT_EQ(round(80 * kUs).cut, 0) << "the fourth";
  EXPECT_EQ(round(80 * kUs).cut, 0) << "within the allowance";
  EXPECT_NE(round(200 * kUs).cut, 0) << "and again";
}

// [MR-8.3.10] Hosts whose threads come and go are no queue.
TEST_F(DelayGuardTest, sample__deviation_widens_the_allowance) {
  EXPECT_EQ(round(200 * kUs, 60 * kUs).cut, 0);
  EXPECT_NE(round(260 * kUs, 60 * kUs).cut, 0);
}

TEST_F(DelayGuardTest, sample__off) {
  EXPECT_EQ(round(2000 * kUs, 0, 0).cut, 0);
  EXPECT_FALSE(guard_.careful());
}

// [MR-8.3.15]
TEST_F(DelayGuardTest, marked__silent_while_marks_come) {
  guard_.marked(kPaths);
  for (std::uint32_t i = 0; i < DelayGuard::kTrust * kPaths; ++i)
    ASSERT_EQ(round(1000 * kUs).cut, 0);
  EXPECT_NE(round(1000 * kUs).cut, 0);
}

TEST(DelayGuard, start__trusts_for_some_rounds) {
  DelayGuard guard;
  guard.start(1);
  DelayGuard::Round r;
  for (std::uint32_t i = 0; i < DelayGuard::kFirstTrust; ++i) {
    guard.sample(r, 1000 * kUs, 10 * kUs, 0, 100 * kUs);
    EXPECT_EQ(guard.end_round(r, 4096, 4096, 1).cut, 0);
  }
  guard.sample(r, 1000 * kUs, 10 * kUs, 0, 100 * kUs);
  EXPECT_EQ(guard.end_round(r, 4096, 4096, 1).cut, 2048);
}

// [MR-8.3.14] Steps that do not depend on the window, for long and not for ever.
TEST_F(DelayGuardTest, end_round__steps_after_a_cut) {
  EXPECT_EQ(round(10 * kUs).step, 0);
  round(200 * kUs);
  EXPECT_EQ(round(10 * kUs).step, kTarget / DelayGuard::kSteps / kPaths);
  for (std::uint32_t i = 0; i < DelayGuard::kCareful * kPaths; ++i) round(10 * kUs);
  EXPECT_FALSE(guard_.careful());
  EXPECT_EQ(round(10 * kUs).step, 0);
}

}  // namespace
}  // namespace metaroce
