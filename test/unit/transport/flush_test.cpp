// When a FLUSH asks for what would otherwise wait: at drains, after resends, at the end of
// messages.
#include <map>
#include <vector>

#include "support/pair.h"

namespace metaroce::test {
namespace {

WorldOptions options(std::uint32_t paths = 4) {
  WorldOptions o;
  o.paths = paths;
  o.streams = 1;
  return o;
}
bool is_flush(const Frame& f) { return Pair::is(f, wire::Type::kFlush); }
bool is_data(const Frame& f) { return Pair::is(f, wire::Type::kData); }

// [MR-3.5.2] [MR-7.6.1] [MR-7.6.4] Never more than two in a row on one path without DATA between
// them unless the path timed out, and not even two while nothing was lost.
TEST(Flush, drain__at_most_two_in_a_row) {
  Pair p(options());
  p.ab.faults.loss_ppm = 20000;
  p.ab.faults.lose_data_only = true;
  std::map<std::uint8_t, unsigned> in_a_row;
  bool pairs = false;
  p.ab.drop_if = [&](const Frame& f) {
    unsigned& n = in_a_row[f.bytes[2]];
    if (is_data(f)) n = 0;
    if (!is_flush(f)) return false;
    ++n;
    pairs |= n == 2;
    if (p.a.tx.counters().timeouts == 0) {
      EXPECT_LE(n, p.a.tx.counters().lost_packets == 0 ? 1U : 2U);
    }
    return false;
  };
  for (std::uint64_t i = 0; i < 60; ++i) {
    p.write(i, 8000, i * 8192);
    ASSERT_TRUE(p.finish(i + 1));
  }
  EXPECT_GT(p.a.tx.counters().flushes, 10U);
  EXPECT_TRUE(pairs);
}

// [MR-7.6.7] A packet is lost twice. What follows the first resend on its path at once is a FLUSH,
// so that the second loss shows a round trip later, whatever else is sent.
TEST(Flush, resend__is_followed_at_once) {
  Pair p(options());
  const std::uint32_t victim = p.options.initial_spn + 20;
  unsigned copies = 0, flushes = 0, others = 0;
  Nanos resent_at = 0, again_at = 0;
  std::uint8_t path = 0;
  p.ab.drop_if = [&](const Frame& f) {
    if (is_data(f) && Pair::data(f).spn == victim) {
      path = f.bytes[2];
      ++copies;
      if (copies == 2) resent_at = p.now;
      if (copies == 3) again_at = p.now;
      return copies < 3;
    }
    if (copies != 2 || f.bytes[2] != path) return false;
    if (is_data(f)) ++others;
    if (is_flush(f) && others == 0) ++flushes;
    return false;
  };
  p.write(1, 1 << 20);
  ASSERT_TRUE(p.finish(1));
  EXPECT_EQ(copies, 3U);
  EXPECT_EQ(flushes, 1U);
  EXPECT_LT(again_at - resent_at, 2 * p.options.delay + 2 * kMicrosecond);
  EXPECT_EQ(p.a.tx.counters().timeouts, 0U);
}

// [MR-7.6.8] After a loss the end of a long message asks on all its paths, although another message
// follows; without one it does not.
TEST(Flush, end_of_message__asks_although_more_follows) {
  for (const bool lose : {false, true}) {
    Pair p(options());
    const std::uint32_t last = p.options.initial_spn + 4 + 63;
    bool lost = !lose, ended = false;
    std::map<std::uint8_t, unsigned> flushes;
    unsigned data_after = 0;
    p.ab.drop_if = [&](const Frame& f) {
      if (is_data(f) && Pair::data(f).spn == p.options.initial_spn + 2 && !lost) return lost = true;
      if (ended && is_data(f)) ++data_after;
      if (ended && data_after < 8 && is_flush(f)) ++flushes[f.bytes[2]];
      if (is_data(f) && Pair::data(f).spn == last) ended = true;
      return false;
    };
    const std::uint32_t mtu = p.config.payload_mtu;
    p.write(0, 4 * mtu);
    ASSERT_TRUE(p.finish(1));
    p.write(1, 64 * mtu);
    p.write(2, 128 * mtu, 64 * mtu);
    ASSERT_TRUE(p.finish(3));
    EXPECT_EQ(flushes.size(), lose ? 4U : 0U);
  }
}

// [MR-7.1.6] All acknowledgments of a message are lost. The one that answers the first resend says
// that all of it has arrived, and nothing else is sent again.
TEST(Flush, duplicate__is_answered_with_the_stream) {
  Pair p(options(1));
  bool resent = false;
  p.ab.drop_if = [&](const Frame& f) {
    resent |= is_data(f) && (Pair::data(f).c.flags & wire::kFlagRtx) != 0;
    return is_flush(f);
  };
  p.ba.drop_if = [&](const Frame& f) { return Pair::is(f, wire::Type::kAck) && !resent; };
  p.write(1, 6 * p.config.payload_mtu);
  ASSERT_TRUE(p.finish(1));
  EXPECT_EQ(p.a.tx.counters().resent_packets, 1U);
}

}  // namespace
}  // namespace metaroce::test
