#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "metaroce-perf/histogram.h"
#include "metaroce-perf/pattern.h"
#include "metaroce-perf/schedule.h"

namespace metaroce::perf {
namespace {

TEST(Pattern, check__every_size_and_alignment) {
  std::vector<std::uint8_t> buffer(1200);
  for (std::size_t shift = 0; shift < 9; ++shift)
    for (std::size_t size : {0U, 1U, 7U, 8U, 9U, 63U, 511U, 512U, 513U, 1024U, 1100U}) {
      const std::uint64_t key = pattern_key(1, 0, 2, 3, size);
      fill_pattern(key, buffer.data() + shift, size);
      EXPECT_FALSE(check_pattern(key, buffer.data() + shift, size));
      for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(buffer[shift + i], pattern_byte(key, i));
    }
}

TEST(Pattern, check__single_flip_is_located) {
  constexpr std::size_t kSize = 9000;
  std::vector<std::uint8_t> data(kSize);
  const std::uint64_t key = pattern_key(7, 1, 0, 0, 12);
  for (std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{511}, std::size_t{512},
                         std::size_t{4095}, std::size_t{4096}, std::size_t{8999}}) {
    fill_pattern(key, data.data(), kSize);
    data[at] ^= 0x10;
    const auto bad = check_pattern(key, data.data(), kSize);
    ASSERT_TRUE(bad);
    EXPECT_EQ(bad->offset, at);
    EXPECT_EQ(bad->expected ^ bad->found, 0x10);
  }
}

TEST(Pattern, key__differs_by_message_stream_round_direction) {
  std::vector<std::uint8_t> data(64);
  fill_pattern(pattern_key(1, 0, 0, 0, 5), data.data(), data.size());
  EXPECT_TRUE(check_pattern(pattern_key(1, 0, 0, 0, 6), data.data(), data.size()));
  EXPECT_TRUE(check_pattern(pattern_key(1, 0, 0, 1, 5), data.data(), data.size()));
  EXPECT_TRUE(check_pattern(pattern_key(1, 0, 1, 0, 5), data.data(), data.size()));
  EXPECT_TRUE(check_pattern(pattern_key(1, 1, 0, 0, 5), data.data(), data.size()));
  EXPECT_TRUE(check_pattern(pattern_key(2, 0, 0, 0, 5), data.data(), data.size()));
}

// Drives a schedule with completions for signalled messages only and releases that lag.
void run_to_end(PostSchedule s, std::uint64_t want, std::uint64_t slots, std::uint32_t depth,
                Rng& rng, std::int64_t stop_after = -1) {
  std::vector<std::uint64_t> signaled;
  std::uint64_t steps = 0;
  while (!(s.done() && s.all_released())) {
    ASSERT_LT(++steps, 1000000U) << "never ends";
    const std::uint64_t room = s.room();
    const std::uint64_t n =
        room ? 1 + rng.below(static_cast<std::uint32_t>(std::min<std::uint64_t>(room, 16))) : 0;
    for (std::uint64_t i = 0; i < n; ++i)
      if (s.signaled(i)) signaled.push_back(s.posted() + i);
    s.post(n);
    ASSERT_LE(s.posted() - s.completed(), depth);
    ASSERT_LE(s.posted() - s.released(), slots);
    if (stop_after >= 0 && static_cast<std::uint64_t>(stop_after) <= s.posted()) {
      s.stop();
      stop_after = -1;
    }
    if (room == 0 || rng.below(3) == 0) {
      if (!signaled.empty()) {
        s.complete(signaled.front());
        signaled.erase(signaled.begin());
      }
      s.release(s.released() + rng.below(4));
    }
  }
  if (want != PostSchedule::kUnlimited) {
    EXPECT_EQ(s.completed(), want);
  }
  EXPECT_TRUE(signaled.empty());
}

TEST(PostSchedule, grid__ends_exactly) {
  Rng rng(1);
  for (std::uint64_t iterations : {1U, 2U, 3U, 99U, 100U, 101U, 10000U})
    for (std::uint32_t moderation : {1U, 2U, 100U, 128U})
      for (std::uint32_t depth : {1U, 3U, 12U, 83U, 128U, 4096U})
        for (std::uint64_t slots : {std::uint64_t{1}, std::uint64_t{5}, PostSchedule::kUnlimited})
          run_to_end(PostSchedule(iterations, depth, moderation, slots), iterations, slots, depth,
                     rng);
}

TEST(PostSchedule, stop__adds_at_most_the_signal) {
  Rng rng(2);
  for (std::uint32_t moderation : {1U, 7U, 64U})
    for (std::int64_t stop_after : {0, 1, 6, 7, 8, 63, 64, 65, 1000}) {
      PostSchedule s(PostSchedule::kUnlimited, 64, moderation, 100);
      run_to_end(s, PostSchedule::kUnlimited, 100, 64, rng, stop_after);
    }
  PostSchedule fresh(PostSchedule::kUnlimited, 64, 7, 100);
  fresh.stop();
  EXPECT_TRUE(fresh.done());
  fresh = PostSchedule(PostSchedule::kUnlimited, 64, 7, 100);
  fresh.post(3);
  fresh.stop();
  EXPECT_EQ(fresh.room(), 1U);
  EXPECT_TRUE(fresh.signaled(0));
}

TEST(LatencyHistogram, quantile__within_one_percent) {
  LatencyHistogram h;
  EXPECT_EQ(h.quantile(0.5), 0U);
  EXPECT_EQ(h.min(), 0U);
  for (std::uint64_t i = 1; i <= 100000; ++i) h.add(i * 10);
  EXPECT_EQ(h.min(), 10U);
  EXPECT_EQ(h.max(), 1000000U);
  for (double q : {0.01, 0.5, 0.99, 0.999, 1.0})
    EXPECT_NEAR(static_cast<double>(h.quantile(q)), q * 1000000, q * 10000);
  LatencyHistogram wide;
  wide.add(0);
  wide.add(UINT64_MAX);
  EXPECT_EQ(wide.quantile(0.5), 0U);
  EXPECT_GE(wide.quantile(1.0), UINT64_MAX / 100 * 99);
}

}  // namespace
}  // namespace metaroce::perf
