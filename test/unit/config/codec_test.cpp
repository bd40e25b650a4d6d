#include "config/codec.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/rng.h"
#include "config/address_text.h"
#include "config/failure.h"

namespace metaroce::config {
namespace {

TEST(NumberCodec, reads_at_both_ends_of_the_range_and_not_beyond) {
  const auto c = count(3, 17);
  EXPECT_EQ(c.read({"3"}), 3U);
  EXPECT_EQ(c.read({"17"}), 17U);
  EXPECT_THROW((void)c.read({"2"}), ValueError);
  EXPECT_THROW((void)c.read({"18"}), ValueError);
  EXPECT_EQ(count(0, UINT64_MAX).read({"18446744073709551615"}), UINT64_MAX);
  EXPECT_THROW((void)count(0, UINT64_MAX).read({"18446744073709551616"}), ValueError);
}

TEST(NumberCodec, reads_units) {
  EXPECT_EQ(duration(0, kNever).read({"200us"}), 200000U);
  EXPECT_EQ(duration(0, kNever).read({"4s"}), 4000000000U);
  EXPECT_EQ(size(0, 1 << 30).read({"64KiB"}), 65536U);
  EXPECT_EQ(size(0, 1 << 30).read({"4096"}), 4096U);
  EXPECT_EQ(rate(0, 1000000).read({"100Gb/s"}), 100000U);
  EXPECT_THROW((void)rate(0, 1000000).read({"100"}), ValueError);
  EXPECT_THROW((void)size(0, 1 << 30).read({"KiB"}), ValueError);
  EXPECT_THROW((void)size(0, 1 << 30).read({""}), ValueError);
}

TEST(NumberCodec, print_reads_back) {
  Rng rng(7);
  const NumberCodec codecs[] = {count(0, INT64_MAX), duration(0, kNever), size(0, INT64_MAX)};
  for (int i = 0; i < 3000; ++i) {
    // All magnitudes, and multiples of units.
    std::uint64_t v = rng.next() >> (1 + rng.below(63));
    if (rng.below(2) == 0) v = v >> 30 << 30;
    if (rng.below(2) == 0) v = v / 1000000 * 1000000;
    for (const auto& c : codecs) {
      const std::string text = c.print(v);
      EXPECT_EQ(c.read({text}), v) << text;
    }
  }
  EXPECT_EQ(duration(0, kNever).print(1500 * 1000), "1500us");
  EXPECT_EQ(size(0, INT64_MAX).print(0), "0B");
}

TEST(AddressText, parses_and_prints) {
  EXPECT_EQ(to_text(*parse_ip("10.0.0.1")), "10.0.0.1");
  EXPECT_EQ(to_text(*parse_ip("FD00:0:0::1")), "fd00::1");
  for (const char* bad : {"", "10.0.0", "10.0.0.1.1", "10.0.0.01", "0x0a.0.0.1", "10.0.0.1 ", "1",
                          "fe80::1%eth0", "[::1]", ":::", "::1/64"})
    EXPECT_FALSE(parse_ip(bad)) << bad;
  EXPECT_FALSE(parse_ip(std::string_view("10.0.0.1\0x", 10)));
  EXPECT_EQ(to_text(*parse_mac("02:AB:cd:00:00:01")), "02:ab:cd:00:00:01");
  for (const char* bad : {"", "02:00:00:00:00:0", "02-00-00-00-00-01", "g2:00:00:00:00:01"})
    EXPECT_FALSE(parse_mac(bad)) << bad;
  EXPECT_EQ(*parse_pci("03:00.0"), "0000:03:00.0");
  EXPECT_EQ(*parse_pci("00AF:03:1f.7"), "00af:03:1f.7");
  for (const char* bad : {"", "03:00.8", "03:20.0", "0000:03:00", "0000-03:00.0", "eth0"})
    EXPECT_FALSE(parse_pci(bad)) << bad;
}

TEST(AddressText, compares_networks) {
  const auto a = *parse_ip("10.0.0.129");
  EXPECT_TRUE(same_network(a, *parse_ip("10.0.0.1"), 24));
  EXPECT_FALSE(same_network(a, *parse_ip("10.0.0.1"), 25));
  EXPECT_TRUE(same_network(a, *parse_ip("192.0.0.1"), 0));
  EXPECT_FALSE(same_network(a, *parse_ip("a00:81::"), 8));
  EXPECT_TRUE(same_network(*parse_ip("fd00::1"), *parse_ip("fd00::1"), 128));
}

TEST(PrefixCodec, takes_point_to_point_prefixes_whole) {
  for (const char* text : {"10.0.0.0/31", "10.0.0.1/31", "10.0.0.255/32", "fd00::/127"})
    EXPECT_EQ(PrefixCodec{}.print(PrefixCodec{}.read({text})), "\"" + std::string(text) + "\"");
}

TEST(Nearest, prefers_the_closest_and_gives_up_on_strangers) {
  const std::vector<std::string> words = {"rx", "tx", "timer", "idle", "payload_mtu"};
  EXPECT_EQ(nearest("rxx", words), "rx");
  EXPECT_EQ(nearest("Payload-MTU", words), "payload_mtu");
  EXPECT_EQ(nearest("tiemr", words), "timer");
  EXPECT_EQ(nearest("socket", words), "");
  EXPECT_EQ(nearest("", words), "");
  EXPECT_EQ(nearest(std::string(100000, 'x'), words), "");
}

TEST(Shown, is_short_and_on_one_line) {
  EXPECT_EQ(shown("a\nb\x7f"), "a b ");
  EXPECT_EQ(shown(std::string(200, 'a')), std::string(80, 'a') + "...");
  // A character of several bytes is never cut.
  EXPECT_EQ(shown(std::string(79, 'a') + "\xc3\xa9" + "bbb"), std::string(79, 'a') + "\xc3\xa9...");
}

}  // namespace
}  // namespace metaroce::config
