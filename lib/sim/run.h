// One run of one scenario in virtual time. Any thread; runs share nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "sim/result.h"
#include "sim/scenario.h"

namespace metaroce::sim {

struct RunProgress {
  Nanos virtual_time = 0;
  std::uint64_t events = 0, delivered_packets = 0;
  std::uint32_t flows_done = 0, flows = 0;
};

// A data packet that the fabric lost.
struct LostPacket {
  Nanos at = 0;
  std::uint32_t flow = 0;          // its id, from 0
  std::uint64_t offset = 0;        // of its payload in the message
  std::uint16_t transmission = 0;  // 1: it was sent for the first time; counts up to 65,535
  std::string_view cause;
};

// Called from the running thread; hooks only observe, so a run is the same with and without them.
// Empty functions are not called.
struct RunHooks {
  std::function<void(const RunProgress&)> progress;  // every few thousand events
  const std::atomic<int>* stop = nullptr;            // not 0: end soon, with Outcome::kStopped
  // One sample of a time series: `name` as in "host3.rate_mbps", "leaf0->spine1.queue_bytes".
  std::function<void(Nanos at, std::string_view name, std::int64_t value)> series;
  // A frame as it enters a host: Ethernet header to end, payload bytes filled in.
  std::function<void(Nanos at, std::uint16_t host, std::uint8_t plane,
                     std::span<const std::uint8_t> frame)>
      capture;
  // A data packet with payload is lost; in the order of time.
  std::function<void(const LostPacket&)> loss;
};

// `workload` is what generate() made from scenario.workload; the caller keeps it for reports.
RunResult run(const Scenario& scenario, const Workload& workload, const RunHooks& hooks);

}  // namespace metaroce::sim
