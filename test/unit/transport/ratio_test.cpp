#include "transport/ratio.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace metaroce {
namespace {

// Against the division, over all magnitudes.
TEST(Ratio, share_of__near_the_quotient) {
  Rng rng(3);
  for (int i = 0; i < 200000; ++i) {
    const auto whole = static_cast<std::int64_t>(32 + (rng.next() >> (14 + rng.below(44))));
    const auto part =
        static_cast<std::int64_t>(rng.next() % (static_cast<std::uint64_t>(whole) + 1));
    const auto amount = static_cast<std::int64_t>(rng.below(1U << 23));
    const double exact =
        static_cast<double>(amount) * static_cast<double>(part) / static_cast<double>(whole);
    const auto got = static_cast<double>(share_of(amount, part, whole));
    ASSERT_LE(got, exact * 33 / 32 + 1) << amount << " " << part << " " << whole;
    ASSERT_GE(got, exact - static_cast<double>(amount) / 1000 - 1)
        << amount << " " << part << " " << whole;
  }
}

TEST(Ratio, share_of__ends) {
  EXPECT_EQ(share_of(1000, 0, 4096), 0);
  EXPECT_EQ(share_of(1000, 4096, 4096), 1000);
  EXPECT_EQ(share_of(0, 5, 7), 0);
  EXPECT_EQ(share_of(64, 1, 1), 2) << "a whole below 32 counts as 32";
  constexpr std::int64_t kMost = (std::int64_t{1} << 50) - 1;
  EXPECT_GT(share_of((std::int64_t{1} << 48) - 1, kMost, kMost), std::int64_t{1} << 47);
}

}  // namespace
}  // namespace metaroce
