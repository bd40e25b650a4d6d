// Sizes of what exists once per packet, path or stream. Growth is a reviewed change: the number
// here is what the change costs, times the number in the comment.
#include <gtest/gtest.h>

#include "support/host.h"

namespace metaroce {
namespace {

using test::Host;

TEST(Sizes, per_packet) {
  EXPECT_EQ(sizeof(TxRecord), 16U);    // per transmission in flight
  EXPECT_EQ(sizeof(TxBlock), 4096U);   // per path with something in flight
  EXPECT_EQ(sizeof(ResendNode), 16U);  // per packet that waits to be sent again
  EXPECT_LE(sizeof(RxToTx), 96U);      // per path block of an ACK
  EXPECT_LE(sizeof(HeldPacket), 24U);
  EXPECT_EQ(sizeof(TimerArm), 16U);
}

TEST(Sizes, per_work_request) {
  EXPECT_EQ(sizeof(WorkRequest), 64U);
  EXPECT_EQ(sizeof(Completion), 32U);
  EXPECT_LE(sizeof(WorkState), 64U);
  EXPECT_LE(sizeof(RecvSlot), 48U);
}

TEST(Sizes, per_path) {
  EXPECT_LE(sizeof(RxPath), 48U);
  EXPECT_LE(sizeof(TxPath<EcnAimd>), 288U);
  EXPECT_LE(sizeof(PathAck), 80U);
}

// 4,000 connections x 8 streams: state without bitmaps and rings, which the window and depths set.
TEST(Sizes, per_connection_and_stream) {
  EXPECT_LE(sizeof(TxConn<EcnAimd>), 2048U);
  EXPECT_LE(sizeof(RxConn), 2048U);
  EXPECT_LE(sizeof(SendStream), 384U);
  EXPECT_LE(sizeof(RecvStream), 320U);
}

}  // namespace
}  // namespace metaroce
