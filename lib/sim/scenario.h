// Everything that decides a run, as plain values; scenario files (lib/scenario) fill it, tests
// write it directly. Two equal scenarios give byte-identical results on any machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "fabric/config.h"
#include "sim/workload.h"
#include "transport/config.h"

namespace metaroce::sim {

// How a host's software runs in virtual time.
struct HostModel {
  Nanos poll_interval = 50;       // least time between two polls of a host's roles
  std::uint32_t burst = 32;       // packets that a role takes in one poll
  std::uint32_t ring_size = 256;  // entries of the rings between roles; a power of two, from 1
  bool seeded_order = false;      // the roles are polled in an order drawn from the seed
  // Speed of host i's NIC on every plane: line_rates[i % size]; the loader adds the faults that
  // slow its links down. Empty: the fabric's.
  std::vector<Mbps> line_rates;
  // Connections and streams were opened this long before the clock starts, and are idle since.
  Nanos warm_idle = 2 * kMillisecond;
};

struct Limits {
  Nanos time = 10 * kSecond;               // of the virtual clock
  std::uint64_t events = 100'000'000'000;  // of the event queue
  // A violation: flows are running, and for this long none made progress.
  Nanos progress = 100 * kMillisecond;
  std::uint32_t validate_every = 64;  // polls of a host between two validate() of its state
};

struct Output {
  Nanos series_interval = 0;   // between two samples of the time series; 0: none
  Nanos goodput_interval = 0;  // of GoodputSamples; 0: none
  bool flows = false;          // per-flow results in the JSON document
};

// Breaks the engine on purpose, once: checks that cannot fail prove nothing.
enum class Canary : std::uint8_t { kNone, kPlaceTwice, kPlaceElsewhere, kLoseCompletion };

struct Scenario {
  std::string name = "unnamed", description;
  fabric::FabricConfig fabric;  // with its time line of faults
  WorkloadSpec spec;
  Workload workload;  // what make_workload() made of the spec, or a test's own list
  TransportConfig transport;
  HostModel host;
  Limits limits;
  Output output;
  Canary canary = Canary::kNone;
  std::uint64_t seed = 1;
};

// What the spec means in this fabric with this seed. Sets scenario.workload; returns what is wrong
// with the spec, or "".
std::string make_workload(Scenario& scenario);

// Of one host's port; what the transport is told and paces to.
Mbps port_rate(const Scenario& scenario, std::uint16_t host, std::uint8_t plane);
// Hosts below one switch of the lowest tier, and the groups of permutations: leaf, or pod.
std::uint32_t hosts_per_leaf(const fabric::FabricConfig& fabric);
std::uint32_t hosts_per_group(const fabric::FabricConfig& fabric);
// Links between two hosts of one plane.
std::uint32_t links_between(const fabric::FabricConfig& fabric, std::uint16_t a, std::uint16_t b);

}  // namespace metaroce::sim
