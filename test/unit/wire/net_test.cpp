#include "wire/net.h"

#include <gtest/gtest.h>

#include <memory>

#include "net_frames.h"

namespace metaroce::wire {
namespace {

const Bytes8 kPayload = {'M', 'e', 't', 'a', 'R', 'o', 'C', 'E', '!'};

// Computed with Python's struct module from RFC 791, 768 and 8200, not with this code.
const char* const kGolden4 =
    "0200000000020200000000010800"
    "45ba0025000040004011260c0a0000010a000002"
    "c350bb260011f4d6";
const char* const kGolden6 =
    "02000000000202000000000186dd"
    "6bab307d00111140fd000000000000000000000000000001fd000000000000000000000000000002"
    "c350bb2600110ed5";

// The plainest possible sum, to compare with.
std::uint16_t plain_sum(const Bytes8& b) {
  std::uint32_t s = 0;
  for (std::size_t i = 0; i < b.size(); ++i) s += i % 2 == 0 ? b[i] << 8 : b[i];
  while ((s >> 16) != 0) s = (s & 0xffff) + (s >> 16);
  return static_cast<std::uint16_t>(s);
}

void fix_ipv4_checksum(Bytes8& f) {
  f[24] = f[25] = 0;
  const auto s = static_cast<std::uint16_t>(~plain_sum(Bytes8(f.begin() + 14, f.begin() + 34)));
  f[24] = static_cast<std::uint8_t>(s >> 8);
  f[25] = static_cast<std::uint8_t>(s);
}

// A copy of exactly n bytes on the heap, so that AddressSanitizer sees a read behind it.
DropReason parse_exact(const Bytes8& f, std::size_t n) {
  const auto copy = std::make_unique<std::uint8_t[]>(n);
  if (n != 0) std::memcpy(copy.get(), f.data(), n);
  FrameView v;
  const DropReason r = parse_frame(copy.get(), static_cast<std::uint32_t>(n), v);
  if (r == DropReason::kNone) {
    EXPECT_LE(v.payload_offset + v.payload_len, n);
    if (v.kind == FrameKind::kUdp) (void)verify_udp_checksum(v);
  }
  return r;
}

}  // namespace

// [MR-3.1.1] [MR-3.1.5]
TEST(Encap, golden_bytes) {
  for (const bool v6 : {false, true}) {
    Bytes8 want = from_hex(v6 ? kGolden6 : kGolden4);
    want.insert(want.end(), kPayload.begin(), kPayload.end());
    EXPECT_EQ(udp_frame(v6, kPayload), want) << "v6=" << v6;
  }
}

// [MR-3.1.5] [MR-3.1.7]
TEST(Encap, every_length_and_dscp_has_a_right_header) {
  for (const bool v6 : {false, true})
    for (std::uint32_t n = 0; n < 4200; n += 7) {
      const Bytes8 f = udp_frame(v6, Bytes8(n, 0x5a), static_cast<std::uint16_t>(49152 + n), 47911,
                                 static_cast<std::uint8_t>(n % 64));
      FrameView v;
      ASSERT_EQ(parse(f, v), DropReason::kNone) << n;
      EXPECT_EQ(verify_udp_checksum(v), DropReason::kNone) << n;
      EXPECT_EQ(v.payload_len, n);
      EXPECT_EQ(v.payload_offset, v6 ? 62 : 42);
      EXPECT_EQ(v.src_port, 49152 + n);
      EXPECT_EQ(v.dst_port, 47911);
      EXPECT_EQ(v.ecn, 2);
      EXPECT_EQ(v.v6, v6);
      EXPECT_EQ(v.source_ip(), v6 ? ip6(1) : ip4(1));
      EXPECT_EQ(v.destination_ip(), v6 ? ip6(2) : ip4(2));
      EXPECT_EQ(v.source_mac(), kMac1);
    }
}

// [MR-3.1.11]
TEST(parse_frame, accepts_one_vlan_tag_and_padding) {
  for (const bool v6 : {false, true}) {
    Bytes8 f = with_vlan(udp_frame(v6, kPayload));
    f.resize(f.size() + 20, 0xee);
    FrameView v;
    ASSERT_EQ(parse(f, v), DropReason::kNone);
    EXPECT_EQ(v.l3_offset, 18);
    EXPECT_EQ(v.payload_len, kPayload.size());
    EXPECT_EQ(Bytes8(v.payload(), v.payload() + v.payload_len), kPayload);
    EXPECT_EQ(verify_udp_checksum(v), DropReason::kNone);
  }
}

// [MR-3.1.1]
TEST(parse_frame, refuses_by_name) {
  FrameView v;
  const auto changed4 = [&](std::size_t at, std::uint8_t x, bool fix = true) {
    Bytes8 f = udp_frame(false, kPayload);
    f[at] = x;
    if (fix) fix_ipv4_checksum(f);
    return parse(f, v);
  };
  EXPECT_EQ(parse(Bytes8(60, 0), v), DropReason::kNotIp);
  EXPECT_EQ(parse(with_vlan(with_vlan(udp_frame(false, kPayload))), v), DropReason::kNotIp);
  EXPECT_EQ(parse(with_vlan(udp_frame(false, kPayload), 1, 0x88a8), v), DropReason::kNotIp);
  EXPECT_EQ(changed4(14, 0x46), DropReason::kIpHeader);        // options
  EXPECT_EQ(changed4(14, 0x44), DropReason::kIpHeader);        // header too short
  EXPECT_EQ(changed4(14, 0x65), DropReason::kIpHeader);        // version 6 under type IPv4
  EXPECT_EQ(changed4(17, 19), DropReason::kIpHeader);          // total length below 20
  EXPECT_EQ(changed4(16, 0x10), DropReason::kTruncatedFrame);  // total length above frame
  EXPECT_EQ(changed4(24, 0, false), DropReason::kIpHeader);    // checksum
  EXPECT_EQ(changed4(20, 0x20), DropReason::kIpFragment);      // more fragments
  EXPECT_EQ(changed4(21, 0x01), DropReason::kIpFragment);      // offset
  EXPECT_EQ(changed4(23, 6), DropReason::kNotUdp);
  EXPECT_EQ(changed4(39, 16, false), DropReason::kUdpLength);  // below the IP payload
  EXPECT_EQ(changed4(39, 18, false), DropReason::kUdpLength);  // above
  EXPECT_EQ(changed4(17, 27), DropReason::kUdpLength);         // no room for UDP
  const auto changed6 = [&](std::size_t at, std::uint8_t x) {
    Bytes8 f = udp_frame(true, kPayload);
    f[at] = x;
    return parse(f, v);
  };
  EXPECT_EQ(changed6(14, 0x4b), DropReason::kIpHeader);
  EXPECT_EQ(changed6(19, 18), DropReason::kTruncatedFrame);
  EXPECT_EQ(changed6(20, 44), DropReason::kIpFragment);
  for (const std::uint8_t header : {0, 43, 60})
    EXPECT_EQ(changed6(20, header), DropReason::kIpHeader);
  EXPECT_EQ(changed6(20, 6), DropReason::kNotUdp);
  EXPECT_EQ(changed6(20, 58), DropReason::kNotUdp);  // ICMPv6 that is not NS or NA
  EXPECT_EQ(changed6(59, 16), DropReason::kUdpLength);
}

// [MR-4.1.4]
TEST(parse_frame, every_cut_is_truncated) {
  for (const bool v6 : {false, true})
    for (const bool vlan : {false, true}) {
      const Bytes8 f = vlan ? with_vlan(udp_frame(v6, kPayload)) : udp_frame(v6, kPayload);
      for (std::size_t n = 0; n < f.size(); ++n)
        EXPECT_EQ(parse_exact(f, n), DropReason::kTruncatedFrame) << "v6=" << v6 << " n=" << n;
      EXPECT_EQ(parse_exact(f, f.size()), DropReason::kNone);
    }
}

// [MR-4.1.4] [MR-4.1.5]
TEST(parse_frame, mutated_frames_stay_inside) {
  std::mt19937 rng(20240901);
  unsigned accepted = 0;
  for (int i = 0; i < 10000; ++i) {
    Bytes8 f = udp_frame(rng() % 2 != 0, random_bytes(rng, rng() % 80));
    if (rng() % 4 == 0) f = with_vlan(f);
    for (auto k = rng() % 4; k-- != 0;) f[rng() % f.size()] = static_cast<std::uint8_t>(rng());
    accepted += parse_exact(f, rng() % (f.size() + 1)) == DropReason::kNone;
    accepted += parse_exact(f, f.size()) == DropReason::kNone;
  }
  EXPECT_GT(accepted, 2000U);  // the mutations must not all die at the first check
}

// [MR-3.1.10]
TEST(verify_udp_checksum, finds_each_flipped_bit) {
  for (const bool v6 : {false, true}) {
    Bytes8 f = udp_frame(v6, kPayload);
    const std::size_t addresses = v6 ? 22 : 26;
    for (std::size_t at = addresses; at < f.size(); ++at)
      for (int bit = 0; bit < 8; ++bit) {
        FrameView v;
        ASSERT_EQ(parse(f, v), DropReason::kNone);  // then change it under the view
        f[at] ^= static_cast<std::uint8_t>(1 << bit);
        EXPECT_EQ(verify_udp_checksum(v), DropReason::kUdpChecksum) << at << ":" << bit;
        f[at] ^= static_cast<std::uint8_t>(1 << bit);
      }
  }
}

// [MR-3.1.10]
TEST(verify_udp_checksum, zero_is_absent_over_ipv4_and_wrong_over_ipv6) {
  for (const bool v6 : {false, true}) {
    Bytes8 f = udp_frame(v6, kPayload);
    const std::size_t udp = v6 ? 54 : 34;
    f[udp + 6] = f[udp + 7] = 0;
    FrameView v;
    ASSERT_EQ(parse(f, v), DropReason::kNone);
    EXPECT_EQ(verify_udp_checksum(v), v6 ? DropReason::kUdpChecksum : DropReason::kNone);
  }
}

// [MR-3.1.8] [MR-3.1.9]
TEST(write_udp_checksum, never_writes_zero) {
  // A 16-bit payload that makes the sum 0xffff: the complement 0 must go out as 0xffff.
  Bytes8 f = udp_frame(false, {0, 0});
  const auto c = static_cast<std::uint16_t>((f[40] << 8) | f[41]);
  f = udp_frame(false, {static_cast<std::uint8_t>(c >> 8), static_cast<std::uint8_t>(c)});
  EXPECT_EQ(f[40], 0xff);
  EXPECT_EQ(f[41], 0xff);
  FrameView v;
  ASSERT_EQ(parse(f, v), DropReason::kNone);
  EXPECT_EQ(verify_udp_checksum(v), DropReason::kNone);
}

TEST(write_udp_checksum, pieces_of_any_length_equal_the_whole) {
  std::mt19937 rng(7);
  for (int i = 0; i < 300; ++i) {
    const Bytes8 p = random_bytes(rng, rng() % 600);
    const Bytes8 whole = udp_frame(i % 2 != 0, p);
    Bytes8 f = whole;
    const std::size_t cut = p.empty() ? 0 : rng() % p.size();
    write_udp_checksum(f.data() + kEthBytes, std::span(p).first(cut), std::span(p).subspan(cut));
    EXPECT_EQ(f, whole) << "cut " << cut << " of " << p.size();
  }
}

TEST(write_udp_pseudo_checksum, completes_to_the_real_one) {
  for (const bool v6 : {false, true}) {
    const Bytes8 whole = udp_frame(v6, kPayload);
    Bytes8 f = whole;
    write_udp_pseudo_checksum(f.data() + kEthBytes);
    // What a NIC does: sum from the UDP header on, complement, store.
    const std::size_t udp = v6 ? 54 : 34;
    const auto sum =
        static_cast<std::uint16_t>(~plain_sum(Bytes8(f.begin() + static_cast<long>(udp), f.end())));
    EXPECT_EQ(sum, (whole[udp + 6] << 8) | whole[udp + 7]);
  }
}

TEST(checksum_add, equals_the_plain_sum) {
  std::mt19937 rng(3);
  for (int i = 0; i < 2000; ++i) {
    const Bytes8 b = random_bytes(rng, rng() % 700 + (i % 10 == 0 ? 4096 : 0));
    const std::size_t skip = std::min<std::size_t>(rng() % 4, b.size());
    const Bytes8 part(b.begin() + static_cast<long>(skip), b.end());
    EXPECT_EQ(checksum_fold(checksum_add(0, b.data() + skip, part.size())), plain_sum(part));
  }
  EXPECT_EQ(checksum_fold(checksum_add(0, Bytes8(65535, 0xff).data(), 65535)),
            plain_sum(Bytes8(65535, 0xff)));
}

TEST(make_reply, swaps_addresses_and_keeps_the_tag) {
  for (const bool v6 : {false, true})
    for (const bool vlan : {false, true}) {
      const Bytes8 f = vlan ? with_vlan(udp_frame(v6, kPayload)) : udp_frame(v6, kPayload);
      FrameView v;
      ASSERT_EQ(parse(f, v), DropReason::kNone);
      Bytes8 r(kMaxUdpHeaders);
      const std::uint32_t n = make_reply(v, r.data(), 3, v.src_port, 40000, 10);
      ASSERT_EQ(n, (v6 ? 62U : 42U) + (vlan ? 4U : 0U));
      r.resize(n);
      const Bytes8 answer = {1, 2, 3};
      write_udp_checksum(r.data() + v.l3_offset, answer);
      r.insert(r.end(), answer.begin(), answer.end());
      FrameView a;
      ASSERT_EQ(parse(r, a), DropReason::kNone);
      EXPECT_EQ(verify_udp_checksum(a), DropReason::kNone);
      EXPECT_EQ(a.l3_offset, v.l3_offset);
      EXPECT_EQ(a.source_ip(), v.destination_ip());
      EXPECT_EQ(a.destination_ip(), v.source_ip());
      EXPECT_EQ(a.source_mac(), kMac2);
      EXPECT_EQ(0, std::memcmp(a.dst_mac(), kMac1.b.data(), 6));
      EXPECT_EQ(a.src_port, 50000);
      EXPECT_EQ(a.dst_port, 40000);
      if (vlan) {
        EXPECT_EQ(0, std::memcmp(r.data() + 12, f.data() + 12, 4));
      }
    }
}

TEST(check_destination, wants_our_mac_and_our_ip) {
  for (const bool v6 : {false, true}) {
    const Bytes8 f = udp_frame(v6, kPayload);
    FrameView v;
    ASSERT_EQ(parse(f, v), DropReason::kNone);
    const IpAddress own = v6 ? ip6(2) : ip4(2), other = v6 ? ip6(3) : ip4(3);
    EXPECT_EQ(check_destination(v, kMac2, own), DropReason::kNone);
    EXPECT_EQ(check_destination(v, kMac1, own), DropReason::kNotForUs);
    EXPECT_EQ(check_destination(v, kMac2, other), DropReason::kNotForUs);
    EXPECT_EQ(check_destination(v, kMac2, v6 ? ip4(2) : ip6(2)), DropReason::kNotForUs);
  }
}

}  // namespace metaroce::wire
