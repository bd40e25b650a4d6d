#include "base/serial.h"

#include <gtest/gtest.h>

namespace metaroce {

TEST(Serial, compares_across_the_wrap) {
  const PathSeq a{0xfffffffe}, b{3};
  EXPECT_TRUE(a < b);
  EXPECT_EQ(b - a, 5);
  EXPECT_EQ(serial_max(a, b), b);
}

}  // namespace metaroce
