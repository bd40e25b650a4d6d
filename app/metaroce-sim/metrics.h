// The figures of a run: ratios and units for people, computed from the integers of a RunResult.
// A figure that makes no sense for a run (no loss, no fault) is absent rather than 0.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scenario/load.h"
#include "sim/ideal.h"
#include "sim/result.h"

namespace metaroce::simapp {

// In the order of the report. Names end in their unit; what has none is a ratio.
using Metrics = std::vector<std::pair<std::string, double>>;

Metrics metrics_of(const scenario::Loaded& loaded, const sim::RunResult& result);

// Per figure, over the runs that have it.
Metrics medians(const std::vector<Metrics>& runs);

sim::IdealFabric ideal_fabric(const sim::Scenario& scenario);
// Links of the longest way between two hosts of the workload; its round trip, in ns.
double base_rtt_ns(const scenario::Loaded& loaded);

}  // namespace metaroce::simapp
