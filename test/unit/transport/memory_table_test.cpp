#include "transport/memory_table.h"

#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"

namespace metaroce {
namespace {

class MemoryTableTest : public ::testing::Test {
 protected:
  MemoryTableTest() {
    EXPECT_TRUE(add(key_, 0x7000, bytes_.size(), kAccessLocalWrite | kAccessRemoteWrite));
  }
  bool add(std::uint32_t key, std::uint64_t va, std::uint64_t n, std::uint32_t access) {
    return table_.add(RegionParams{key, ClientId{1}, 3, va, bytes_.data(), n, access});
  }
  AccessError at(std::uint64_t va, std::uint64_t n) {
    return table_.translate(key_, 3, kAccessRemoteWrite, va, n, out_);
  }
  std::array<std::uint8_t, 4096> bytes_{};
  std::uint32_t key_ = (2U << MemoryTable::kRandomBits) | 0x123;
  MemoryTable table_{4};
  std::uint8_t* out_ = nullptr;
};

// [MR-4.5.3] [MR-10.1.2]
TEST_F(MemoryTableTest, translate__needs_key_domain_and_rights) {
  EXPECT_EQ(at(0x7000, 4096), AccessError::kNone);
  EXPECT_EQ(out_, bytes_.data());
  EXPECT_EQ(table_.translate(key_ ^ 1, 3, kAccessRemoteWrite, 0x7000, 1, out_),
            AccessError::kBadKey);
  EXPECT_EQ(table_.translate(key_ ^ (1U << MemoryTable::kRandomBits), 3, 0, 0x7000, 1, out_),
            AccessError::kBadKey);
  EXPECT_EQ(table_.translate(0xffffffff, 3, 0, 0x7000, 1, out_), AccessError::kBadKey);
  EXPECT_EQ(table_.translate(key_, 4, kAccessRemoteWrite, 0x7000, 1, out_), AccessError::kBadKey);
  EXPECT_EQ(table_.translate(key_, 3, kAccessRemoteRead, 0x7000, 1, out_), AccessError::kAccess);
  EXPECT_EQ(table_.translate(key_, 3, kAccessRemoteWrite | kAccessRemoteAtomic, 0x7000, 1, out_),
            AccessError::kAccess);
  EXPECT_EQ(table_.translate(0, 3, 0, 0, 0, out_), AccessError::kBadKey)
      << "an empty slot has no key";
}

// [MR-4.5.4]
TEST_F(MemoryTableTest, translate__bounds_without_wrap_around) {
  EXPECT_EQ(at(0x7000 + 4095, 1), AccessError::kNone);
  EXPECT_EQ(out_, bytes_.data() + 4095);
  EXPECT_EQ(at(0x7000 + 4096, 0), AccessError::kNone);  // empty range at the end
  EXPECT_EQ(at(0x7000 + 4097, 0), AccessError::kBounds);
  EXPECT_EQ(at(0x7000 + 4095, 2), AccessError::kBounds);
  EXPECT_EQ(at(0x6fff, 1), AccessError::kBounds);
  EXPECT_EQ(at(0x6fff, 0xffffffffffffffffULL), AccessError::kBounds);
  EXPECT_EQ(at(0x7001, 0xffffffffffffffffULL), AccessError::kBounds);
  EXPECT_EQ(at(0xffffffffffffffffULL, 2), AccessError::kBounds);
  EXPECT_EQ(at(0, 0), AccessError::kBounds);
}

TEST_F(MemoryTableTest, translate__region_at_the_end_of_the_address_space) {
  const std::uint32_t key = 3U << MemoryTable::kRandomBits;
  ASSERT_TRUE(add(key, 0xfffffffffffff000ULL, 4096, kAccessRemoteWrite));
  EXPECT_EQ(table_.translate(key, 3, kAccessRemoteWrite, 0xffffffffffffffffULL, 1, out_),
            AccessError::kNone);
  EXPECT_EQ(out_, bytes_.data() + 4095);
  EXPECT_EQ(table_.translate(key, 3, kAccessRemoteWrite, 0xffffffffffffffffULL, 2, out_),
            AccessError::kBounds);
  EXPECT_EQ(table_.translate(key, 3, kAccessRemoteWrite, 0, 1, out_), AccessError::kBounds);
}

TEST_F(MemoryTableTest, translate__random_ranges_agree_with_128_bits) {
  Rng rng(1);
  unsigned good = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t va = rng.below(2) != 0 ? 0x7000 - 8 + rng.below(4112) : rng.next();
    const std::uint64_t n = rng.below(2) != 0 ? rng.below(4100) : rng.next();
    const bool inside = va >= 0x7000 && static_cast<__uint128_t>(va) + n <= 0x7000 + 4096;
    ASSERT_EQ(at(va, n), inside ? AccessError::kNone : AccessError::kBounds) << va << " " << n;
    good += inside ? 1 : 0;
  }
  EXPECT_GT(good, 1000U);
}

// [MR-10.1.3]
TEST_F(MemoryTableTest, remove__ends_access) {
  EXPECT_FALSE(table_.remove(key_ ^ 1));
  EXPECT_TRUE(table_.remove(key_));
  EXPECT_FALSE(table_.remove(key_));
  EXPECT_EQ(at(0x7000, 1), AccessError::kBadKey);
}

TEST_F(MemoryTableTest, add__bounded_and_exclusive) {
  EXPECT_FALSE(add(key_ ^ 1, 0, 1, 0)) << "same slot";
  EXPECT_FALSE(add(4U << MemoryTable::kRandomBits, 0, 1, 0)) << "beyond the table";
  EXPECT_TRUE(add(1U << MemoryTable::kRandomBits, 0, 1, 0));
}

}  // namespace
}  // namespace metaroce
