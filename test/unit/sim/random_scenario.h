// A scenario drawn from a seed: small in everything but the number of ways in which it can go
// wrong. Every fault ends within kFaultsEnd, so that everything must complete.
#pragma once

#include "sim/scenario.h"

namespace metaroce::sim {

inline constexpr Nanos kFaultsEnd = 10 * kMillisecond;

Scenario random_scenario(std::uint64_t seed);

// Flows of random pairs, sizes, starts, streams and dependencies.
Workload random_workload(std::uint64_t seed, std::uint32_t hosts);

// One line: what was drawn, for whoever reads a failure.
std::string describe(const Scenario& s, const Workload& w);

}  // namespace metaroce::sim
