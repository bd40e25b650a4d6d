#include <gtest/gtest.h>

#include <cmath>

#include "sim/exponential.h"
#include "sim/latency_histogram.h"
#include "sim/size_distribution.h"

namespace metaroce::sim {
namespace {

TEST(MinusLog, follows_the_logarithm) {
  Rng rng(1);
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t u = (rng.next() >> rng.below(63)) | 1;
    const double expected = -std::log(std::ldexp(static_cast<double>(u), -64));
    EXPECT_NEAR(static_cast<double>(minus_log(u)) / 4294967296.0, expected, 1e-8);
  }
  EXPECT_EQ(minus_log(UINT64_MAX), 0U);
  static_assert(minus_log(1) > minus_log(2));
}

TEST(Exponential, has_its_mean_and_its_spread) {
  Rng rng(2);
  double sum = 0, squares = 0;
  constexpr int kDraws = 400000;
  for (int i = 0; i < kDraws; ++i) {
    const auto x = static_cast<double>(exponential(rng, 1000000));
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 1e6, 5e3);
  EXPECT_NEAR(std::sqrt(squares / kDraws - mean * mean), 1e6, 1e4);
}

TEST(SizeDistribution, interpolates_between_lines) {
  SizeDistribution d;
  ASSERT_EQ(d.read("# sizes\n100 0.25\n\n300 0.75 # here\n1000 1\n"), "");
  EXPECT_EQ(d.mean(), 25U + 100U + 162U);  // 100 x .25 + 200 x .5 + 650 x .25
  Rng rng(3);
  double sum = 0;
  int smallest = 0, middle = 0;
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t x = d.draw(rng);
    ASSERT_TRUE(x >= 100 && x <= 1000);
    sum += static_cast<double>(x);
    smallest += x == 100;
    middle += x <= 300;
  }
  EXPECT_NEAR(sum / kDraws, 287.5, 3);
  EXPECT_NEAR(smallest, kDraws * 0.25, 1500);
  EXPECT_NEAR(middle, kDraws * 0.75, 1500);
}

TEST(SizeDistribution, refuses_with_the_line) {
  SizeDistribution d;
  EXPECT_NE(d.read("100 0.5\n50 1\n").find("line 2"), std::string::npos);
  EXPECT_NE(d.read("100 0.5\n200 0.4\n").find("line 2"), std::string::npos);
  EXPECT_NE(d.read("100 1.1\n").find("line 1"), std::string::npos);
  EXPECT_NE(d.read("100\n").find("line 1"), std::string::npos);
  EXPECT_NE(d.read("0 1\n").find("line 1"), std::string::npos);
  EXPECT_NE(d.read("10 0.1234567891\n").find("line 1"), std::string::npos);
  EXPECT_NE(d.read("10 -0.5\n"), "");
  EXPECT_NE(d.read("10 0.5\n"), "");
  EXPECT_NE(d.read(""), "");
}

TEST(LatencyHistogram, percentiles_lie_within_a_percent) {
  LatencyHistogram h;
  EXPECT_EQ(h.permille(500), 0);
  for (Nanos v = 1; v <= 100000; ++v) h.add(v);
  EXPECT_EQ(h.count(), 100000U);
  for (const std::uint32_t p : {10U, 500U, 900U, 990U, 1000U}) {
    const Nanos exact = Nanos{p} * 100;
    EXPECT_GE(h.permille(p), exact);
    EXPECT_LE(h.permille(p), exact + exact / 128 + 1);
  }
  LatencyHistogram far;  // the last bucket that still has its own width
  far.add(Nanos{1} << 45);
  EXPECT_LE(far.permille(500), (Nanos{1} << 45) + (Nanos{1} << 38));
  h.add(-5);
  h.add(kNever);
  EXPECT_EQ(h.count(), 100002U);
}

}  // namespace
}  // namespace metaroce::sim
