#include "dataplane/neighbour.h"

#include <gtest/gtest.h>

#include "../wire/net_frames.h"

namespace metaroce {
namespace {

using wire::Bytes8;
using wire::ip4;
using wire::ip6;
using wire::kMac1;
using wire::kMac2;
using wire::kMac3;

// Host 1 with 10.0.0.1/24 and fd00::1/64, each with host 9 as its gateway.
struct Host {
  std::vector<Bytes8> sent;
  std::vector<std::pair<IpAddress, std::optional<MacAddress>>> changes;
  NeighbourTable table;

  explicit Host(NeighbourConfig c = config())
      : table(
            std::move(c),
            [this](std::span<const std::uint8_t> f) { sent.emplace_back(f.begin(), f.end()); },
            [this](const IpAddress& ip, const MacAddress* now_at) {
              changes.emplace_back(ip, now_at != nullptr ? std::optional(*now_at) : std::nullopt);
            }) {}
  static NeighbourConfig config() {
    NeighbourConfig c;
    c.mac = kMac1;
    c.addresses = {{ip4(1), 24, ip4(9)}, {ip6(1), 64, ip6(9)}};
    return c;
  }
  Resolved resolve(const IpAddress& ip, Nanos now = 1) { return table.resolve(ip, now, mac); }
  DropReason hear(const Bytes8& f, Nanos now = 1) {
    wire::FrameView v;
    EXPECT_EQ(wire::parse(f, v), DropReason::kNone);
    return table.receive(v, now);
  }
  // The message of the last frame sent; its Ethernet destination in `to`.
  wire::NeighbourMessage last() {
    wire::FrameView v;
    wire::NeighbourMessage m;
    EXPECT_FALSE(sent.empty());
    EXPECT_EQ(wire::parse(sent.back(), v), DropReason::kNone);
    EXPECT_EQ(wire::parse_neighbour(v, m), DropReason::kNone);
    std::memcpy(to.b.data(), v.dst_mac(), 6);
    return m;
  }
  MacAddress mac, to;
};

Bytes8 reply(const MacAddress& mac, const IpAddress& ip, const IpAddress& to,
             const MacAddress& to_mac = kMac1) {
  Bytes8 f(wire::kNeighbourFrameBytes);
  f.resize(wire::write_neighbour_reply(f.data(), mac, ip, to_mac, to));
  return f;
}
Bytes8 request(const MacAddress& mac, const IpAddress& from, const IpAddress& target) {
  Bytes8 f(wire::kNeighbourFrameBytes);
  f.resize(wire::write_neighbour_request(f.data(), mac, from, target));
  return f;
}
// Gratuitous ARP in its answer form.
Bytes8 gratuitous(const MacAddress& mac, const IpAddress& ip) {
  return reply(mac, ip, ip, MacAddress{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}});
}

class Both : public testing::TestWithParam<bool> {
 protected:
  static IpAddress ip(std::uint8_t n) { return GetParam() ? ip6(n) : ip4(n); }
};

}  // namespace

TEST_P(Both, resolve__asks_learns_and_uses) {
  Host h;
  EXPECT_EQ(h.resolve(ip(2)), Resolved::kAsking);
  ASSERT_EQ(h.sent.size(), 1U);
  const auto m = h.last();
  EXPECT_TRUE(m.request);
  EXPECT_EQ(m.target, ip(2));
  EXPECT_EQ(m.sender, ip(1));
  EXPECT_EQ(h.resolve(ip(2)), Resolved::kAsking);
  EXPECT_EQ(h.sent.size(), 1U);  // one request, however many packets wait
  EXPECT_EQ(h.hear(reply(kMac2, ip(2), ip(1))), DropReason::kNone);
  EXPECT_EQ(h.resolve(ip(2)), Resolved::kReady);
  EXPECT_EQ(h.mac, kMac2);
  ASSERT_EQ(h.changes.size(), 1U);
  EXPECT_EQ(h.changes[0].second, kMac2);
}

TEST_P(Both, resolve__off_the_link_asks_for_the_gateway) {
  Host h;
  IpAddress far = ip(2);
  far.b[1] = 0x77;
  EXPECT_EQ(h.table.next_hop(far), ip(9));
  EXPECT_EQ(h.resolve(far), Resolved::kAsking);
  EXPECT_EQ(h.last().target, ip(9));
  h.hear(reply(kMac3, ip(9), ip(1)));
  EXPECT_EQ(h.resolve(far), Resolved::kReady);
  EXPECT_EQ(h.mac, kMac3);
}

TEST_P(Both, resolve__no_route) {
  NeighbourConfig c = Host::config();
  for (auto& a : c.addresses) a.gateway.reset();
  Host h(c);
  IpAddress far = ip(2), multicast = ip(2);
  far.b[1] = 0x77;
  multicast.b[0] = GetParam() ? 0xff : 0xe0;
  for (const IpAddress& a : {far, multicast, ip(1), IpAddress{{}, GetParam()}})
    EXPECT_EQ(h.resolve(a), Resolved::kNoRoute);
  EXPECT_TRUE(h.sent.empty());
}

TEST(NeighbourTable, resolve__subnet_broadcast_and_foreign_family_have_no_route) {
  NeighbourConfig c = Host::config();
  c.addresses.resize(1);
  Host h(c);
  EXPECT_EQ(h.resolve(ip4(255)), Resolved::kNoRoute);
  EXPECT_EQ(h.resolve(ip4(0)), Resolved::kNoRoute);
  EXPECT_EQ(h.resolve(ip6(2)), Resolved::kNoRoute);
}

TEST_P(Both, tick__retries_with_back_off_then_fails_then_asks_again) {
  Host h;
  h.resolve(ip(2));
  std::vector<Nanos> at = {1};
  for (Nanos t = 1; t < 10 * kSecond && h.changes.empty(); t += kMillisecond) {
    const std::size_t before = h.sent.size();
    h.table.tick(t);
    if (h.sent.size() != before) at.push_back(t);
  }
  ASSERT_EQ(at.size(), 6U);  // retry_limit
  for (std::size_t i = 2; i < at.size(); ++i) EXPECT_GE(at[i] - at[i - 1], at[i - 1] - at[i - 2]);
  EXPECT_LE(at[5] - at[4], kSecond + kMillisecond);
  ASSERT_EQ(h.changes.size(), 1U);
  EXPECT_FALSE(h.changes[0].second.has_value());
  EXPECT_EQ(h.resolve(ip(2), 4 * kSecond), Resolved::kFailed);
  h.table.tick(20 * kSecond);
  EXPECT_EQ(h.resolve(ip(2), 20 * kSecond), Resolved::kAsking);
}

TEST_P(Both, tick__checks_a_used_neighbour_and_keeps_its_mac_meanwhile) {
  Host h;
  h.resolve(ip(2));
  h.hear(reply(kMac2, ip(2), ip(1)));
  Nanos t = 31 * kSecond;
  h.table.tick(t);
  ASSERT_EQ(h.sent.size(), 2U);
  h.last();
  EXPECT_EQ(h.to, kMac2);  // unicast: nobody else is disturbed
  EXPECT_EQ(h.resolve(ip(2), t), Resolved::kReady);
  h.hear(reply(kMac2, ip(2), ip(1)), t);
  h.table.tick(t + kSecond);
  EXPECT_EQ(h.sent.size(), 2U);
  EXPECT_EQ(h.changes.size(), 1U);  // confirmed, not changed
  // The next check is answered by nobody: asks everybody, then fails.
  t += 31 * kSecond;
  for (int i = 0; i < 20; ++i, t += kSecond) h.table.tick(t);
  EXPECT_NE(h.to, MacAddress{});
  h.last();
  EXPECT_EQ(h.to.b[0] & 1, 1);
  EXPECT_FALSE(h.changes.back().second.has_value());
}

TEST_P(Both, tick__forgets_what_nobody_uses) {
  Host h;
  h.resolve(ip(2), kSecond);
  h.hear(reply(kMac2, ip(2), ip(1)), kSecond);
  for (Nanos t = kSecond; t < 700 * kSecond; t += kSecond / 4) {
    const std::size_t before = h.sent.size();
    h.table.tick(t);
    if (h.sent.size() != before) h.hear(reply(kMac2, ip(2), ip(1)), t);
  }
  EXPECT_EQ(h.table.size(), 0U);
  EXPECT_EQ(h.table.next_deadline(), kNever);
}

TEST_P(Both, receive__answers_requests_for_our_address_only) {
  Host h;
  h.hear(request(kMac2, ip(2), ip(3)));
  EXPECT_TRUE(h.sent.empty());
  EXPECT_EQ(h.table.size(), 0U);
  h.hear(request(kMac2, ip(2), ip(1)));
  ASSERT_EQ(h.sent.size(), 1U);
  EXPECT_EQ(h.sent[0], reply(kMac1, ip(1), ip(2), kMac2));
  // The asker is going to talk to us: it is known now.
  EXPECT_EQ(h.resolve(ip(2)), Resolved::kReady);
  EXPECT_EQ(h.mac, kMac2);
}

TEST_P(Both, receive__does_not_learn_what_nobody_asked) {
  Host h;
  h.hear(gratuitous(kMac2, ip(2)));
  h.hear(reply(kMac2, ip(2), ip(1)));
  EXPECT_EQ(h.table.size(), 0U);
  IpAddress far = ip(2);
  far.b[1] = 0x77;
  h.hear(request(kMac2, far, ip(1)));  // answered, but not a neighbour
  EXPECT_EQ(h.sent.size(), 1U);
  EXPECT_EQ(h.table.size(), 0U);
}

TEST_P(Both, receive__a_move_is_checked_before_it_is_believed) {
  Host h;
  h.resolve(ip(2));
  h.hear(reply(kMac2, ip(2), ip(1)));
  const Nanos t = 5 * kSecond;
  // A liar: unasked answer, then a request with another MAC. The first makes us ask, once.
  h.hear(reply(kMac3, ip(2), ip(1)), t);
  ASSERT_EQ(h.sent.size(), 2U);
  EXPECT_TRUE(h.last().request);
  EXPECT_EQ(h.resolve(ip(2), t), Resolved::kReady);
  EXPECT_EQ(h.mac, kMac2);
  h.hear(reply(kMac2, ip(2), ip(1)), t);  // the owner answers first
  h.hear(reply(kMac3, ip(2), ip(1)), t);  // within retry_first: not even a check
  h.hear(request(kMac3, ip(2), ip(1)), t);
  h.resolve(ip(2), t);
  EXPECT_EQ(h.mac, kMac2);
  EXPECT_EQ(h.changes.size(), 1U);
  // A real fail-over: the new host announces itself and answers.
  h.hear(gratuitous(kMac3, ip(2)), t + kSecond);
  h.hear(reply(kMac3, ip(2), ip(1)), t + kSecond);
  h.resolve(ip(2), t + kSecond);
  EXPECT_EQ(h.mac, kMac3);
  EXPECT_EQ(h.changes.size(), 2U);
  EXPECT_EQ(h.table.stats().changed, 1U);
}

TEST(NeighbourTable, announce__is_heard_as_a_move_of_every_address) {
  Host moved;
  moved.table.announce();
  ASSERT_EQ(moved.sent.size(), 2U);
  NeighbourConfig c;
  c.mac = kMac3;
  c.addresses = {{ip4(2), 24, {}}, {ip6(2), 64, {}}};
  Host peer(c);
  for (const IpAddress& ip : {ip4(1), ip6(1)}) {
    EXPECT_EQ(peer.resolve(ip), Resolved::kAsking);
    EXPECT_EQ(peer.hear(reply(kMac2, ip, ip.v6 ? ip6(2) : ip4(2), kMac3)), DropReason::kNone);
    EXPECT_EQ(peer.resolve(ip), Resolved::kReady);
  }
  peer.sent.clear();
  for (const Bytes8& f : moved.sent) EXPECT_EQ(peer.hear(f, kSecond), DropReason::kNone);
  EXPECT_EQ(peer.sent.size(), 2U);  // asks everybody about both
}

TEST(NeighbourTable, doubt__checks_a_neighbour_at_once) {
  Host h;
  h.resolve(ip4(2));
  h.hear(reply(kMac2, ip4(2), ip4(1)));
  h.sent.clear();
  h.table.doubt(ip4(3), kSecond);  // unknown: nothing to check
  h.table.tick(kSecond);
  EXPECT_TRUE(h.sent.empty());
  h.table.doubt(ip4(2), kSecond);
  h.table.tick(kSecond);
  ASSERT_EQ(h.sent.size(), 1U);
  h.last();
  EXPECT_EQ(h.to, kMac2);  // the known MAC first
  EXPECT_EQ(h.resolve(ip4(2), kSecond), Resolved::kReady);
}

TEST_P(Both, receive__our_own_address_from_another_host_is_a_conflict) {
  Host h;
  h.hear(request(kMac2, ip(1), ip(3)));
  h.hear(gratuitous(kMac2, ip(1)));
  EXPECT_EQ(h.table.stats().conflicts, 2U);
  EXPECT_EQ(h.table.size(), 0U);
  h.hear(request(kMac1, ip(1), ip(3)));  // our frame, looped back
  EXPECT_EQ(h.table.stats().conflicts, 2U);
}

TEST_P(Both, add_static__is_never_changed) {
  Host h;
  EXPECT_FALSE(h.table.add_static(ip(1), kMac2));
  EXPECT_FALSE(h.table.add_static(ip(2), MacAddress{{1, 0, 0, 0, 0, 0}}));
  IpAddress far = ip(2);
  far.b[1] = 0x77;
  for (const IpAddress& a : {ip(2), far}) {
    ASSERT_TRUE(h.table.add_static(a, kMac2));
    h.hear(reply(kMac3, a, ip(1)));
    h.hear(request(kMac3, a, ip(1)));
    h.table.tick(1000 * kSecond);
    EXPECT_EQ(h.resolve(a, 1000 * kSecond), Resolved::kReady);
    EXPECT_EQ(h.mac, kMac2);
  }
}

TEST(NeighbourTable, size_is_bounded) {
  NeighbourConfig c = Host::config();
  c.addresses[0].prefix_len = 8;
  c.max_entries = 16;
  Host h(c);
  for (std::uint8_t i = 1; i < 200; ++i)  // a flood of requests fills half at most
    h.hear(request(kMac2, IpAddress::v4(10, 1, 0, i), ip4(1)), kSecond);
  EXPECT_EQ(h.table.size(), 8U);
  unsigned full = 0;
  for (std::uint8_t i = 1; i <= 20; ++i)
    full += h.resolve(IpAddress::v4(10, 2, 0, i), kSecond) == Resolved::kFull;
  EXPECT_EQ(h.table.size(), 16U);
  EXPECT_EQ(full, 4U);  // 8 free, 8 taken from those nobody used
  EXPECT_EQ(h.table.stats().full, 191U + 4U);
  // Long unused ones make room.
  EXPECT_EQ(h.resolve(IpAddress::v4(10, 3, 0, 1), 100 * kSecond), Resolved::kAsking);
  EXPECT_EQ(h.table.size(), 16U);
}

INSTANTIATE_TEST_SUITE_P(NeighbourTable, Both, testing::Bool(),
                         [](const auto& p) { return p.param ? "ipv6" : "ipv4"; });

}  // namespace metaroce
