// A simulated run: hosts, fabric, workload, one virtual clock, one seed. Single-threaded; the same
// scenario and seed give the same events on any machine, because nothing but integers decides.
//
// Before the workload starts, every pair of hosts that it uses is connected and idle for more than
// a millisecond: windows are those of a start, paths are not learned.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/arena.h"
#include "sim/flow_driver.h"
#include "sim/host.h"
#include "sim/network.h"
#include "sim/probes.h"
#include "sim/run.h"
#include "sim/scenario.h"

namespace metaroce::sim {

class World {
 public:
  World(const Scenario& scenario, const Workload& workload);

  // Runs to the end of the workload, a limit, a violation or a request to stop.
  RunResult run(const RunHooks& hooks);
  // Behind a run: `time` more of the virtual clock, for what is still on its way. Returns the first
  // thing that does not end as it should (late placements, pools and frames not given back), or "".
  std::string settle(Nanos time);

  [[nodiscard]] Network& network() { return net_; }
  [[nodiscard]] std::vector<std::unique_ptr<SimHost>>& hosts() { return hosts_; }
  // The first rule that setting up broke; empty when none.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  void build();
  bool connect(std::uint16_t a, std::uint16_t b);
  bool open(FlowDriver::Stream& s);
  [[nodiscard]] std::uint32_t paths() const;
  [[nodiscard]] Nanos base_rtt(std::uint16_t a, std::uint16_t b);
  std::uint32_t conn_index(std::uint16_t a, std::uint16_t b) const {
    return conn_of_[std::size_t{a} * workload_.hosts + b];
  }
  // The next event; false when there is none up to the time limit.
  bool step(const RunHooks& hooks, Picos until);
  void on_poll(const fabric::Event& e);
  void note_faults(SimHost& host);
  void plan(std::uint32_t flow);
  void check(const RunHooks& hooks);
  [[nodiscard]] bool over() const {
    return outcome_ != Outcome::kComplete || violation_count_ != 0 || driver_.finished();
  }
  void violate(const std::string& text);
  RunResult result() const;

  const Scenario& scenario_;
  const Workload& workload_;
  const Nanos origin_;  // virtual time at which the workload starts
  Ledger ledger_;
  Arena arena_;
  Network net_;
  FlowDriver driver_;
  std::vector<std::unique_ptr<SimHost>> hosts_;
  std::vector<std::uint32_t> conn_of_;  // [a * hosts + b]: a's index of its connection to b
  std::vector<std::uint32_t> next_conn_, next_stream_;
  std::vector<std::uint16_t> next_number_;  // of streams, by a's connection
  std::vector<std::uint32_t> ready_;
  Probes probes_;
  std::uint64_t events_ = 0;
  std::uint32_t until_validate_;
  std::unique_ptr<Capture> capture_;
  std::unique_ptr<LossLog> losses_;
  std::string error_;
  Outcome outcome_ = Outcome::kComplete;
  std::vector<std::string> violations_;
  std::uint64_t violation_count_ = 0;
};

}  // namespace metaroce::sim
