// Max-min fairness: examples, the definition as a property, and a naive oracle. [MR-8.4.3]
#include "transport/fair_share.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace metaroce {
namespace {

std::uint64_t taken(const std::vector<Mbps>& d, Mbps level) {
  std::uint64_t sum = 0;
  for (const Mbps x : d) sum += std::min(x, level);
  return sum;
}

TEST(FairShare, nobody__whole_capacity) {
  const FairLevel l = fair_level({}, 100);
  EXPECT_TRUE(l.fits);
  EXPECT_EQ(l.level, 100U);
}

TEST(FairShare, equal_demands__equal_parts) {
  const FairLevel l = fair_level(std::vector<Mbps>(4, 400), 100);
  EXPECT_FALSE(l.fits);
  EXPECT_EQ(l.level, 25U);
}

TEST(FairShare, small_demands__the_rest_goes_to_the_others) {
  const std::vector<Mbps> d{10, 400, 20, 400};
  EXPECT_EQ(fair_level(d, 100).level, 35U);
}

// Storage incast: servers of 100, 200 and 400 Gb/s into one port.
TEST(FairShare, line_rates_as_demands) {
  const std::vector<Mbps> d{100000, 200000, 400000};
  EXPECT_EQ(fair_level(d, 396000).level, 148000U);
}

TEST(FairShare, fits__level_leaves_the_others_what_they_want) {
  const std::vector<Mbps> d{10, 40, 20};
  const FairLevel l = fair_level(d, 100);
  EXPECT_TRUE(l.fits);
  EXPECT_EQ(l.level, 70U);  // 100 - 10 - 20
}

TEST(FairShare, no_capacity) {
  const std::vector<Mbps> d{10, 40};
  EXPECT_EQ(fair_level(d, 0).level, 0U);
  EXPECT_EQ(fair_level(d, 1).level, 0U);
}

TEST(FairShare, property__fits_and_is_the_highest_level) {
  Rng rng(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<Mbps> d(1 + rng.below(40));
    // Many sizes: from nearly equal to spread over seven decades.
    const std::uint32_t decades = rng.below(8);
    for (Mbps& x : d) {
      std::uint32_t top = 10;
      for (std::uint32_t k = rng.below(decades + 1); k-- > 0;) top *= 10;
      x = rng.below(std::min(top, (1U << 24) - 1));
    }
    const Mbps capacity = rng.below(800000);
    const FairLevel l = fair_level(d, capacity);
    const std::uint64_t sum = taken(d, UINT32_MAX);
    ASSERT_EQ(l.fits, sum <= capacity);
    if (l.fits) {
      const Mbps most = *std::max_element(d.begin(), d.end());
      ASSERT_GE(l.level, most);
      ASSERT_EQ(sum - most + l.level, capacity);
      continue;
    }
    ASSERT_LE(taken(d, l.level), capacity);
    ASSERT_GT(taken(d, l.level + 1), capacity);
  }
}

// The oracle gives out one unit at a time, to whoever has least and wants more.
TEST(FairShare, property__naive_oracle) {
  Rng rng(8);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Mbps> d(2 + rng.below(8));
    for (Mbps& x : d) x = rng.below(60);
    const Mbps capacity = rng.below(200);
    std::vector<Mbps> got(d.size(), 0);
    for (Mbps unit = 0; unit < capacity; ++unit) {
      std::size_t least = d.size();
      for (std::size_t i = 0; i < d.size(); ++i)
        if (got[i] < d[i] && (least == d.size() || got[i] < got[least])) least = i;
      if (least == d.size()) break;
      ++got[least];
    }
    const FairLevel l = fair_level(d, capacity);
    for (std::size_t i = 0; i < d.size(); ++i) {
      ASSERT_GE(got[i], std::min(d[i], l.level));
      ASSERT_LE(got[i], std::min(d[i], l.level + 1));  // whole units: some get the remainder
    }
  }
}

}  // namespace
}  // namespace metaroce
