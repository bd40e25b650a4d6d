// SackVector and SeqWindow against a set of integers that does the same slowly.
#include "base/bitmap.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/rng.h"
#include "support/seed.h"

namespace metaroce {
namespace {

// What a SackVector must be: positions 0..255 in a set.
class SackModel {
 public:
  void set(unsigned i) { bits_.insert(i); }
  void advance(unsigned n) {
    std::set<unsigned> next;
    for (const unsigned i : bits_)
      if (i >= n) next.insert(i - n);
    bits_ = next;
  }
  void check(const SackVector& v) const {
    unsigned ones = 0;
    while (bits_.contains(ones)) ++ones;
    ASSERT_EQ(v.leading_ones(), ones);
    ASSERT_EQ(v.count(), bits_.size());
    ASSERT_EQ(v.any(), !bits_.empty());
    ASSERT_EQ(v.highest(), bits_.empty() ? -1 : static_cast<int>(*bits_.rbegin()));
    for (unsigned i = 0; i < SackVector::kBits; ++i) ASSERT_EQ(v.test(i), bits_.contains(i)) << i;
  }

 private:
  std::set<unsigned> bits_;
};

TEST(SackVector, empty) {
  const SackVector v;
  SackModel{}.check(v);
  EXPECT_FALSE(v.test(256));
  EXPECT_FALSE(v.test(~0U));
}

TEST(SackVector, set__beyond_the_vector_changes_nothing) {
  struct {
    SackVector v;
    std::uint64_t behind = 0;
  } s;
  for (const unsigned i : {256U, 257U, 320U, 1U << 20, ~0U}) s.v.set(i);
  EXPECT_EQ(s.v, SackVector{});
  EXPECT_EQ(s.behind, 0U);
}

TEST(SackVector, full) {
  SackVector v;
  for (unsigned i = 0; i < 256; ++i) v.set(i);
  EXPECT_EQ(v.leading_ones(), 256U);
  EXPECT_EQ(v.count(), 256U);
  EXPECT_EQ(v.highest(), 255);
}

// One bit, every place, every step: the whole behaviour of advance().
TEST(SackVector, advance__every_bit_by_every_distance) {
  for (unsigned bit = 0; bit < 256; ++bit) {
    for (unsigned n = 0; n <= 300; ++n) {
      SackVector v;
      v.set(bit);
      v.advance(n);
      ASSERT_EQ(v.highest(), n <= bit ? static_cast<int>(bit - n) : -1) << bit << " by " << n;
      ASSERT_EQ(v.count(), n <= bit ? 1U : 0U) << bit << " by " << n;
    }
  }
}

TEST(SackVector, random_operations_as_the_model) {
  const test::Seed seed(2);
  SCOPED_TRACE(seed.replay());
  Rng rng(seed.value());
  for (int round = 0; round < 40; ++round) {
    SackVector v;
    SackModel m;
    for (int step = 0; step < 60; ++step) {
      if (rng.below(3) == 0) {
        const unsigned n = rng.below(2) != 0 ? rng.below(8) : rng.below(280);
        v.advance(n);
        m.advance(n);
      } else {
        const unsigned first = rng.below(256), n = rng.below(40);
        for (unsigned i = first; i < std::min(256U, first + n); ++i) {
          v.set(i);
          m.set(i);
        }
      }
      m.check(v);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(SeqWindow, without_storage_nothing_fits) {
  EXPECT_EQ(SeqWindow{}.bits(), 0U);
  EXPECT_EQ(SeqWindow{std::span<std::uint64_t>{}}.bits(), 0U);
  SeqWindow w;
  EXPECT_EQ(w.take_run(17), 0U);
}

TEST(SeqWindow, clears_the_storage_that_it_takes) {
  std::vector<std::uint64_t> words(4, ~std::uint64_t{0});
  const SeqWindow w{words};
  EXPECT_EQ(w.bits(), 256U);
  for (std::uint32_t i = 0; i < 256; ++i) ASSERT_FALSE(w.test(i));
}

TEST(SeqWindow, take_run__whole_window_from_any_start) {
  for (std::uint32_t start = 0xfffffff0; start != 200; ++start) {
    std::vector<std::uint64_t> words(2);
    SeqWindow w{words};
    for (std::uint32_t i = 0; i < 128; ++i) w.set(start + i);
    ASSERT_EQ(w.take_run(start), 128U) << start;  // not more, though the bits go round
    ASSERT_EQ(words, std::vector<std::uint64_t>(2)) << start;
  }
}

TEST(SeqWindow, take_run__every_length_from_every_start) {
  for (std::uint32_t start = 0; start < 128; ++start) {
    for (std::uint32_t len = 0; len < 127; ++len) {
      std::vector<std::uint64_t> words(2);
      SeqWindow w{words};
      for (std::uint32_t i = 0; i < len; ++i) w.set(start + i);
      if (len < 126) w.set(start + len + 1);  // behind one hole
      ASSERT_EQ(w.take_run(start), len) << start;
      ASSERT_EQ(w.test(start + len + 1), len < 126) << start << " " << len;
      for (std::uint32_t i = 0; i <= len; ++i) ASSERT_FALSE(w.test(start + i));
    }
  }
}

// A receiver's life: packets of a window arrive in any order, the run at the base is taken. The
// model is the set of all sequence numbers received and not yet taken.
void receive_randomly(std::size_t words_n, std::uint32_t base, Rng& rng) {
  std::vector<std::uint64_t> words(words_n);
  SeqWindow w{words};
  std::set<std::uint64_t> model;
  std::uint64_t pos = 0;  // of base, not wrapping
  for (int step = 0; step < 1500; ++step) {
    const std::uint32_t reach = rng.below(4) == 0 ? w.bits() : std::min(w.bits(), 24U);
    const std::uint32_t off = rng.below(reach);
    const auto seq = static_cast<std::uint32_t>(base + pos + off);
    ASSERT_EQ(w.test(seq), model.contains(pos + off));
    w.set(seq);
    model.insert(pos + off);
    if (rng.below(3) == 0) {
      std::uint32_t run = 0;
      while (model.erase(pos + run) != 0) ++run;
      ASSERT_EQ(w.take_run(static_cast<std::uint32_t>(base + pos)), run);
      pos += run;
    }
    const std::uint32_t probe = rng.below(w.bits());
    ASSERT_EQ(w.test(static_cast<std::uint32_t>(base + pos + probe)), model.contains(pos + probe));
  }
  for (std::uint32_t i = 0; i < w.bits(); ++i)
    ASSERT_EQ(w.test(static_cast<std::uint32_t>(base + pos + i)), model.contains(pos + i));
}

TEST(SeqWindow, random_arrivals_as_the_model) {
  const test::Seed seed(3);
  SCOPED_TRACE(seed.replay());
  Rng rng(seed.value());
  for (const std::size_t words : {1U, 2U, 4U, 32U, 1024U}) {
    for (const std::uint32_t base : {0U, 63U, 0x7fffffc0U, 0xffffff80U, 0xffffffffU}) {
      receive_randomly(words, base, rng);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace metaroce
