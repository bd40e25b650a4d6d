// Scenarios of a few hosts on one switch, and flows by hand.
#pragma once

#include <initializer_list>
#include <utility>

#include "sim/scenario.h"

namespace metaroce::sim {

inline Scenario small_scenario(std::uint16_t hosts, std::uint8_t planes = 1) {
  Scenario s;
  s.fabric.hosts = hosts;
  s.fabric.planes = planes;
  s.transport.probe_timeout_floor = 10 * kMicrosecond;
  s.limits.time = kSecond;
  return s;
}

inline Flow flow(std::uint16_t src, std::uint16_t dst, std::uint64_t bytes) {
  Flow f;
  f.src = src;
  f.dst = dst;
  f.bytes = bytes;
  return f;
}

inline Workload workload(std::uint32_t hosts, std::initializer_list<Flow> flows) {
  Workload w;
  w.hosts = hosts;
  w.name = "by hand";
  w.flows = flows;
  for (std::uint32_t i = 0; i < w.flows.size(); ++i) w.flows[i].id = i;
  return w;
}

// A fault of the whole fabric, from the beginning.
inline fabric::Fault everywhere(fabric::FaultKind kind, std::uint32_t probability,
                                Nanos delay = 0) {
  fabric::Fault f;
  f.kind = kind;
  f.probability = probability;
  f.delay_ns = delay;
  return f;
}

}  // namespace metaroce::sim
