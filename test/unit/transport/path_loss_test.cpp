// Which loss tells a bad route from bad luck. [MR-9.4.7]
#include "transport/path_loss.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace metaroce {
namespace {

constexpr std::uint32_t kPaths = 32;

// Packets one after the other over 32 paths. Returns how often a path was found to be bad: the
// first one, and any other. Loss in millionths.
struct Found {
  std::uint32_t first = 0, others = 0;
  std::uint32_t packets = 0;  // of the first path until it was found
};
Found run(std::uint32_t all, std::uint32_t first, std::uint32_t packets, std::uint64_t seed) {
  Rng rng(seed);
  LossMean mean;
  std::array<LossScore, kPaths> scores{};
  Found f;
  for (std::uint32_t i = 0; i < packets; ++i) {
    const std::uint32_t path = i % kPaths;
    if (rng.below(1'000'000) >= (path == 0 ? first : all)) {
      mean.acked(1);
      scores[path].acked(1);
      continue;
    }
    mean.lost();
    if (!scores[path].lost(mean)) continue;
    if (path == 0 && f.first == 0) f.packets = i / kPaths + 1;
    ++(path == 0 ? f.first : f.others);
  }
  return f;
}

TEST(PathLoss, uniform_loss__blames_no_route) {
  for (const std::uint32_t ppm : {1'000U, 10'000U, 50'000U, 100'000U, 200'000U, 400'000U}) {
    std::uint32_t blamed = 0;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const Found f = run(ppm, ppm, 500'000, seed);
      blamed += f.first + f.others;
    }
    EXPECT_LE(blamed, 20U) << ppm << " of two million packets";  // 1 in 65,536 is promised
  }
}

TEST(PathLoss, half_lost_on_one_path__is_found_within_some_ten_packets) {
  std::uint32_t sum = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Found f = run(0, 500'000, 20'000, seed);
    EXPECT_GE(f.first, 1U);
    EXPECT_EQ(f.others, 0U);
    sum += f.packets;
  }
  EXPECT_LT(sum / 50, 14U);
  sum = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Found f = run(10'000, 500'000, 20'000, seed);
    EXPECT_GE(f.first, 1U);
    EXPECT_LE(f.others, 1U);
    sum += f.packets;
  }
  EXPECT_LT(sum / 50, 24U) << "beside one per cent on the others";
}

// A full queue says so by marks; what overflows there is no bad route.
TEST(PathLoss, mark__begins_again) {
  LossMean mean;
  mean.lost();
  LossScore s;
  EXPECT_FALSE(s.lost(mean));
  EXPECT_FALSE(s.lost(mean));
  s.reset();
  EXPECT_FALSE(s.lost(mean));
  EXPECT_FALSE(s.lost(mean));
  EXPECT_TRUE(s.lost(mean));
  EXPECT_FALSE(s.lost(mean)) << "who was found begins again";
}

TEST(PathLoss, mean__follows_in_both_directions) {
  LossMean mean;
  mean.lost();
  EXPECT_FALSE(mean.often());
  for (unsigned i = 0; i < 2000; ++i) mean.lost();
  EXPECT_TRUE(mean.often());
  EXPECT_GT(mean.value(), 60'000U);
  EXPECT_EQ(mean.bits(), 0U);
  mean.acked(100'000);
  EXPECT_LT(mean.value(), 256U);
  EXPECT_FALSE(mean.often());
  EXPECT_EQ(mean.bits(), 6U);
}

}  // namespace
}  // namespace metaroce
