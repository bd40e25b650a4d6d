// Random loss, duplication, reordering and bursts on the test link, 200 seeds each.
#include "support/workload.h"

namespace metaroce::test {
namespace {

struct Totals {
  std::uint64_t resent = 0, lost = 0, spurious = 0, raised = 0, data = 0;
};

template <typename Setup>
Totals sweep(Setup&& setup, std::uint64_t seeds = 200, Nanos probe_floor = 100 * kMicrosecond) {
  constexpr std::uint32_t kMessages = 40;
  Totals t;
  const auto [from, to] = seed_range(seeds);
  for (std::uint64_t seed = from; seed < to; ++seed) {
    WorldOptions o;
    o.seed = seed;
    o.streams = 1 + static_cast<std::uint32_t>(seed % 3);
    o.paths = 1U << (seed % 5);
    o.planes = o.paths >= 4 ? 1U << (seed % 3) : 1;
    o.config.probe_timeout_floor = probe_floor;
    o.crc = seed % 4 == 0;
    World w(o);
    w.check_invariants = seed % 10 == 0;
    setup(w);
    Workload load(w, kMessages);
    const bool finished = load.run(3 * kSecond);
    EXPECT_TRUE(finished) << "not finished: " << w.replay();
    if (!finished) return t;
    load.check();
    if (::testing::Test::HasFatalFailure()) return t;
    t.resent += w.a.tx.counters().resent_packets;
    t.spurious += w.a.tx.counters().spurious_packets;
    t.lost += w.ab.lost_data;
    t.data += w.a.tx.counters().data_packets;
    for (auto p : w.a.tx.conn(ConnIndex{1})->paths) t.raised += p.dup.value(w.now) > 1 ? 1 : 0;
  }
  return t;
}

// [MR-7.3] A gap triggers the resend of exactly the missing packet.
TEST(Loss, independent_resends_what_was_lost) {
  Totals sum;
  for (const std::uint32_t ppm : {1000U, 10000U, 100000U}) {
    const Totals t = sweep([&](World& w) { w.ab.faults.loss_ppm = w.ba.faults.loss_ppm = ppm; });
    if (::testing::Test::HasFailure()) return;
    sum.lost += t.lost;
    sum.resent += t.resent;
    std::printf("loss %5.1f %%: data %lu lost %lu resent %lu ratio %.3f\n", ppm / 1e4, t.data,
                t.lost, t.resent,
                t.lost == 0 ? 0.0 : static_cast<double>(t.resent) / static_cast<double>(t.lost));
  }
  ASSERT_GT(sum.lost, 1000U);
  EXPECT_GE(sum.resent, sum.lost);
  EXPECT_LE(static_cast<double>(sum.resent), 1.05 * static_cast<double>(sum.lost));
}

TEST(Loss, bursts_finish) {
  const Totals t = sweep([](World& w) {
    w.ab.faults.burst_ppm = 3000;
    w.ab.faults.burst_length = 20;
  });
  EXPECT_GT(t.lost, 1000U);
}

TEST(Loss, duplication_places_once) {
  sweep([](World& w) {
    w.ab.faults.duplicate_ppm = w.ba.faults.duplicate_ppm = 100000;
    w.ab.faults.loss_ppm = 10000;
  });
}

TEST(Loss, reordering_across_paths_is_not_loss) {
  // The slowest of 16 paths has 115 us more round trip: probe timeouts stay out of the way.
  const Totals t =
      sweep([](World& w) { w.ab.faults.path_skew = 7 * kMicrosecond; }, 200, kMillisecond);
  EXPECT_EQ(t.resent, 0U);
}

TEST(Loss, reordering_inside_a_path_finishes) {
  const Totals t = sweep([](World& w) {
    w.ab.faults.reorder_ppm = 50000;
    w.ab.faults.loss_ppm = 5000;
  });
  EXPECT_GT(t.raised, 100U) << "the threshold must rise under reordering inside a path";
}

TEST(Loss, ce_marks_everywhere_finish) {
  sweep(
      [](World& w) {
        w.ab.faults.ce_ppm = 300000;
        w.ab.faults.loss_ppm = 10000;
      },
      50);
}

TEST(Loss, everything_at_once_finishes) {
  sweep([](World& w) {
    w.ab.faults = w.ba.faults = LinkFaults{.loss_ppm = 20000,
                                           .duplicate_ppm = 20000,
                                           .reorder_ppm = 20000,
                                           .path_skew = 3 * kMicrosecond,
                                           .burst_ppm = 500,
                                           .burst_length = 30,
                                           .ce_ppm = 20000,
                                           .corrupt_ppm = 0};
  });
}

}  // namespace
}  // namespace metaroce::test
