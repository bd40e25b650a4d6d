#include "api/address_text.h"

#include <gtest/gtest.h>

namespace metaroce {
namespace {

std::string parsed(std::string_view s) {
  IpAddress a;
  std::string error;
  return parse_address(s, a, error) ? format_address(a) : "error: " + error;
}

TEST(address_text, literals) {
  EXPECT_EQ(parsed("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(parsed("fd00::1"), "fd00::1");
  EXPECT_EQ(parsed("[fd00::1]"), "fd00::1");
  EXPECT_EQ(parsed("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(parsed("[::ffff:1.2.3.4]"), "1.2.3.4");
}

TEST(address_text, mapped_is_v4) {
  IpAddress a;
  std::string error;
  ASSERT_TRUE(parse_address("::ffff:10.0.0.1", a, error));
  EXPECT_EQ(a, IpAddress::v4(10, 0, 0, 1));
}

// The message names the bad part (CL-12).
TEST(address_text, bad_parts_are_named) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "empty"},
      {"[fd00::1]:4791", "':4791'"},
      {"10.0.0.1:70000", "':70000'"},
      {":4791", "':4791'"},
      {"host:", "':'"},
      {"fe80::1%tap0", "'%tap0'"},
      {"localhost", "names are not looked up"},
      {"10.0.0.256", "'10.0.0.256'"},
      {"10.0.0", "four numbers"},
      {"[fd00::1", "closing ']'"},
      {"[10.0.0.1]", "not an IPv6"},
      {"fd00::1::2", "not an IPv6"},
      {"[]", "not an IPv6"},
      {"fd00::12345", "'fd00::12345'"},
  };
  for (const auto& [text, part] : cases) {
    const std::string r = parsed(text);
    EXPECT_TRUE(r.starts_with("error: ")) << text << " -> " << r;
    EXPECT_NE(r.find(part), std::string::npos) << text << " -> " << r;
  }
  EXPECT_TRUE(parsed(std::string_view("10.0.0.1\0x", 10)).starts_with("error: "));
}

}  // namespace
}  // namespace metaroce
