// One size, one direction or both: what was asked and what came out.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "common/outcome.h"
#include "metaroce-perf/histogram.h"
#include "metaroce-perf/pattern.h"
#include "metaroce-perf/session.h"

namespace metaroce::perf {

struct DirectionResult {
  bool used = false;
  std::uint64_t messages = 0, bytes = 0;  // acknowledged
  std::int64_t elapsed_ns = 0;            // first post to last completion
};

struct RoundResult {
  std::uint64_t size = 0;
  bool verified = false;
  DirectionResult sent, received;
  LatencyHistogram latency;  // half round trips, in nanoseconds
};

// Bandwidth: streams of Writes or Sends. Latency: one message to and fro.
app::Status run_bandwidth(Session& session, const Message& round, RoundResult& result);
app::Status run_latency(Session& session, const Message& round, RoundResult& result);

inline app::Status mismatch(std::uint32_t stream, std::uint64_t message, const Mismatch& m) {
  return app::fail(app::kExitMismatch,
                   fmt::format("data mismatch in message {} of stream {} at offset {}: expected "
                               "0x{:02x}, found 0x{:02x}",
                               message, stream, m.offset, m.expected, m.found));
}

}  // namespace metaroce::perf
