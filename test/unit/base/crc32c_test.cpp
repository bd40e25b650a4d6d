#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "support/seed.h"

namespace metaroce {
namespace {

// The definition, bit by bit: shares nothing with either implementation.
std::uint32_t crc_by_definition(const std::uint8_t* p, std::size_t n) {
  std::uint32_t c = 0xffffffff;
  for (std::size_t i = 0; i < n; ++i) {
    c ^= p[i];
    for (int k = 0; k < 8; ++k) c = (c >> 1) ^ ((c & 1) != 0 ? 0x82f63b78U : 0U);
  }
  return ~c;
}

std::vector<std::uint8_t> random_bytes(Rng& rng, std::size_t n) {
  std::vector<std::uint8_t> v(n);
  for (auto& b : v) b = static_cast<std::uint8_t>(rng.next());
  return v;
}

void expect_crc(const std::vector<std::uint8_t>& v, std::uint32_t expected) {
  EXPECT_EQ(crc32c(0, v.data(), v.size()), expected);
  EXPECT_EQ(crc32c_portable(0, v.data(), v.size()), expected);
}

// RFC 3720 B.4. (The RFC prints the bytes as they are sent, lowest first.)
TEST(Crc32c, rfc3720_vectors) {
  expect_crc(std::vector<std::uint8_t>(32, 0x00), 0x8a9136aa);
  expect_crc(std::vector<std::uint8_t>(32, 0xff), 0x62a8ab43);
  std::vector<std::uint8_t> up(32), down(32);
  std::iota(up.begin(), up.end(), std::uint8_t{0});
  std::iota(down.rbegin(), down.rend(), std::uint8_t{0});
  expect_crc(up, 0x46dd794e);
  expect_crc(down, 0x113fdb5c);
  expect_crc({0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
              0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
              0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
              0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00},
             0xd9963a56);
}

TEST(Crc32c, check_value) {
  constexpr std::string_view digits = "123456789";
  EXPECT_EQ(crc32c(0, digits.data(), digits.size()), 0xe3069283);
}

TEST(Crc32c, nothing_changes_nothing) {
  EXPECT_EQ(crc32c(0, nullptr, 0), 0U);
  EXPECT_EQ(crc32c(0x12345678, nullptr, 0), 0x12345678U);
  EXPECT_EQ(crc32c_portable(0x12345678, nullptr, 0), 0x12345678U);
}

// Every length up to well beyond two rounds of three lanes (3 x 512 bytes each), aligned and not.
TEST(Crc32c, all_lengths_0_to_4096) {
  const test::Seed seed(10);
  SCOPED_TRACE(seed.replay());
  Rng rng(seed.value());
  const auto v = random_bytes(rng, 4096 + 8);
  for (std::size_t n = 0; n <= 4096; ++n) {
    const std::uint8_t* p = v.data() + n % 8;
    const std::uint32_t expected = crc_by_definition(p, n);
    ASSERT_EQ(crc32c(0, p, n), expected) << n;
    ASSERT_EQ(crc32c_portable(0, p, n), expected) << n;
  }
}

TEST(Crc32c, long_inputs) {
  Rng rng(11);
  for (const std::size_t n : {std::size_t{9000}, std::size_t{65507}, std::size_t{1} << 20}) {
    const auto v = random_bytes(rng, n);
    EXPECT_EQ(crc32c(0, v.data(), n), crc32c_portable(0, v.data(), n)) << n;
  }
}

TEST(Crc32c, pieces_make_the_whole) {
  const test::Seed seed(12);
  SCOPED_TRACE(seed.replay());
  Rng rng(seed.value());
  for (int round = 0; round < 300; ++round) {
    const auto v = random_bytes(rng, rng.below(8192));
    std::uint32_t c = 0;
    for (std::size_t at = 0; at < v.size();) {
      const std::size_t n = std::min<std::size_t>(v.size() - at, rng.below(2000));
      c = (round & 1) != 0 ? crc32c_portable(c, v.data() + at, n) : crc32c(c, v.data() + at, n);
      at += n;
    }
    ASSERT_EQ(c, crc_by_definition(v.data(), v.size())) << v.size();
  }
}

TEST(Crc32c, each_flipped_bit_shows) {
  Rng rng(13);
  auto v = random_bytes(rng, 1600);  // through the lanes and the tail
  const std::uint32_t whole = crc32c(0, v.data(), v.size());
  for (std::size_t bit = 0; bit < v.size() * 8; ++bit) {
    v[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    ASSERT_NE(crc32c(0, v.data(), v.size()), whole) << bit;
    v[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
  }
}

}  // namespace
}  // namespace metaroce
