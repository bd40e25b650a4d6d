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
  Nanos poll_interval = 50;            // between two polls of a busy host's roles; at least 1
  Nanos receiver_delay = 0;            // from the frame's arrival to the RX role
  std::uint32_t burst = 32;            // packets that a role takes in one poll
  std::uint32_t receive_queue = 4096;  // packets that wait for the RX role; what comes then is lost
  std::uint32_t ring_size = 1024;      // of the rings between roles; power of two, from 1
  bool seeded_order = false;           // roles are polled in an order drawn from the seed
  std::uint32_t validate_every = 256;  // polls of all hosts between checks of a host's TX state
  bool single_class = false;           // all packets in the data class: no priority for control
  // Speed of host i's NIC on every plane: line_rates[i % size]; the loader also slows its links
  // down. Empty: the fabric's.
  std::vector<Mbps> line_rates;
  // Connections open before t = 0 and idle since `warm_idle`; paths unlearned.
  Nanos warm_idle = 2 * kMillisecond;
};

struct Limits {
  Nanos time = 10 * kSecond;               // of the virtual clock
  std::uint64_t events = 100'000'000'000;  // of the event queue
  Nanos progress = 100 * kMillisecond;     // without any delivery while flows are open: a violation
};

struct Output {
  Nanos series_interval = 0;   // time series sample interval; 0: none
  Nanos goodput_interval = 0;  // of GoodputSamples; 0: none
  bool flows = false;          // per-flow results in the JSON document
};

// A canary breaks the engine on purpose: a simulator whose checks cannot fail proves nothing.
enum class Canary : std::uint8_t { kNone, kDoublePlacement, kLostCompletion, kWrongAddress };

struct Scenario {
  std::string name = "unnamed", description;
  // With its time line of faults. The fabric's clock starts host.warm_idle before the workload's:
  // a fault at time t of the workload stands here at t + warm_idle.
  fabric::FabricConfig fabric;
  WorkloadSpec workload;
  TransportConfig transport;
  HostModel host;
  Limits limits;
  Output output;
  Canary canary = Canary::kNone;
  std::uint64_t seed = 1;
};

// What scenario.workload means in this fabric with this seed.
WorkloadResult make_workload(const Scenario& scenario);

// Of one host's port in a plane.
Mbps port_rate(const Scenario& scenario, std::uint16_t host, std::uint8_t plane);
// Hosts below one switch of the lowest tier, and the groups of permutations: leaf, or pod.
std::uint32_t hosts_per_leaf(const fabric::FabricConfig& fabric);
std::uint32_t hosts_per_group(const fabric::FabricConfig& fabric);
// Links between two hosts of one plane.
std::uint32_t links_between(const fabric::FabricConfig& fabric, std::uint16_t a, std::uint16_t b);

}  // namespace metaroce::sim
