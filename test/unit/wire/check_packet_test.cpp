// check_packet() on everything that can arrive.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "golden.h"
#include "support/seed.h"

namespace metaroce::wire {
namespace {

using namespace golden;

// [MR-3.4.5] Total header sizes of the tables.
TEST(CheckPacket, header_sizes) {
  const std::uint16_t expected[] = {44, 44, 44, 52, 52, 40, 44, 44, 20, 24, 32, 36, 36, 40};
  std::size_t i = 0;
  for (const Sample& s : samples()) EXPECT_EQ(check(s.bytes).header_bytes, expected[i++]) << s.name;
}

// [MR-4.1.4]
TEST(CheckPacket, every_truncation_is_too_short) {
  for (const Sample& s : samples()) {
    for (std::size_t n = 0; n < s.bytes.size(); ++n) {
      const ByteVector cut(s.bytes.begin(), s.bytes.begin() + static_cast<std::ptrdiff_t>(n));
      const Checked c = check(cut);
      ASSERT_EQ(c.drop, DropReason::kTooShort) << s.name << " cut to " << n;
      ASSERT_EQ(c.header_bytes, 0) << s.name;
      ASSERT_EQ(c.payload_bytes, 0U) << s.name;
    }
  }
}

// [MR-3.2.4]
TEST(CheckPacket, payload_is_what_follows) {
  for (const Sample& s : samples()) {
    for (const std::size_t extra : {1U, 3U, 4U, 4096U, 65000U}) {
      ByteVector v = s.bytes;
      v.resize(v.size() + extra, 0x5a);
      const Checked c = check(v);
      ASSERT_EQ(c.drop, DropReason::kNone) << s.name;
      ASSERT_EQ(c.header_bytes, s.bytes.size()) << s.name;
      ASSERT_EQ(c.payload_bytes, extra) << s.name;
    }
  }
}

// [MR-3.2.4] [MR-4.1.1]
TEST(CheckPacket, trailer__not_payload_and_must_fit) {
  for (const Sample& s : samples()) {
    ByteVector v = s.bytes;
    v[1] |= kFlagCrc;
    for (std::size_t extra = 0; extra < 4; ++extra) {
      v.resize(s.bytes.size() + extra);
      ASSERT_EQ(check(v).drop, DropReason::kTooShort) << s.name << " + " << extra;
    }
    for (std::size_t extra = 4; extra < 12; ++extra) {
      v.resize(s.bytes.size() + extra);
      const Checked c = check(v);
      ASSERT_EQ(c.drop, DropReason::kNone) << s.name;
      ASSERT_EQ(c.header_bytes, s.bytes.size()) << s.name;
      ASSERT_EQ(c.payload_bytes, extra - 4) << s.name;
    }
  }
}

// [MR-3.3.3]
TEST(CheckPacket, version__all_others_are_dropped) {
  for (const Sample& s : samples()) {
    for (unsigned version = 0; version < 16; ++version) {
      ByteVector v = s.bytes;
      v[0] = static_cast<std::uint8_t>((version << 4) | (v[0] & 0x0f));
      ASSERT_EQ(check(v).drop, version == 1 ? DropReason::kNone : DropReason::kVersion) << s.name;
    }
  }
}

// [MR-3.3.2]
TEST(CheckPacket, type__unknown_is_dropped_whatever_the_length) {
  for (unsigned type = 0; type < 16; ++type) {
    ByteVector v(200, 0);
    v[0] = static_cast<std::uint8_t>(0x10 | type);
    v[16] = 0x81;  // an operation for DATA
    ASSERT_EQ(check(v).drop, type >= 1 && type <= 7 ? DropReason::kNone : DropReason::kType)
        << type;
    v.resize(16);
    ASSERT_EQ(check(v).drop, type >= 1 && type <= 7 ? DropReason::kTooShort : DropReason::kType)
        << type;
  }
}

// [MR-3.4.2] [MR-3.4.4] All 256 operation bytes: the ones of this version, and IMM only on the last
// packet of a Write. Reads and atomics (5..8) are not part of this version's data path. [MR-1.2.1]
TEST(CheckPacket, operation__all_values) {
  for (unsigned op = 0; op < 256; ++op) {
    ByteVector v = hex(data_hex("00", "00", ""));
    v[16] = static_cast<std::uint8_t>(op);
    v.resize(100);
    const unsigned code = op & 0x1f;
    const bool imm = (op & 0x20) != 0, last = (op & 0x40) != 0;
    const bool known = imm ? code == 1 && last : code >= 1 && code <= 4;
    ASSERT_EQ(check(v).drop, known ? DropReason::kNone : DropReason::kType) << op;
  }
}

// [MR-3.3.5]
TEST(CheckPacket, unknown_flags_are_ignored) {
  for (const Sample& s : samples()) {
    ByteVector v = s.bytes;
    v[1] |= 0xe0;
    EXPECT_EQ(check(v).drop, DropReason::kNone) << s.name;
  }
}

// [MR-4.1.4] [MR-4.1.5] Whatever arrives: no byte read outside (sanitizer), one of the reasons
// above, and header and payload that add up to the packet.
TEST(CheckPacket, mutated_packets__always_a_verdict_that_adds_up) {
  const test::Seed seed(21);
  SCOPED_TRACE(seed.replay());
  Rng rng(seed.value());
  const auto all = samples();
  int kept = 0;
  for (int round = 0; round < 50000; ++round) {
    ByteVector v = all[rng.below(static_cast<std::uint32_t>(all.size()))].bytes;
    v.resize(v.size() + rng.below(64));
    for (std::uint32_t k = rng.below(4); k > 0; --k) {
      // The first 17 bytes decide; hit them more often.
      const std::uint32_t at =
          rng.below(2) != 0 ? rng.below(17) : rng.below(static_cast<std::uint32_t>(v.size()));
      v[at] = static_cast<std::uint8_t>(rng.next());
    }
    if (rng.below(3) == 0) v.resize(rng.below(static_cast<std::uint32_t>(v.size()) + 1));
    const Checked c = check(v);
    if (c.drop == DropReason::kNone) {
      ++kept;
      const std::size_t trailer = (v[1] & kFlagCrc) != 0 ? 4 : 0;
      ASSERT_EQ(c.header_bytes + c.payload_bytes + trailer, v.size());
      ASSERT_GE(c.header_bytes, sizeof(Flush));
      ASSERT_EQ(v[0] >> 4, 1);
    } else {
      ASSERT_TRUE(c.drop == DropReason::kTooShort || c.drop == DropReason::kVersion ||
                  c.drop == DropReason::kType)
          << static_cast<int>(c.drop);
      ASSERT_EQ(c.header_bytes, 0);
      ASSERT_EQ(c.payload_bytes, 0U);
    }
  }
  EXPECT_GT(kept, 10000);
  EXPECT_LT(kept, 45000);
}

}  // namespace
}  // namespace metaroce::wire
