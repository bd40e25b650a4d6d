#include "wire/drop_reason.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

namespace metaroce {
namespace {

TEST(DropReason, each_has_a_name_of_its_own_and_a_text) {
  std::set<std::string> names;
  for (const DropReasonInfo& info : kDropReasonInfo) {
    const std::string name = info.name;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos);
    EXPECT_GT(std::string(info.text).size(), 5U) << name;
  }
  EXPECT_STREQ(kDropReasonInfo[static_cast<std::size_t>(DropReason::kNone)].name, "none");
  EXPECT_STREQ(kDropReasonInfo[static_cast<std::size_t>(DropReason::kFault)].name, "fault");
}

TEST(DropCounters, count_by_reason) {
  DropCounters c;
  c.add(DropReason::kCrc);
  c.add(DropReason::kCrc, 4);
  c.add(DropReason::kFault);
  EXPECT_EQ(c[DropReason::kCrc], 5U);
  EXPECT_EQ(c[DropReason::kFault], 1U);
  EXPECT_EQ(c[DropReason::kVersion], 0U);
}

// One owner adds while another thread reads: never backwards (and no race, says the sanitizer).
TEST(DropCounters, read_while_the_owner_adds) {
  DropCounters c;
  constexpr std::uint64_t kAdds = 100000;
  std::thread owner([&c] {
    for (std::uint64_t i = 0; i < kAdds; ++i) c.add(DropReason::kDuplicate);
  });
  std::uint64_t last = 0;
  while (last < kAdds) {
    const std::uint64_t now = c[DropReason::kDuplicate];
    ASSERT_GE(now, last);
    if (now == last) std::this_thread::yield();
    last = now;
  }
  owner.join();
  EXPECT_EQ(last, kAdds);
}

}  // namespace
}  // namespace metaroce
