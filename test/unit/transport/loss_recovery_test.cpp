// What an acknowledgment resolves, against sets of numbers.
#include "transport/loss_recovery.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"

namespace metaroce {
namespace {

using Set = std::set<std::int64_t>;

struct Case {
  PathWindow w;
  std::int64_t floor = 0, next = 0;  // unwrapped
  Set unresolved;
};

Case draw(Rng& rng) {
  Case c;
  c.floor = c.next = 0xffffffffLL - rng.below(400);
  c.w.floor = c.w.next = PathSeq{static_cast<std::uint32_t>(c.floor)};
  const std::uint32_t span = rng.below(256);
  for (std::uint32_t i = 0; i < span; ++i) {
    EXPECT_EQ(c.w.take().v, static_cast<std::uint32_t>(c.next));
    c.unresolved.insert(c.next++);
  }
  const std::uint32_t holes = rng.below(3) == 0 ? 0 : rng.below(1000000);
  for (std::uint32_t i = 0; i < span; ++i) {
    if (!rng.chance_ppm(holes)) continue;
    c.w.resolve(i);
    c.unresolved.erase(c.floor + i);
  }
  c.w.settle();
  c.floor = c.unresolved.empty() ? c.next : *c.unresolved.begin();
  return c;
}

SackVector vector_of(const Set& s, std::int64_t base) {
  SackVector v;
  for (const auto x : s)
    if (x >= base && x - base < 256) v.set(static_cast<unsigned>(x - base));
  return v;
}

TEST(PathWindow, settle__floor_is_the_lowest_unresolved) {
  Rng rng(11);
  for (int n = 0; n < 5000; ++n) {
    const Case c = draw(rng);
    ASSERT_EQ(c.w.floor.v, static_cast<std::uint32_t>(c.floor));
    ASSERT_EQ(c.w.span(), static_cast<std::uint32_t>(c.next - c.floor));
    ASSERT_EQ(c.w.unresolved, vector_of(c.unresolved, c.floor));
  }
}

// cum below, at and above the floor; SACK bits anywhere that was sent. [MR-2.4.1] [MR-2.4.2]
TEST(AckedVector, agrees_with_a_set) {
  Rng rng(12);
  unsigned above = 0, below = 0;
  for (int n = 0; n < 20000; ++n) {
    const Case c = draw(rng);
    const std::int64_t back = rng.below(10) == 0 ? rng.below(3000) : rng.below(300);
    const std::int64_t cum =
        rng.below(2) == 0 ? c.floor - back
                          : c.floor + rng.below(static_cast<std::uint32_t>(c.next - c.floor) + 1);
    (cum > c.floor ? above : below) += 1;
    PathAck a;
    a.epoch = 3;
    a.cum = PathSeq{static_cast<std::uint32_t>(cum)};
    a.highest = PathSeq{static_cast<std::uint32_t>(c.next - 1)};
    Set acked;
    for (std::int64_t x = c.floor; x < cum; ++x) acked.insert(x);
    const std::uint32_t density = rng.below(1000000);
    for (unsigned i = 0; i < 256 && cum + i < c.next; ++i) {
      if (!rng.chance_ppm(density)) continue;
      a.sack.set(i);
      acked.insert(cum + i);
    }
    SackVector out;
    ASSERT_EQ(acked_vector(c.w, a, 3, out), AckCheck::kOk);
    ASSERT_EQ(out, vector_of(acked, c.floor))
        << "floor " << c.floor << " cum " << cum << " next " << c.next;
  }
  EXPECT_GT(above, 1000U);
  EXPECT_GT(below, 1000U);
}

// [MR-3.6.8] [MR-10.1.4]
TEST(AckedVector, unsent_numbers_are_not_believed) {
  Rng rng(13);
  for (int n = 0; n < 5000; ++n) {
    const Case c = draw(rng);
    PathAck a;
    a.cum = c.w.next;
    a.highest = c.w.next - 1;
    SackVector out;
    ASSERT_EQ(acked_vector(c.w, a, 0, out), AckCheck::kOk);
    PathAck b = a;
    b.cum = c.w.next + 1 + rng.below(0x7ffffffe);
    ASSERT_EQ(acked_vector(c.w, b, 0, out), AckCheck::kUnsent);
    b = a;
    b.highest = c.w.next + rng.below(0x7fffffff);
    ASSERT_EQ(acked_vector(c.w, b, 0, out), AckCheck::kUnsent);
    b = a;
    b.cum = c.w.next - rng.below(256);
    const auto first_unsent = static_cast<unsigned>(c.w.next - b.cum);
    b.sack.set(first_unsent + rng.below(256 - first_unsent));
    ASSERT_EQ(acked_vector(c.w, b, 0, out), AckCheck::kUnsent);
  }
}

// [MR-3.6.9]
TEST(AckedVector, another_epoch_is_stale) {
  PathWindow w;
  w.take();
  PathAck a;
  a.cum = w.next;
  SackVector out;
  for (unsigned e = 0; e < 256; ++e) {
    a.epoch = static_cast<std::uint8_t>(e);
    EXPECT_EQ(acked_vector(w, a, 7, out), e == 7 ? AckCheck::kOk : AckCheck::kStale);
  }
}

// [MR-7.3.1] thresholds 1, 3 and 8, and a gap that has waited long enough.
TEST(LostVector, agrees_with_a_set) {
  Rng rng(14);
  std::uint64_t lost_total = 0;
  for (int n = 0; n < 20000; ++n) {
    const Case c = draw(rng);
    Set acked;
    const std::uint32_t density = rng.below(3) == 0 ? 20000 : rng.below(1000000);
    for (std::int64_t x = c.floor; x < c.next; ++x)
      if (rng.chance_ppm(density)) acked.insert(x);
    constexpr unsigned kThresholds[] = {1, 3, 8};
    const unsigned threshold = kThresholds[rng.below(3)];
    const bool ripe = rng.below(4) == 0;
    Set lost;
    for (const auto x : c.unresolved) {
      if (acked.count(x) != 0) continue;
      const auto later = static_cast<std::size_t>(std::distance(acked.upper_bound(x), acked.end()));
      if (later >= (ripe ? 1 : threshold)) lost.insert(x);
    }
    lost_total += lost.size();
    ASSERT_EQ(lost_vector(c.w, vector_of(acked, c.floor), threshold, ripe),
              vector_of(lost, c.floor))
        << "threshold " << threshold << " ripe " << ripe;
  }
  EXPECT_GT(lost_total, 100000U);
}

// [MR-7.3.2] [MR-7.3.3] [MR-7.3.4]
TEST(DupThreshold, rises_on_late_and_decays_after_a_second) {
  DupThreshold d;
  EXPECT_EQ(d.value(0), 1U);
  d.late_seen(0);
  EXPECT_EQ(d.value(1), 3U);
  d.late_seen(10);
  EXPECT_EQ(d.value(10), 8U);
  d.late_seen(20);
  EXPECT_EQ(d.value(20), 8U);
  EXPECT_EQ(d.value(20 + kSecond - 1), 8U);
  EXPECT_EQ(d.value(20 + kSecond), 3U);
  EXPECT_EQ(d.value(20 + 2 * kSecond - 1), 3U);
  EXPECT_EQ(d.value(20 + 2 * kSecond), 1U);
  EXPECT_EQ(d.value(1000 * kSecond), 1U);
  d.late_seen(1000 * kSecond);
  EXPECT_EQ(d.value(1000 * kSecond), 3U);
}

}  // namespace
}  // namespace metaroce
