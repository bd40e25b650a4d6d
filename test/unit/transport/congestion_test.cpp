#include "transport/congestion.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace metaroce {
namespace {

class EcnAimdTest : public ::testing::Test {
 protected:
  void start(std::uint32_t paths, std::uint32_t packet = 4096) {
    paths_.assign(paths, {});
    EcnAimd::start(conn_, paths_.data(), paths, config_, packet, 10 * kMicrosecond, 100000);
    for (auto& p : paths_) p.round_end = PathSeq{100};
  }
  // One round of path p in which `packets` were received, `ce` of them marked.
  void round(std::uint32_t p, std::uint32_t packets, std::uint32_t ce, Bytes acked = 100000) {
    const PathSeq cum = paths_[p].round_end;
    EcnAimd::on_ack(conn_, paths_[p], acked, packets, ce, cum, cum + 100, EcnAimd::Delay{0, 0});
  }
  Bytes sum() const {
    Bytes s = 0;
    for (const auto& p : paths_) s += p.window;
    return s;
  }
  TransportConfig config_;
  EcnAimd::Conn conn_;
  std::vector<EcnAimd::Path> paths_;
};

// [MR-8.2.1] [MR-8.2.8]
TEST_F(EcnAimdTest, start__handshake_rtt_times_line_rate) {
  EXPECT_EQ(EcnAimd::initial_window(config_, 10 * kMicrosecond, 100000), 112500);  // 0.9 x 125 kB
  EXPECT_EQ(EcnAimd::initial_window(config_, 25 * kMicrosecond, 400000), 1125000);
  EXPECT_EQ(EcnAimd::initial_window(config_, 10 * kMillisecond, 400000), 1125000);
  start(4);
  EXPECT_EQ(paths_[0].window, 28125);
  EXPECT_EQ(conn_.window, 112500);
  start(64);
  EXPECT_EQ(paths_[0].window, 2 * 4096) << "two packets per path at least";
  config_.initial_window = 1 << 20;
  start(4);
  EXPECT_EQ(conn_.window, 1 << 20);
}

// [MR-8.3.2] [MR-8.3.11] [MR-8.1.5] under everything at random.
TEST_F(EcnAimdTest, windows__sum_and_limits) {
  Rng rng(5);
  config_.max_window = 4 << 20;
  for (const std::uint32_t n : {1U, 3U, 16U, 256U}) {
    start(n);
    for (int i = 0; i < 50000; ++i) {
      const std::uint32_t p = rng.below(n);
      EcnAimd::Path& path = paths_[p];
      path.used_fully |= rng.below(2) != 0;
      if (rng.below(5) == 0)
        EcnAimd::on_loss(conn_, path, 1 + rng.below(4096));
      else
        round(p, rng.below(100), rng.below(10) == 0 ? rng.below(100) : 0, rng.below(100000));
      ASSERT_EQ(conn_.window, sum());
      ASSERT_GE(path.window, conn_.packet);
      ASSERT_LE(conn_.window, config_.max_window);
      ASSERT_GE(conn_.window, config_.min_window);
    }
  }
}

// [MR-8.1.5] a fixed start beyond the maximum as well.
TEST_F(EcnAimdTest, start__within_the_maximum) {
  config_.initial_window = 64 << 20;
  config_.max_window = 1 << 20;
  start(4);
  EXPECT_EQ(conn_.window, 1 << 20);
}

// [MR-8.3.1] Beyond what the allowed rate needs: a thirty-second per RTT, when it limited sending.
TEST_F(EcnAimdTest, on_ack__grows_by_a_thirty_second_beyond_the_target) {
  config_.initial_window = 2 << 20;
  start(4);
  const Bytes w = paths_[0].window;
  round(0, 10, 0, w);
  EXPECT_EQ(paths_[0].window, w) << "the window did not limit sending";
  paths_[0].used_fully = true;
  round(0, 10, 0, w);
  EXPECT_EQ(paths_[0].window, w + w / 32);
  EXPECT_EQ(conn_.window, sum());
  conn_.hinted = true;
  paths_[1].used_fully = true;
  round(1, 10, 0, w);
  EXPECT_EQ(paths_[1].window, w) << "the receiver said how much";
}

// [MR-8.3.12] Up to it: the faster the more is missing, and not one byte further.
TEST_F(EcnAimdTest, on_ack__grows_fast_up_to_the_target) {
  start(2);
  const Bytes w = paths_[0].window;
  conn_.target = 2 * conn_.window;  // half is missing: three quarters of what is clean
  round(0, 1, 0, 4096);
  EXPECT_NEAR(static_cast<double>(paths_[0].window - w), 3072, 3072 / 32.0);
  round(1, 2, 1, 8192);  // one of two marked: the clean half counts, and the mark takes its part
  EXPECT_NEAR(static_cast<double>(paths_[1].window - w), 3072 - 2048, 3072 / 16.0);
  conn_.target = conn_.window + conn_.window / 10;  // a tenth: less than a sixth as fast
  const Bytes before = paths_[0].window;
  round(0, 1, 0, 4096);
  EXPECT_GT(paths_[0].window, before);
  EXPECT_LT(paths_[0].window, before + 3072 / 5);
  for (int i = 0; i < 200; ++i) round(0, 1, 0, 40960);
  EXPECT_LE(conn_.window, conn_.target);
  EXPECT_GT(conn_.window, conn_.target - conn_.target / 100);
  EXPECT_EQ(conn_.window, sum());
}

// [MR-8.3.12] [MR-8.3.1] What is missing shrinks for ever: the search beyond the target does not
// wait.
TEST_F(EcnAimdTest, on_ack__searches_before_the_last_byte_of_the_target) {
  start(2);
  conn_.target = conn_.window + 10;
  for (int i = 0; i < 4; ++i) {
    paths_[0].used_fully = true;
    round(0, 1, 0, 40960);
  }
  EXPECT_EQ(conn_.window, conn_.target - 10 + 4 * 1280);
}

// [MR-8.3.19] [MR-8.3.20] A path that waits longer than the average gives up half of the difference
// per round trip and does not grow; those that wait less take it up.
TEST_F(EcnAimdTest, on_ack__delay_above_the_average_moves_window) {
  start(2);
  conn_.target = conn_.window;
  paths_[0].early = paths_[1].early = 0;
  const auto acked = [&](std::uint32_t i, Nanos excess, Bytes bytes) {
    const Bytes before = paths_[i].window;
    EcnAimd::on_ack(conn_, paths_[i], bytes, 1, 0, PathSeq{1}, PathSeq{150},
                    EcnAimd::Delay{excess, 8000});
    return paths_[i].window - before;
  };
  for (int i = 0; i < 100; ++i) acked(0, 1000, 0);
  EXPECT_NEAR(static_cast<double>(conn_.mean_queue_8), 8000, 8);
  EXPECT_EQ(acked(0, 900, 8192), 0) << "the connection has what it needs";
  const Bytes given = -acked(1, 2600, 8192);  // the average moves by an eighth of the difference
  EXPECT_NEAR(static_cast<double>(given), 8192 * 1400 / 2 / 8000.0, 8192 / 100.0);
  EXPECT_EQ(acked(1, 2600, 0), 0) << "for what it acknowledges";
  EXPECT_GT(acked(0, 500, 8192), 0);
  conn_.target = 4 * conn_.window;
  EXPECT_EQ(acked(1, 2600, 8192), 0) << "all wait in one queue: nothing is taken, nothing grows";
  EXPECT_GT(acked(0, 500, 8192), 8192) << "and the others do";
  EXPECT_EQ(conn_.window, sum());
}

// [MR-8.3.12] What loss took comes back by a quarter, in whatever queue the path waits; no further.
TEST_F(EcnAimdTest, on_ack__regains_what_it_lost) {
  start(2);
  conn_.target = conn_.window;
  const Bytes before = paths_[0].window;
  EcnAimd::on_loss(conn_, paths_[0], 4096);
  conn_.target = conn_.window + 2048;  // next to nothing is missing
  for (int i = 0; i < 20; ++i) round(0, 1, 0, 4096);
  EXPECT_EQ(paths_[0].window, before - 2048);
  EXPECT_EQ(conn_.window, conn_.target);
}

// [MR-8.3.19] Under a hint the receiver's port is the queue.
TEST_F(EcnAimdTest, on_ack__delay_takes_nothing_under_a_hint) {
  start(2);
  conn_.target = conn_.window;
  conn_.hinted = true;
  const Bytes before = conn_.window;
  EcnAimd::on_ack(conn_, paths_[0], 8192, 1, 0, PathSeq{1}, PathSeq{150},
                  EcnAimd::Delay{5000, 8000});
  EXPECT_EQ(conn_.window, before);
}

// [MR-9.4.6] A path that returned regains its window although its first packets wait.
TEST_F(EcnAimdTest, on_ack__a_returned_path_grows_whatever_its_delay) {
  start(2);
  conn_.target = 4 * conn_.window;  // nothing is taken
  const Bytes before = paths_[0].window;
  EcnAimd::close(conn_, paths_[0], before);
  EcnAimd::on_ack(conn_, paths_[0], 4096, 1, 0, PathSeq{1}, PathSeq{150},
                  EcnAimd::Delay{5000, 8000});
  EXPECT_EQ(paths_[0].window, 2 * 4096);
}

// [MR-8.3.12] A path that left the active set does not grow from what still comes back on it.
TEST_F(EcnAimdTest, on_ack__a_path_without_window_stays_so) {
  start(2);
  EcnAimd::give(paths_[0], paths_[1]);
  conn_.target = 10 * conn_.window;
  round(0, 10, 0);
  EXPECT_EQ(paths_[0].window, 0);
}

// [MR-8.3.13] The first answer of a start.
TEST_F(EcnAimdTest, lift__to_what_the_rate_needs) {
  config_.max_window = 300000;
  start(2);
  EcnAimd::lift(conn_, paths_[0], 120000);
  EXPECT_EQ(paths_[0].window, 120000);
  EcnAimd::lift(conn_, paths_[1], 1000);
  EXPECT_EQ(paths_[1].window, 56250) << "never down";
  EcnAimd::lift(conn_, paths_[1], 1 << 20);
  EXPECT_EQ(conn_.window, 300000);
  EXPECT_EQ(conn_.window, sum());
}

// [MR-8.3.18] All delay counts at the end of the first round of a start or restart, and then no
// more.
TEST_F(EcnAimdTest, on_ack__delay_steers_at_the_start) {
  start(4);  // 28,125 each
  const auto delayed = [&](Nanos excess) {
    EcnAimd::Path& p = paths_[0];
    EcnAimd::on_ack(conn_, p, 0, 10, 0, p.round_end, p.round_end + 100,
                    EcnAimd::Delay{excess, 8000});
  };
  delayed(400);
  EXPECT_EQ(paths_[0].window, 28125 - 28125 * 800 / 8000);
  EXPECT_EQ(conn_.window, sum());
  const Bytes once = paths_[0].window;
  delayed(400);
  EXPECT_EQ(paths_[0].window, once) << "a second round";
  EcnAimd::begin(paths_[0]);
  delayed(100000);
  EXPECT_EQ(paths_[0].window, once - once / 2) << "at most half";
}

// [MR-8.3.18] A round that ends without a sample does not count; a hint, or a connection that is
// far below its target, leaves nothing to move.
TEST_F(EcnAimdTest, on_ack__delay_does_not_steer) {
  start(2);
  round(0, 10, 0, 0);
  round(0, 10, 0, 0);
  const auto delayed = [&](std::uint32_t i) {
    EcnAimd::Path& p = paths_[i];
    const Bytes before = p.window;
    EcnAimd::on_ack(conn_, p, 0, 10, 0, p.round_end, p.round_end + 100, EcnAimd::Delay{400, 8000});
    return before - p.window;
  };
  EXPECT_GT(delayed(0), 0);
  conn_.hinted = true;
  EXPECT_EQ(delayed(0), 0);
  conn_.hinted = false;
  conn_.target = conn_.window * 3 / 2;
  EXPECT_EQ(delayed(1), 0);
}

// [MR-8.3.16] Beyond what the path's sequence holds a window is nobody's.
TEST_F(EcnAimdTest, grow_and_lift__end_where_the_sequence_does) {
  config_.max_window = 1 << 30;
  start(2);
  EcnAimd::lift(conn_, paths_[0], 100 << 20);
  EXPECT_EQ(paths_[0].window, conn_.path_max);
  EXPECT_GE(conn_.path_max, 253 * 4096);
  EXPECT_LE(conn_.path_max, 256 * 4200);
  conn_.target = 1 << 30;
  round(0, 100, 0, 400000);
  EXPECT_EQ(paths_[0].window, conn_.path_max);
  const Bytes w = paths_[1].window;
  round(1, 100, 0, 400000);
  EXPECT_GT(paths_[1].window, w + 400000) << "what is left is for those that can use it";
  EXPECT_EQ(conn_.window, sum());
}

// [MR-8.3.10] [MR-8.3.14] A queue that nobody marks: cut, then steps instead of a quarter.
TEST_F(EcnAimdTest, on_rtt__a_standing_queue_without_marks) {
  config_.initial_window = 800 * 4096;
  start(2);
  conn_.target = 16 * 4096;
  const auto delayed = [&](Nanos rtt) {
    for (std::uint32_t p = 0; p < 2; ++p) {
      EcnAimd::on_rtt(conn_, paths_[p], rtt, 10 * kMicrosecond, 0, 100 * kMicrosecond);
      round(p, 10, 0);
    }
  };
  const Bytes w = paths_[0].window;
  for (std::uint32_t i = 0; i < DelayGuard::kFirstTrust; ++i) delayed(500 * kMicrosecond);
  EXPECT_EQ(paths_[0].window, w);
  delayed(500 * kMicrosecond);
  EXPECT_EQ(paths_[0].window, w / 2);
  EXPECT_EQ(paths_[1].window, w / 2);
  delayed(10 * kMicrosecond);
  EXPECT_EQ(paths_[0].window, w / 2) << "the window did not limit sending";
  paths_[0].used_fully = true;
  delayed(10 * kMicrosecond);
  EXPECT_EQ(paths_[0].window, w / 2 + 16 * 4096 / 16 / 2);
  EXPECT_EQ(conn_.window, sum());
}

// [MR-8.4.15] A hint below the windows: in proportion, one packet at least.
TEST_F(EcnAimdTest, scale__in_proportion) {
  config_.initial_window = 400000;
  start(2);
  EcnAimd::scale(conn_, paths_[0], 100000, 400000);
  EXPECT_EQ(paths_[0].window, 50000);
  EcnAimd::scale(conn_, paths_[1], 1000, 400000);
  EXPECT_EQ(paths_[1].window, 4096);
  EXPECT_EQ(conn_.window, sum());
}

// A round of the loss rule ends when what was next at its start is acknowledged, not before.
TEST_F(EcnAimdTest, on_ack__once_per_round) {
  start(1);
  EXPECT_FALSE(EcnAimd::on_ack(conn_, paths_[0], 1000, 1, 0, PathSeq{99}, PathSeq{150},
                               EcnAimd::Delay{0, 0}))
      << "without a mark it goes on";
  EXPECT_EQ(paths_[0].round_end, PathSeq{100});
  EcnAimd::on_ack(conn_, paths_[0], 1000, 1, 0, PathSeq{100}, PathSeq{150}, EcnAimd::Delay{0, 0});
  EXPECT_EQ(paths_[0].round_end, PathSeq{150});
}

// [MR-8.3.3] [MR-8.3.4] [MR-8.3.5] Half a packet for each marked one, at once: over an RTT of which
// a fraction F is marked that is W x F / 2.
TEST_F(EcnAimdTest, on_ack__each_mark_takes_half_a_packet) {
  config_.initial_window = 800 * 4096;
  start(2);
  const Bytes w = paths_[0].window;
  EXPECT_TRUE(EcnAimd::on_ack(conn_, paths_[0], 10 * 4096, 10, 10, PathSeq{1}, PathSeq{150},
                              EcnAimd::Delay{0, 0}));
  EXPECT_EQ(paths_[0].window, w - 10 * 2048);
  EXPECT_EQ(paths_[1].window, w) << "the other path is not concerned";
  for (int i = 0; i < 39; ++i)
    EcnAimd::on_ack(conn_, paths_[0], 10 * 4096, 10, 10, PathSeq{1}, PathSeq{150},
                    EcnAimd::Delay{0, 0});
  EXPECT_EQ(paths_[0].window, w / 2) << "everything marked for an RTT halves";
  EXPECT_EQ(conn_.window, sum());
}

// [MR-8.3.7] [MR-8.3.9]
TEST_F(EcnAimdTest, on_loss__subtracts_what_was_lost) {
  config_.initial_window = 1 << 20;
  start(2);
  EcnAimd::on_loss(conn_, paths_[0], 4096);
  EXPECT_EQ(paths_[0].window, (1 << 19) - 4096);
  EXPECT_EQ(paths_[1].window, 1 << 19);
  EXPECT_EQ(conn_.window, sum());
}

// [MR-8.3.8]
TEST_F(EcnAimdTest, on_ack__halves_after_two_rounds_above_a_fifth) {
  config_.initial_window = 1 << 20;
  start(1);
  const auto lossy_round = [&](Bytes lost, Bytes acked) {
    EcnAimd::on_loss(conn_, paths_[0], lost);
    const Bytes before = paths_[0].window;
    round(0, 10, 0, acked);
    return std::pair{before, paths_[0].window};
  };
  auto [b1, a1] = lossy_round(2000, 8000);  // exactly 20 %: not more
  EXPECT_EQ(a1, b1);
  auto [b2, a2] = lossy_round(3000, 8000);
  EXPECT_EQ(a2, b2) << "the first one";
  auto [b3, a3] = lossy_round(3000, 8000);
  EXPECT_EQ(a3, b3 - b3 / 2);
  auto [b4, a4] = lossy_round(100, 8000);
  EXPECT_EQ(a4, b4);
  auto [b5, a5] = lossy_round(3000, 8000);
  EXPECT_EQ(a5, b5) << "not in a row";
}

// [MR-8.2.2]
TEST_F(EcnAimdTest, restart__takes_back_growth_not_reduction) {
  config_.initial_window = 1 << 20;
  start(2);
  const Bytes initial = paths_[0].window;
  EcnAimd::on_loss(conn_, paths_[0], 4096);
  conn_.window += 5000;
  paths_[1].window += 5000;
  for (auto& p : paths_) EcnAimd::restart(conn_, p);
  EXPECT_EQ(paths_[0].window, initial - 4096);
  EXPECT_EQ(paths_[1].window, initial);
  EXPECT_EQ(conn_.window, sum());
}

// [MR-9.4.6] A path that failed returns with one packet and doubles per RTT to what it had.
TEST_F(EcnAimdTest, close__doubles_back) {
  start(4);
  EcnAimd::Path& p = paths_[1];
  const Bytes before = p.window;
  EcnAimd::close(conn_, p, before);
  EXPECT_EQ(p.window, conn_.packet);
  EXPECT_EQ(conn_.window, sum());
  for (Bytes want = 2 * conn_.packet; want < before; want *= 2) {
    round(1, 10, 0, p.window);  // all of it acknowledged
    EXPECT_EQ(p.window, want);
  }
  round(1, 10, 0, p.window);
  EXPECT_EQ(p.window, before);
  EXPECT_EQ(conn_.window, sum());
}

TEST_F(EcnAimdTest, close__congestion_ends_the_doubling) {
  start(4);
  EcnAimd::Path& p = paths_[1];
  EcnAimd::close(conn_, p, p.window);
  p.used_fully = true;
  round(1, 10, 10);
  p.used_fully = true;
  round(1, 10, 0);
  EXPECT_LT(p.window, 2 * conn_.packet);
}

// [MR-9.1.6] [MR-8.3.2] Joining and leaving keep the sum.
TEST_F(EcnAimdTest, share_and_give__keep_the_sum) {
  start(2);
  paths_.emplace_back();
  const Bytes whole = conn_.window;
  EcnAimd::share(conn_, paths_[0], paths_[2]);
  EXPECT_GE(paths_[2].window, conn_.packet);
  EXPECT_EQ(conn_.window, whole);
  EXPECT_EQ(sum(), whole);
  EcnAimd::give(paths_[2], paths_[1]);
  EXPECT_EQ(paths_[2].window, 0);
  EXPECT_EQ(sum(), whole);
  EcnAimd::on_loss(conn_, paths_[2], 5000);  // it drains: no window to take from
  EXPECT_EQ(paths_[2].window, 0);
  EXPECT_EQ(sum(), conn_.window);
}

}  // namespace
}  // namespace metaroce
