// Whatever fabric, faults, workload and parameters a seed draws: no check fails, every flow
// completes once the faults are over, and nothing is left behind.
//
// METAROCE_SEED=n runs that one seed; METAROCE_SEEDS=count runs as many from METAROCE_SEED, or 1,
// on (scripts/property.sh).
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "random_scenario.h"
#include "sim/world.h"

namespace metaroce::sim {
namespace {

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// What the runs met: a sample in which nothing happens would prove nothing.
struct Seen {
  std::uint64_t resent = 0, spurious = 0, timeouts = 0, paths_failed = 0, planes_lost = 0,
                marks = 0;
  std::map<std::string, std::uint64_t> lost;
  void add(const RunResult& r, World& world) {
    resent += r.totals.retransmitted;
    spurious += r.totals.spurious;
    marks += r.totals.ce_marked;
    for (const auto& [why, n] : r.lost) lost[why] += n;
    for (const auto& h : world.hosts()) {
      const TxCounters& c = h->tx().counters();
      timeouts += c.timeouts;
      paths_failed += c.paths_failed;
      planes_lost += c.planes_lost;
    }
  }
  void expect_variety() const {
    for (const std::uint64_t n : {resent, spurious, timeouts, paths_failed, planes_lost, marks})
      EXPECT_GT(n, 0U);
    for (const char* why : {"random", "burst", "link_down", "blackhole", "corrupt", "queue_full"})
      EXPECT_TRUE(lost.contains(why)) << why;
  }
};

void run_seed(std::uint64_t seed, Seen& seen) {
  const Scenario s = random_scenario(seed);
  const Workload w = random_workload(seed, fabric::host_count(s.fabric));
  ASSERT_EQ(fabric::check(s.fabric), "") << describe(s, w);
  World world(s, w);
  const RunResult r = world.run({});
  const auto why = [&] {
    return "seed " + std::to_string(seed) + ": " + describe(s, w) +
           "\nreplay: METAROCE_SEED=" + std::to_string(seed) +
           " build/test/unit/sim/sim_property_test\n";
  };
  ASSERT_EQ(r.outcome, Outcome::kComplete)
      << why() << (r.violations.empty() ? outcome_name(r.outcome) : r.violations[0]);
  EXPECT_EQ(r.totals.application_errors, 0U) << why();
  seen.add(r, world);
  // A path that asks whether it lives gives its record back with the answer. A host that stood
  // still may have been the first round trip of its peers: the question is asked again after one
  // probe timeout, of whatever length.
  EXPECT_EQ(world.settle(s.transport.probe_timeout_max + 20 * kMillisecond), "") << why();
}

TEST(SimProperty, a_broken_engine_does_not_pass) {
  for (const Canary canary :
       {Canary::kDoublePlacement, Canary::kWrongAddress, Canary::kLostCompletion}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      Scenario s = random_scenario(seed);
      s.canary = canary;
      const Workload w = random_workload(seed, fabric::host_count(s.fabric));
      EXPECT_EQ(run(s, w, {}).outcome, Outcome::kViolation) << seed;
    }
  }
}

TEST(SimProperty, any_scenario_ends_well) {
  const bool one = std::getenv("METAROCE_SEED") != nullptr;
  const std::uint64_t first = number("METAROCE_SEED", 1);
  const std::uint64_t count = number("METAROCE_SEEDS", one ? 1 : 50);
  Seen seen;
  for (std::uint64_t seed = first; seed < first + count; ++seed) run_seed(seed, seen);
  if (!one && count >= 50) seen.expect_variety();
}

}  // namespace
}  // namespace metaroce::sim
