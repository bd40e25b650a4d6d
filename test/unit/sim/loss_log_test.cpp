#include "sim/loss_log.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sim/world.h"
#include "small_scenario.h"

namespace metaroce::sim {
namespace {

TEST(LossLog, counts_transmissions_by_packet) {
  const Workload w = workload(4, {flow(0, 1, 5000), flow(2, 3, 4096)});
  const Ledger ledger(w.flows, 4096);
  std::vector<LostPacket> seen;
  LossLog log([&](const LostPacket& p) { seen.push_back(p); }, 1000, ledger);
  EXPECT_EQ(log.sent(4096), 1);
  EXPECT_EQ(log.sent(4096), 2);
  EXPECT_EQ(log.sent(2 * 4096), 1);
  log.lost(1500, 4096, 1, fabric::Loss::kRandom);
  log.lost(1600, 2 * 4096, 1, fabric::Loss::kQueueFull);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].at, 500);
  EXPECT_EQ(seen[0].flow, 0U);
  EXPECT_EQ(seen[0].offset, 4096U);
  EXPECT_EQ(seen[0].transmission, 1);
  EXPECT_EQ(seen[0].cause, fabric::loss_name(fabric::Loss::kRandom));
  EXPECT_EQ(seen[1].flow, 1U);
  EXPECT_EQ(seen[1].offset, 0U);
  for (int i = 0; i < 70'000; ++i) log.sent(0);
  EXPECT_EQ(log.sent(0), UINT16_MAX);  // and stays there
}

// Nothing is resent that arrived, so every transmission of a packet but the last was lost.
TEST(LossLog, lists_every_loss_of_a_run_once) {
  Scenario s = small_scenario(3);
  s.fabric.queue_bytes = 8 << 20;
  s.fabric.faults = {everywhere(fabric::FaultKind::kLoss, fabric::kCertain / 20),
                     everywhere(fabric::FaultKind::kCorrupt, fabric::kCertain / 50)};
  const Workload w = workload(3, {flow(0, 2, 2 << 20), flow(1, 2, 1'000'001)});
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::set<std::uint16_t>> lost;
  std::map<std::string_view, std::uint64_t> causes;
  Nanos last = 0;
  RunHooks hooks;
  hooks.loss = [&](const LostPacket& p) {
    EXPECT_GE(p.at, last);
    last = p.at;
    ASSERT_LT(p.flow, 2U);
    EXPECT_LT(p.offset, w.flows[p.flow].bytes);
    EXPECT_EQ(p.offset % 4096, 0U);
    EXPECT_TRUE(lost[std::pair(p.flow, p.offset)].insert(p.transmission).second);
    ++causes[p.cause];
  };
  const RunResult r = run(s, w, hooks);
  ASSERT_EQ(r.outcome, Outcome::kComplete);
  ASSERT_EQ(r.totals.spurious, 0U);
  std::uint64_t all = 0, longest = 0;
  for (const auto& [packet, transmissions] : lost) {
    all += transmissions.size();
    longest = std::max<std::uint64_t>(longest, transmissions.size());
    EXPECT_EQ(*transmissions.begin(), 1);
    EXPECT_EQ(*transmissions.rbegin(), transmissions.size());
  }
  EXPECT_EQ(all, r.totals.data_lost);
  EXPECT_GT(longest, 1U);
  EXPECT_EQ(causes.size(), 2U);
  EXPECT_GT(causes[fabric::loss_name(fabric::Loss::kCorrupt)], 0U);
  EXPECT_EQ(r.trace_hash, run(s, w, {}).trace_hash);  // listing only observes
}

}  // namespace
}  // namespace metaroce::sim
