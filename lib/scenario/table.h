// A scenario file as the table of keys sees it, before names are resolved and files are read.
#pragma once

#include <string>
#include <vector>

#include "config/fault_spec.h"
#include "config/schema.h"
#include "sim/scenario.h"

namespace metaroce::scenario {

struct ScenarioFile {
  std::string name = "unnamed", description, include;
  std::uint64_t seed = 1;
  fabric::FabricConfig fabric;
  std::uint32_t loss = 0;  // shorthand for the commonest fault
  std::vector<config::FaultSpec> faults;
  sim::WorkloadSpec workload;
  TransportConfig transport;
  sim::HostModel host;
  sim::Limits limits;
  sim::Output output;
  sim::Canary canary = sim::Canary::kNone;
};

// The table; its object is a ScenarioFile.
const config::Section& scenario_keys();

}  // namespace metaroce::scenario
