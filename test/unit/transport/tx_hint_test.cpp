// What a sender believes of rate hints. [MR-8.4.6]
#include "transport/tx_hint.h"

#include <gtest/gtest.h>

namespace metaroce {
namespace {

constexpr Mbps kLine = 400000;

class TxHintTest : public ::testing::Test {
 protected:
  // Reports whether the total has to be computed again, and does it.
  bool ack(unsigned plane, Mbps rate, std::uint32_t sent, Nanos now, Nanos life = 1000) {
    PathAck a;
    a.rate_hint = rate;
    a.sent = WireTime{sent};
    const bool changed = hint.on_ack(plane, a, now, now + life);
    if (changed) hint.update(now, planes, kLine);
    return changed;
  }
  TxHint hint;
  unsigned planes = 1;
};

TEST_F(TxHintTest, none_at_first) {
  EXPECT_EQ(hint.total(), 0U);
  EXPECT_EQ(hint.next_expiry(), kNever);
  EXPECT_FALSE(ack(0, 0, 1, 10));
}

TEST_F(TxHintTest, newest_wins__across_the_wrap) {
  EXPECT_TRUE(ack(0, 5000, 0xfffffff0U, 10));
  EXPECT_TRUE(ack(0, 7000, 5, 11));
  EXPECT_FALSE(ack(0, 6000, 0xfffffff8U, 12));
  EXPECT_EQ(hint.total(), 7000U);
  EXPECT_FALSE(ack(0, 7000, 9, 13));  // says it again
}

TEST_F(TxHintTest, none__ends_the_one_before) {
  ack(0, 5000, 1, 10);
  EXPECT_TRUE(ack(0, 0, 2, 11));
  EXPECT_EQ(hint.total(), 0U);
  EXPECT_FALSE(ack(0, 5000, 1, 12));  // late: older than the none
}

TEST_F(TxHintTest, expires__unless_said_again) {
  ack(0, 5000, 1, 10);
  EXPECT_EQ(hint.next_expiry(), 1010);
  ack(0, 5000, 2, 500);
  hint.update(1010, planes, kLine);
  EXPECT_EQ(hint.total(), 5000U);
  EXPECT_EQ(hint.next_expiry(), 1500);
  hint.update(1500, planes, kLine);
  EXPECT_EQ(hint.total(), 0U);
  EXPECT_TRUE(ack(0, 4000, 1, 1600));  // after the expiry any order will do
}

TEST_F(TxHintTest, planes__sum_and_the_share_of_those_without) {
  planes = 4;
  ack(1, 20000, 1, 10);
  EXPECT_EQ(hint.total(), 20000U + 3 * kLine / 4);
  for (const unsigned p : {0U, 2U, 3U}) ack(p, 10000, 1, 10);
  EXPECT_EQ(hint.total(), 50000U);
  EXPECT_EQ(hint.plane(2), 10000U);
}

}  // namespace
}  // namespace metaroce
