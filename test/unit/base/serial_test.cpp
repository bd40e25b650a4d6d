#include "base/serial.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "support/seed.h"

namespace metaroce {
namespace {

TEST(Serial, compares_across_the_wrap) {
  const PathSeq a{0xfffffffe}, b{3};
  EXPECT_TRUE(a < b);
  EXPECT_TRUE(a <= b);
  EXPECT_TRUE(b > a);
  EXPECT_TRUE(b >= a);
  EXPECT_FALSE(b < a);
  EXPECT_EQ(b - a, 5);
  EXPECT_EQ(a - b, -5);
  EXPECT_EQ(serial_max(a, b), b);
  EXPECT_EQ(serial_max(b, a), b);
}

TEST(Serial, equal_is_neither_before_nor_after) {
  const PathSeq a{0x80000000};
  EXPECT_FALSE(a < a);
  EXPECT_FALSE(a > a);
  EXPECT_TRUE(a <= a && a >= a && a == a);
  EXPECT_EQ(a - a, 0);
}

TEST(Serial, steps_wrap) {
  PathSeq a{0xffffffff};
  EXPECT_EQ(a + 1U, PathSeq{0});
  EXPECT_EQ(PathSeq{0} - 1U, PathSeq{0xffffffff});
  ++a;
  EXPECT_EQ(a, PathSeq{0});
}

// The definition: for any start and any distance below 2^31, start + distance is ahead by exactly
// that distance.
TEST(Serial, distance__any_start) {
  const test::Seed seed(1);
  SCOPED_TRACE(seed.replay());
  Rng rng(seed.value());
  const std::uint32_t edges[] = {0, 1, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t start =
        (i & 1) != 0 ? edges[rng.below(7)] : static_cast<std::uint32_t>(rng.next());
    const auto d = static_cast<std::uint32_t>(rng.next() >> (33 + rng.below(31)));  // < 2^31
    const StreamSeq a{start}, b = a + d;
    ASSERT_EQ(b - a, static_cast<std::int32_t>(d)) << start << " + " << d;
    ASSERT_EQ(a < b, d != 0) << start << " + " << d;
    ASSERT_EQ(b > a, d != 0) << start << " + " << d;
    ASSERT_FALSE(b < a) << start << " + " << d;
    ASSERT_EQ(b - d, a);
    ASSERT_EQ(serial_max(a, b), b);
  }
}

TEST(Serial, wire_time__64_ns_units_modulo_2_32) {
  EXPECT_EQ(to_wire_time(0), WireTime{0});
  EXPECT_EQ(to_wire_time(63), WireTime{0});
  EXPECT_EQ(to_wire_time(64), WireTime{1});
  const std::int64_t wrap = std::int64_t{64} << 32;
  EXPECT_EQ(to_wire_time(wrap + 128), WireTime{2});
  EXPECT_EQ(to_wire_time(wrap + 64) - to_wire_time(wrap - 64), 2);
}

}  // namespace
}  // namespace metaroce
