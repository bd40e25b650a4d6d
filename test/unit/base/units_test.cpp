#include "base/units.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace metaroce {
namespace {

TEST(Units, nanos_are_what_their_names_say) {
  EXPECT_EQ(kMicrosecond, 1'000);
  EXPECT_EQ(kMillisecond, 1'000'000);
  EXPECT_EQ(kSecond, 1'000'000'000);
  EXPECT_GT(kNever, 290LL * 365 * 24 * 3600 * kSecond);  // later than any clock will show
}

TEST(Units, indices_do_not_mix) {
  static_assert(!std::is_convertible_v<PathId, PlaneId>);
  static_assert(!std::is_convertible_v<int, PathId>);
  static_assert(sizeof(PathId) == 1 && sizeof(StreamId) == 2 && sizeof(ConnIndex) == 4);
  EXPECT_LT(PathId{1}, PathId{2});
  EXPECT_EQ(StreamId{}, StreamId{0});
}

}  // namespace
}  // namespace metaroce
