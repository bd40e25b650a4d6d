// What a run leaves behind: numbers that depend on the scenario and its seed only, never on the
// machine. Reports divide and print them; nothing here is a ratio.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "sim/latency_histogram.h"

namespace metaroce::sim {

struct FlowResult {
  Nanos start = kNever;          // the application posted it; kNever: it never could
  Nanos sender_done = kNever;    // its last packet was acknowledged
  Nanos receiver_done = kNever;  // complete and in order at the receiver
  std::uint32_t packets = 0;     // data packets, first transmissions
  std::uint32_t resent = 0;      // data packets sent again, every time counted
};

enum class Outcome : std::uint8_t {
  kComplete,    // every flow is complete
  kTimeLimit,   // the virtual clock reached limits.time
  kEventLimit,  // limits.events
  kStalled,     // nothing is left to happen, and flows are not complete
  kStopped,     // asked to, by RunHooks::stop
  kViolation,   // a check failed; the run ended there
};
constexpr std::string_view outcome_name(Outcome o) {
  switch (o) {
    case Outcome::kComplete:
      return "complete";
    case Outcome::kTimeLimit:
      return "time_limit";
    case Outcome::kEventLimit:
      return "event_limit";
    case Outcome::kStalled:
      return "stalled";
    case Outcome::kStopped:
      return "stopped";
    case Outcome::kViolation:
      return "violation";
  }
  return "";
}

struct Totals {
  // Data packets that reached their host, duplicates included, and the payload placed by them
  // (every byte once).
  std::uint64_t delivered_packets = 0, delivered_bytes = 0;
  std::uint64_t data_sent = 0;      // data packets that entered the fabric
  std::uint64_t retransmitted = 0;  // of those, sent before
  std::uint64_t spurious = 0;       // retransmissions of what had arrived
  std::uint64_t data_lost = 0;      // data packets that the fabric lost, whatever the cause
  std::uint64_t acks = 0;           // ACK packets sent
  std::uint64_t control_bytes = 0;  // on the wire: all that is not data
  std::uint64_t data_wire_bytes = 0;
  std::uint64_t ce_marked = 0;
  std::uint64_t application_errors = 0;  // completions in error
};

// One port of a receiver or of a fault's victim over time.
struct GoodputSamples {
  Nanos interval = 0;                // 0: none were taken
  Nanos first = 0;                   // start of the first interval
  std::vector<std::uint64_t> bytes;  // placed at all receivers in each interval
};

struct RunResult {
  Outcome outcome = Outcome::kComplete;
  std::vector<FlowResult> flows;  // by flow id
  Totals totals;
  // Lost in the fabric by cause, in the fabric's order; causes that did not occur are absent.
  std::vector<std::pair<std::string, std::uint64_t>> lost;
  // Named drop reasons of all hosts' receivers that are not 0.
  std::vector<std::pair<std::string, std::uint64_t>> drops;
  Nanos virtual_time = 0;
  std::uint64_t events = 0;
  std::uint64_t trace_hash = 0;  // of all deliveries: two equal runs have equal hashes
  // Failed checks, one sentence each with time and host; at most kMaxViolations are kept.
  static constexpr std::size_t kMaxViolations = 32;
  std::vector<std::string> violations;
  std::uint64_t violation_count = 0;
  // From the moment at which a data packet was lost to its arrival by a retransmission.
  LatencyHistogram recovery;
  GoodputSamples goodput;
  // Incast checks: Jain index, in millionths, of the sending rates that pacer and window allow,
  // and idle time of the receiver's link, both from two RTT after the last start. -1: not taken.
  std::int64_t rate_jain_ppm = -1;
  Nanos receiver_idle = -1;
  std::uint64_t connections = 0;  // pairs of hosts that the workload connects

  [[nodiscard]] bool sound() const { return violation_count == 0; }
};

}  // namespace metaroce::sim
