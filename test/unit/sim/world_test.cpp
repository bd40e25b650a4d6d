// Whole runs of a few hosts.
#include "sim/world.h"

#include <gtest/gtest.h>

#include "small_scenario.h"

namespace metaroce::sim {
namespace {

using fabric::FaultKind;

constexpr std::uint32_t kPercent = fabric::kCertain / 100;

// Three senders into one host and one back, over two planes.
Workload mixed() {
  return workload(4, {flow(1, 0, 2 << 20), flow(2, 0, 2 << 20), flow(3, 0, 1'000'001),
                      flow(0, 1, 300'000), flow(0, 2, 0), flow(1, 0, 5)});
}

RunResult run_mixed(Scenario s) {
  const Workload w = mixed();
  World world(s, w);
  RunResult r = world.run({});
  if (r.outcome == Outcome::kComplete) {
    EXPECT_EQ(world.settle(10 * kMillisecond), "");
  }
  return r;
}

std::uint64_t named(const std::vector<std::pair<std::string, std::uint64_t>>& list,
                    const std::string& name) {
  for (const auto& [n, v] : list)
    if (n == name) return v;
  return 0;
}

std::uint64_t resent(const RunResult& r) {
  std::uint64_t n = 0;
  for (const FlowResult& f : r.flows) n += f.resent;
  return n;
}

constexpr std::uint64_t kMixedBytes = (4 << 20) + 1'000'001 + 300'000 + 5;

TEST(World, clean_run) {
  Scenario s = small_scenario(4, 2);
  s.fabric.queue_bytes = 8 << 20;  // the first windows of three senders do not overflow it
  const RunResult r = run_mixed(s);
  ASSERT_EQ(r.outcome, Outcome::kComplete) << (r.violations.empty() ? "" : r.violations[0]);
  EXPECT_EQ(r.totals.delivered_bytes, kMixedBytes);
  EXPECT_EQ(r.totals.data_lost, 0U);
  EXPECT_EQ(r.totals.retransmitted, 0U);
  EXPECT_EQ(r.connections, 3U);
  EXPECT_EQ(r.flows[0].packets, 512U);
  EXPECT_EQ(r.flows[4].packets, 1U);  // an empty message is one packet
  for (const FlowResult& f : r.flows) {
    EXPECT_GE(f.start, 0);
    EXPECT_LT(f.start, f.sender_done);
    EXPECT_LE(f.receiver_done, f.sender_done);
    EXPECT_LE(f.sender_done, r.virtual_time);
  }
}

TEST(World, the_seed_decides_everything) {
  Scenario s = small_scenario(4, 2);
  s.fabric.faults = {everywhere(FaultKind::kLoss, kPercent)};
  s.host.seeded_order = true;
  const RunResult a = run_mixed(s), b = run_mixed(s);
  s.seed = 2;
  const RunResult c = run_mixed(s);
  EXPECT_EQ(a.trace_hash, b.trace_hash);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.virtual_time, b.virtual_time);
  EXPECT_EQ(a.totals.retransmitted, b.totals.retransmitted);
  for (std::size_t i = 0; i < a.flows.size(); ++i)
    EXPECT_EQ(a.flows[i].sender_done, b.flows[i].sender_done);
  EXPECT_NE(a.trace_hash, c.trace_hash);
}

TEST(World, hooks_only_observe) {
  const Scenario s = small_scenario(4, 2);
  const Workload w = mixed();
  std::uint64_t calls = 0, frames = 0;
  RunHooks hooks;
  hooks.progress = [&](const RunProgress& p) {
    ++calls;
    EXPECT_EQ(p.flows, 6U);
  };
  hooks.capture = [&](Nanos, std::uint16_t, std::uint8_t, std::span<const std::uint8_t>) {
    ++frames;
  };
  const RunResult a = run(s, w, hooks), b = run(s, w, {});
  EXPECT_EQ(a.trace_hash, b.trace_hash);
  EXPECT_EQ(a.events, b.events);
  EXPECT_GE(calls, a.events >> 13);  // often enough for a signal to be noticed
  EXPECT_GT(frames, a.totals.delivered_packets);
}

TEST(World, every_canary_is_found) {
  const std::pair<Canary, const char*> canaries[] = {
      {Canary::kDoublePlacement, "placed twice"},
      {Canary::kWrongAddress, "placed "},
      {Canary::kLostCompletion, "no flow made progress"}};
  for (const auto& [canary, text] : canaries) {
    Scenario s = small_scenario(4, 2);
    s.canary = canary;
    s.limits.progress = 5 * kMillisecond;
    const RunResult r = run_mixed(s);
    EXPECT_EQ(r.outcome, Outcome::kViolation);
    EXPECT_FALSE(r.sound());
    ASSERT_EQ(r.violations.size(), r.violation_count);
    EXPECT_NE(r.violations.at(0).find(text), std::string::npos) << r.violations[0];
  }
}

// [MR-8.2.9] [MR-8.4.22] 24 senders of one incast: two round trips after the start each may send
// its share, whoever of them lost the whole first window. The measure is not blind: without hints
// it finds them unequal.
TEST(World, incast_is_fair_from_the_second_round_trip_on) {
  for (const bool hints : {true, false}) {
    Scenario s = small_scenario(25);
    s.transport.rate_hints = hints;
    Workload w = workload(25, {});
    for (std::uint16_t i = 1; i < 25; ++i) w.flows.push_back(flow(i, 0, 1 << 20));
    for (std::uint32_t i = 0; i < w.flows.size(); ++i) w.flows[i].id = i;
    World world(s, w);
    const RunResult r = world.run({});
    ASSERT_EQ(r.outcome, Outcome::kComplete);
    if (hints)
      EXPECT_GE(r.rate_jain_ppm, 980'000);
    else
      EXPECT_LT(r.rate_jain_ppm, 980'000);
  }
}

TEST(World, limits) {
  Scenario s = small_scenario(4, 2);
  s.limits.time = 20 * kMicrosecond;
  RunResult r = run_mixed(s);
  EXPECT_EQ(r.outcome, Outcome::kTimeLimit);
  EXPECT_LE(r.virtual_time, 20 * kMicrosecond);
  EXPECT_GT(r.virtual_time, 19 * kMicrosecond);
  EXPECT_EQ(r.flows[0].sender_done, kNever);
  s.limits.time = kSecond;
  s.limits.events = 5000;
  r = run_mixed(s);
  EXPECT_EQ(r.outcome, Outcome::kEventLimit);
  EXPECT_EQ(r.events, 5000U);
}

TEST(World, a_request_to_stop_ends_it_soon) {
  const std::atomic<int> stop{1};
  RunHooks hooks;
  hooks.stop = &stop;
  const Workload w = mixed();
  const RunResult r = run(small_scenario(4, 2), w, hooks);
  EXPECT_EQ(r.outcome, Outcome::kStopped);
  EXPECT_TRUE(r.sound());
  EXPECT_LE(r.events, 1U << 13);
}

TEST(World, polls_in_any_order_over_any_rings) {
  for (const std::uint32_t ring : {1U, 2U, 1024U}) {
    for (const std::uint32_t burst : {1U, 32U}) {
      Scenario s = small_scenario(4, 2);
      s.host.ring_size = ring;
      s.host.burst = burst;
      s.host.seeded_order = true;
      s.host.validate_every = 1;
      s.fabric.faults = {everywhere(FaultKind::kLoss, kPercent)};
      const RunResult r = run_mixed(s);
      EXPECT_EQ(r.outcome, Outcome::kComplete)
          << ring << " " << burst << (r.violations.empty() ? "" : r.violations[0]);
      EXPECT_EQ(r.totals.delivered_bytes, kMixedBytes);
    }
  }
}

TEST(World, lost_packets_and_no_others_are_sent_again) {
  Scenario s = small_scenario(2, 1);
  s.fabric.faults = {everywhere(FaultKind::kLoss, kPercent)};
  const Workload w = workload(2, {flow(0, 1, 40 << 20)});
  const RunResult r = run(s, w, {});
  ASSERT_EQ(r.outcome, Outcome::kComplete);
  EXPECT_GT(r.totals.data_lost, 60U);  // 1 % of 10,240
  EXPECT_LT(r.totals.data_lost, 150U);
  EXPECT_EQ(r.totals.retransmitted, r.totals.data_lost);
  EXPECT_EQ(r.totals.spurious, 0U);
  EXPECT_EQ(r.totals.data_sent, 10240 + r.totals.retransmitted);
  EXPECT_EQ(resent(r), r.totals.retransmitted);
  EXPECT_GE(named(r.lost, "random"), r.totals.data_lost);
  EXPECT_GT(r.recovery.count(), 60U);
}

TEST(World, marks_of_a_full_queue_reach_the_counters) {
  Scenario s = small_scenario(4, 1);
  s.fabric.ecn = fabric::EcnMode::kThreshold;
  s.fabric.ecn_min_bytes = 20'000;
  const RunResult r = run_mixed(s);
  EXPECT_EQ(r.outcome, Outcome::kComplete);
  EXPECT_GT(r.totals.ce_marked, 0U);
  s.fabric.ecn = fabric::EcnMode::kOff;
  EXPECT_EQ(run_mixed(s).totals.ce_marked, 0U);
}

// A host that takes less than its port carries: what does not fit into its queue is lost there, and
// counted. [MR-8.4.21] With hints the senders keep to what it takes, and nothing is.
TEST(World, slow_host) {
  const Workload w = workload(4, {flow(1, 0, 8 << 20), flow(2, 0, 8 << 20), flow(3, 0, 8 << 20)});
  for (const bool hints : {false, true}) {
    Scenario s = small_scenario(4);
    s.fabric.queue_bytes = 8 << 20;
    s.transport.rate_hints = hints;
    s.host.poll_interval = kMicrosecond;
    s.host.burst = 8;
    s.host.receive_queue = 256;
    const RunResult r = run(s, w, {});
    ASSERT_EQ(r.outcome, Outcome::kComplete) << (r.violations.empty() ? "" : r.violations[0]);
    EXPECT_EQ(named(r.lost, "host_full") == 0, hints);
    EXPECT_EQ(r.totals.retransmitted == 0, hints);
  }
}

// [MR-8.1.4] A sender under a hint whose loop takes a microsecond still sends what the hint allows:
// more than its bucket holds becomes due between two looks.
TEST(World, hinted_senders_that_look_seldom) {
  const Workload w = workload(3, {flow(1, 0, 8 << 20), flow(2, 0, 8 << 20)});
  Scenario s = small_scenario(3);
  s.fabric.queue_bytes = 8 << 20;
  s.host.poll_interval = kMicrosecond;
  const RunResult r = run(s, w, {});
  ASSERT_EQ(r.outcome, Outcome::kComplete);
  const Nanos ideal = Nanos{16 << 20} * 8 / 400;
  EXPECT_LT(r.flows[0].sender_done, ideal * 12 / 10);
  EXPECT_LT(r.flows[1].sender_done, ideal * 12 / 10);
}

// A copy is a frame of its own: nothing is given back twice and nothing is placed twice.
TEST(World, copies_damage_and_disorder) {
  for (const bool fcs : {false, true}) {
    Scenario s = small_scenario(4, 2);
    s.fabric.fcs_check = fcs;
    s.fabric.faults = {everywhere(FaultKind::kDuplicate, 10 * kPercent, 700),
                       everywhere(FaultKind::kCorrupt, kPercent),
                       everywhere(FaultKind::kReorder, 2 * kPercent, 3000),
                       everywhere(FaultKind::kJitter, 0, 400)};
    for (fabric::Fault& f : s.fabric.faults) f.traffic = fabric::Traffic::kAll;
    s.host.validate_every = 1;
    const RunResult r = run_mixed(s);
    EXPECT_EQ(r.outcome, Outcome::kComplete) << (r.violations.empty() ? "" : r.violations[0]);
    EXPECT_EQ(r.totals.delivered_bytes, kMixedBytes);
    EXPECT_GT(named(r.drops, "duplicate"), 50U);
    EXPECT_GT(named(r.lost, "corrupt"), 0U) << "by a switch, or by the port of the host";
    EXPECT_GT(r.totals.data_lost, 0U);
  }
}

TEST(World, a_link_that_is_down_for_a_while) {
  Scenario s = small_scenario(2, 1);
  fabric::Fault f;
  f.kind = FaultKind::kDown;
  f.target.scope = fabric::Scope::kHost;
  f.target.id = 1;
  f.at_ns = s.host.warm_idle + 20 * kMicrosecond;
  s.fabric.faults = {f};
  f.kind = FaultKind::kUp;
  f.at_ns += 2 * kMillisecond;
  s.fabric.faults.push_back(f);
  const Workload w = workload(2, {flow(0, 1, 4 << 20)});
  const RunResult r = run(s, w, {});
  EXPECT_EQ(r.outcome, Outcome::kComplete) << (r.violations.empty() ? "" : r.violations[0]);
  EXPECT_GT(named(r.lost, "link_down"), 0U);
  EXPECT_GT(r.virtual_time, 2 * kMillisecond);
}

TEST(World, a_cut_for_ever_is_a_violation) {
  Scenario s = small_scenario(2, 1);
  fabric::Fault f = everywhere(FaultKind::kDown, 0);
  f.at_ns = s.host.warm_idle + 20 * kMicrosecond;
  s.fabric.faults = {f};
  s.limits.progress = 10 * kMillisecond;
  const Workload w = workload(2, {flow(0, 1, 4 << 20)});
  const RunResult r = run(s, w, {});
  EXPECT_EQ(r.outcome, Outcome::kViolation);
  EXPECT_LT(r.virtual_time, 20 * kMillisecond);
}

}  // namespace
}  // namespace metaroce::sim
