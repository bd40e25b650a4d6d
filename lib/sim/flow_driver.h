// The application of all hosts: when a flow may start, what is posted for it, and whether its
// completions come as they must. Checks: completions of a stream in post order, one per flow, only
// after the last byte was placed, and with success.
//
// A flow starts when its time has come, everything it depends on is complete, and its windowed
// list has room. One flow is one Write; with immediate when something waits for it at the receiver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/flow.h"
#include "sim/host.h"
#include "sim/ledger.h"
#include "sim/result.h"

namespace metaroce::sim {

class FlowDriver {
 public:
  // `workload` and `ledger` outlive the driver.
  FlowDriver(const Workload& workload, const Ledger& ledger);

  // Streams that the workload needs.
  struct Stream {
    std::uint16_t src = 0, dst = 0;
    std::uint16_t ordinal = 0;
    std::uint32_t flows = 0, with_immediate = 0;
    // Set by the world when it has opened the stream.
    StreamHandle send = 0, receive = 0;
    std::uint32_t send_depth = 0, receive_depth = 0;
    // Order of posting and of completing: positions in the stream's own sequence.
    std::uint32_t posted = 0, completed = 0, received = 0, receives_posted = 0;
  };
  std::vector<Stream>& streams() { return streams_; }
  [[nodiscard]] std::uint32_t stream_of(std::uint32_t flow) const { return stream_of_[flow]; }

  // Flows whose start is not bound to a completion, as (flow, time): to be scheduled once.
  [[nodiscard]] const std::vector<std::uint32_t>& initial() const { return initial_; }

  // Flow `f` is due: posts it.
  void start(std::uint32_t f, Nanos now, std::vector<std::unique_ptr<SimHost>>& hosts);
  // Takes what a host's poll brought. Appends the flows that may start from now on (at their
  // start time or at once).
  void take(SimHost& host, Nanos now, std::vector<std::unique_ptr<SimHost>>& hosts,
            std::vector<std::uint32_t>& ready);

  [[nodiscard]] std::uint32_t done() const { return done_; }
  [[nodiscard]] bool finished() const { return done_ == workload_.flows.size(); }
  [[nodiscard]] const std::vector<FlowResult>& results() const { return results_; }
  // First broken rule as text; empty when none.
  [[nodiscard]] const std::string& violation() const { return violation_; }
  // Completions in error.
  [[nodiscard]] std::uint32_t failed() const { return failed_; }
  [[nodiscard]] Nanos last_progress() const { return last_progress_; }
  [[nodiscard]] std::uint32_t running() const { return started_ - done_; }

 private:
  void post_receives(Stream& s, SimHost& host);
  void release(std::uint32_t dependency, bool at_receiver, std::vector<std::uint32_t>& ready);
  void broke(std::uint32_t flow, const char* rule);

  const Workload& workload_;
  const Ledger& ledger_;
  std::vector<Stream> streams_;
  std::vector<std::uint32_t> stream_of_;
  std::vector<std::uint32_t> position_;      // of the flow on its stream, at post time
  std::vector<std::uint8_t> waits_;          // dependencies left
  std::vector<std::uint8_t> immediate_;      // something waits for it at the receiver
  std::vector<std::uint32_t> first_waiter_;  // by flow: head of a chain of edges
  struct Edge {
    std::uint32_t waiter, next;
    bool at_receiver;
  };
  std::vector<Edge> edges_;
  struct List {  // of flows with a window
    std::vector<std::uint32_t> flows;
    std::uint32_t next = 0;
  };
  std::vector<List> lists_;
  std::vector<std::uint32_t> initial_;
  std::vector<FlowResult> results_;
  std::string violation_;
  std::uint32_t done_ = 0, failed_ = 0, started_ = 0;
  Nanos last_progress_ = 0;
};

}  // namespace metaroce::sim
