#include "wire/neighbour_frame.h"

#include <gtest/gtest.h>

#include <memory>

#include "net_frames.h"

namespace metaroce::wire {
namespace {

// From RFC 826 and RFC 4861 with Python's struct module.
const char* const kArpRequest =
    "ffffffffffff0200000000010806"
    "00010800060400010200000000010a0000010000000000000a000002";
const char* const kNs =
    "3333ff00000202000000000186dd"
    "6000000000203afffd000000000000000000000000000001ff0200000000000000000001ff000002"
    "87007d9700000000fd0000000000000000000000000000020101020000000001";
const char* const kNa =
    "02000000000202000000000186dd"
    "6000000000203afffd000000000000000000000000000001fd000000000000000000000000000002"
    "88001c9c60000000fd0000000000000000000000000000010201020000000001";

Bytes8 request(const IpAddress& own, const IpAddress& target) {
  Bytes8 f(kNeighbourFrameBytes);
  f.resize(write_neighbour_request(f.data(), kMac1, own, target));
  return f;
}

DropReason parse_message(const Bytes8& f, NeighbourMessage& m) {
  FrameView v;
  const DropReason r = parse(f, v);
  if (r != DropReason::kNone) return r;
  EXPECT_EQ(v.kind, FrameKind::kNeighbour);
  return parse_neighbour(v, m);
}

}  // namespace

TEST(neighbour_frame, golden_bytes) {
  EXPECT_EQ(request(ip4(1), ip4(2)), from_hex(kArpRequest));
  EXPECT_EQ(request(ip6(1), ip6(2)), from_hex(kNs));
  Bytes8 f(kNeighbourFrameBytes);
  f.resize(write_neighbour_reply(f.data(), kMac1, ip6(1), kMac2, ip6(2)));
  EXPECT_EQ(f, from_hex(kNa));
}

TEST(neighbour_frame, round_trip) {
  for (const bool v6 : {false, true}) {
    const IpAddress a = v6 ? ip6(1) : ip4(1), b = v6 ? ip6(2) : ip4(2);
    NeighbourMessage m;
    ASSERT_EQ(parse_message(request(a, b), m), DropReason::kNone);
    EXPECT_TRUE(m.request && m.has_mac && !m.probe);
    EXPECT_EQ(m.mac, kMac1);
    EXPECT_EQ(m.sender, a);
    EXPECT_EQ(m.target, b);
    ASSERT_EQ(parse_message(with_vlan(request(a, b)), m), DropReason::kNone);

    Bytes8 f(kNeighbourFrameBytes);
    f.resize(write_neighbour_reply(f.data(), kMac2, b, kMac1, a));
    ASSERT_EQ(parse_message(f, m), DropReason::kNone);
    EXPECT_TRUE(!m.request && m.solicited && m.has_mac);
    EXPECT_EQ(m.mac, kMac2);
    EXPECT_EQ(m.target, b);

    f.resize(kNeighbourFrameBytes);
    f.resize(write_neighbour_request(f.data(), kMac1, a, b, &kMac2));
    EXPECT_EQ(0, std::memcmp(f.data(), kMac2.b.data(), 6));
    ASSERT_EQ(parse_message(f, m), DropReason::kNone);
    EXPECT_EQ(m.target, b);
  }
}

TEST(neighbour_frame, answer_to_duplicate_address_detection_goes_to_all_nodes) {
  Bytes8 f(kNeighbourFrameBytes);
  f.resize(write_neighbour_reply(f.data(), kMac2, ip6(2), kMac1, {}, true));
  NeighbourMessage m;
  ASSERT_EQ(parse_message(f, m), DropReason::kNone);
  EXPECT_FALSE(m.solicited);
  EXPECT_EQ(0, std::memcmp(f.data(), "\x33\x33\0\0\0\1", 6));
}

TEST(parse_neighbour, refuses_malformed) {
  NeighbourMessage m;
  const auto changed = [&](const char* hex, std::size_t at, std::uint8_t x) {
    Bytes8 f = from_hex(hex);
    f[at] = x;
    return parse_message(f, m);
  };
  EXPECT_EQ(changed(kArpRequest, 15, 2), DropReason::kIpHeader);     // hardware type
  EXPECT_EQ(changed(kArpRequest, 18, 8), DropReason::kIpHeader);     // address length
  EXPECT_EQ(changed(kArpRequest, 21, 3), DropReason::kIpHeader);     // RARP
  EXPECT_EQ(changed(kArpRequest, 22, 3), DropReason::kIpHeader);     // sender MAC is multicast
  EXPECT_EQ(changed(kArpRequest, 28, 0xe0), DropReason::kIpHeader);  // sender IP is multicast
  EXPECT_EQ(changed(kNs, 21, 64), DropReason::kIpHeader);  // hop limit: came through a router
  EXPECT_EQ(changed(kNs, 57, 0x98), DropReason::kUdpChecksum);
  EXPECT_EQ(changed(kNs, 55, 1), DropReason::kUdpChecksum);  // code, not checksummed again
  EXPECT_EQ(changed(kNs, 79, 0), DropReason::kUdpChecksum);
}

TEST(parse_neighbour, option_of_length_zero_ends) {
  Bytes8 f = from_hex(kNs);
  f[79] = 0;  // length of the option
  const std::uint16_t sum =
      static_cast<std::uint16_t>(((f[56] << 8) | f[57]) + 1);  // keeps the sum
  f[56] = static_cast<std::uint8_t>(sum >> 8);
  f[57] = static_cast<std::uint8_t>(sum);
  NeighbourMessage m;
  EXPECT_EQ(parse_message(f, m), DropReason::kIpHeader);
}

TEST(parse_neighbour, every_cut_and_10000_mutations_stay_inside) {
  std::mt19937 rng(99);
  const Bytes8 frames[] = {from_hex(kArpRequest), from_hex(kNs), from_hex(kNa)};
  const auto exact = [](const Bytes8& f, std::size_t n) {
    const auto copy = std::make_unique<std::uint8_t[]>(n);
    if (n != 0) std::memcpy(copy.get(), f.data(), n);
    FrameView v;
    NeighbourMessage m;
    DropReason r = parse_frame(copy.get(), static_cast<std::uint32_t>(n), v);
    if (r == DropReason::kNone && v.kind == FrameKind::kNeighbour) r = parse_neighbour(v, m);
    return r;
  };
  for (const Bytes8& f : frames) {
    for (std::size_t n = 0; n < f.size(); ++n)
      EXPECT_EQ(exact(f, n), DropReason::kTruncatedFrame) << n;
    EXPECT_EQ(exact(f, f.size()), DropReason::kNone);
  }
  unsigned accepted = 0;
  for (int i = 0; i < 10000; ++i) {
    Bytes8 f = frames[rng() % 3];
    for (auto k = rng() % 4; k-- != 0;) f[rng() % f.size()] = static_cast<std::uint8_t>(rng());
    accepted += exact(f, f.size()) == DropReason::kNone;
  }
  EXPECT_GT(accepted, 1000U);
}

}  // namespace metaroce::wire
