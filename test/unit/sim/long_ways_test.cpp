// Whole runs over long ways, and over a link that marks nothing.
#include <gtest/gtest.h>

#include "sim/world.h"
#include "small_scenario.h"

namespace metaroce::sim {
namespace {

using fabric::FaultKind;

Scenario wan(std::uint16_t hosts, Nanos propagation) {
  Scenario s = small_scenario(hosts);
  s.fabric.host_rate_mbps = s.fabric.uplink_rate_mbps = 100'000;
  s.fabric.queue_bytes = 16 << 20;
  s.fabric.ecn_min_bytes = 3 << 20;
  s.fabric.ecn_max_bytes = 12 << 20;
  s.fabric.host_propagation_ns = propagation;
  s.transport.paths_per_plane = 128;
  s.transport.spn_window = 65536;
  s.transport.max_window = 512 << 20;
  s.limits.progress = kSecond;
  return s;
}

RunResult run(const Scenario& s, const Workload& w) {
  World world(s, w);
  return world.run({});
}

Nanos last(const RunResult& r) {
  Nanos t = 0;
  for (const FlowResult& f : r.flows) t = std::max(t, f.sender_done);
  return t;
}

// [MR-8.3.13] 64 MiB are 5.5 ms of 100 Gb/s; the way there and back takes 4. One round trip for the
// first answer, then all: no search.
TEST(LongWays, one_answer_lifts_the_windows) {
  const RunResult r = run(wan(2, kMillisecond), workload(2, {flow(0, 1, 64 << 20)}));
  ASSERT_EQ(r.outcome, Outcome::kComplete);
  EXPECT_LT(last(r), (4 + 4 + 6) * kMillisecond);
  EXPECT_EQ(r.totals.retransmitted, 0U);
}

TEST(LongWays, two_senders_share_a_link) {
  const RunResult r =
      run(wan(3, kMillisecond), workload(3, {flow(0, 2, 64 << 20), flow(1, 2, 64 << 20)}));
  ASSERT_EQ(r.outcome, Outcome::kComplete);
  EXPECT_LT(last(r), (4 + 4 + 12) * kMillisecond);
  EXPECT_EQ(r.totals.retransmitted, 0U);
  EXPECT_NEAR(static_cast<double>(r.flows[0].sender_done),
              static_cast<double>(r.flows[1].sender_done), 1e6);
}

// [MR-8.4.17] [MR-8.3.17] [MR-7.2.6] Four routes of 4 to 10 ms: the windows are what the mean
// needs, and no probe timeout comes before the answer of a longer route.
TEST(LongWays, routes_of_different_lengths) {
  Scenario s = wan(2, 10 * kMicrosecond);
  s.fabric.topology = fabric::Topology::kLeafSpine;
  s.fabric.leaves = 2;
  s.fabric.hosts_per_leaf = 1;
  s.fabric.spines = 4;
  s.fabric.uplink_propagation_ns = 990 * kMicrosecond;
  s.transport.paths_per_plane = 256;
  for (std::uint32_t i = 1; i < 4; ++i) {
    fabric::Fault f = everywhere(FaultKind::kPropagation, 0, i * 500 * kMicrosecond);
    f.target.scope = fabric::Scope::kSwitch;
    f.target.id = s.fabric.leaves + i;
    s.fabric.faults.push_back(f);
  }
  const RunResult r = run(s, workload(2, {flow(0, 1, 256 << 20)}));
  ASSERT_EQ(r.outcome, Outcome::kComplete);
  // 22 ms on the line, a start of 4, the longest way.
  EXPECT_LT(last(r), (22 + 4 + 10 + 5) * kMillisecond);
  EXPECT_EQ(r.totals.spurious, 0U);
}

// [MR-8.3.10] Two senders over one link to receivers of their own: nobody gives a hint, nobody
// marks, and the queue takes 1 MiB, 84 us.
TEST(DelayGuard, a_link_without_marks) {
  Scenario s = wan(4, kMicrosecond);
  s.fabric.topology = fabric::Topology::kLeafSpine;
  s.fabric.leaves = 2;
  s.fabric.hosts_per_leaf = 2;
  s.fabric.spines = 1;
  s.fabric.ecn = fabric::EcnMode::kOff;
  s.fabric.queue_bytes = 1 << 20;
  s.transport.delay_guard = 50 * kMicrosecond;
  const Workload w = workload(4, {flow(0, 2, 96 << 20), flow(1, 3, 96 << 20)});
  const RunResult guarded = run(s, w);
  ASSERT_EQ(guarded.outcome, Outcome::kComplete);
  EXPECT_EQ(guarded.totals.retransmitted, 0U);
  EXPECT_LT(last(guarded), 17'200 * kMicrosecond);  // 16.8 ms on the line: it never idles
  s.transport.delay_guard = 0;
  const RunResult off = run(s, w);
  ASSERT_EQ(off.outcome, Outcome::kComplete);
  EXPECT_GT(off.totals.retransmitted, 0U);
}

}  // namespace
}  // namespace metaroce::sim
