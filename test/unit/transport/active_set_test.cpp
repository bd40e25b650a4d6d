// [MR-9.1.6]
#include "transport/active_set.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace metaroce {
namespace {

constexpr Bytes kPacket = 4096;

TEST(ActiveSet, choose__one_path_per_four_packets) {
  const ActiveSetRule r{kPacket, 4, 1, 256};
  EXPECT_EQ(r.choose(1, 0).paths, 2U);
  EXPECT_EQ(r.choose(64 * kPacket, 0).paths, 16U);
  EXPECT_EQ(r.choose(64 * kPacket + 1, 0).paths, 17U);
  EXPECT_EQ(r.choose(100000 * kPacket, 0).paths, 256U);
}

// Whole rounds over the planes: each plane has as many as the others.
TEST(ActiveSet, choose__multiples_of_the_planes) {
  const ActiveSetRule r{kPacket, 4, 3, 48};
  for (Bytes w = 1; w < 300 * kPacket; w += 1000) EXPECT_EQ(r.choose(w, 0).paths % 3, 0U) << w;
  EXPECT_EQ(r.choose(1, 0).paths, 6U);
  EXPECT_EQ((ActiveSetRule{kPacket, 4, 4, 4}).choose(1, 0).paths, 4U) << "no more than there are";
}

TEST(ActiveSet, choose__shrinks_below_three_quarters_only) {
  const ActiveSetRule r{kPacket, 4, 1, 64};
  EXPECT_EQ(r.choose(49 * kPacket, 16).paths, 16U);
  EXPECT_EQ(r.choose(48 * kPacket, 16).paths, 16U);
  EXPECT_EQ(r.choose(48 * kPacket - 1, 16).paths, 12U);
  EXPECT_EQ(r.choose(65 * kPacket, 16).paths, 17U);
}

TEST(ActiveSet, choose__zero_is_all_always) {
  const ActiveSetRule r{kPacket, 0, 2, 32};
  const ActiveSet s = r.choose(1, 0);
  EXPECT_EQ(s.paths, 32U);
  EXPECT_EQ(s.grow_above, INT64_MAX);
  EXPECT_LT(s.shrink_below, 0);
}

// The thresholds say exactly when another choice would differ: nobody has to divide in between.
TEST(ActiveSet, thresholds__agree_with_choose) {
  Rng rng(1);
  for (unsigned i = 0; i < 20000; ++i) {
    const std::uint32_t planes = 1 + rng.below(8), per_plane = 1 + rng.below(32);
    const ActiveSetRule r{kPacket, 1 + rng.below(8), planes, planes * per_plane};
    const ActiveSet s = r.choose(rng.below(5000000), 0);
    const Bytes w = rng.below(5000000);
    const bool asks = w > s.grow_above || w < s.shrink_below;
    if (!asks) {
      ASSERT_EQ(r.choose(w, s.paths).paths, s.paths) << w;
    } else {
      ASSERT_NE(r.choose(w, s.paths).paths, s.paths) << w;
    }
  }
}

}  // namespace
}  // namespace metaroce
