// What a run is asked besides its end: goodput over time, time series, and how fair and how busy
// an incast is. Observes only: a run is the same with and without it.
#pragma once

#include <memory>
#include <vector>

#include "sim/flow.h"
#include "sim/host.h"
#include "sim/network.h"
#include "sim/result.h"
#include "sim/run.h"

namespace metaroce::sim {

class Probes {
 public:
  // All arguments outlive the probes; `hosts` is filled later.
  Probes(const Scenario& scenario, const Workload& workload, Network& net,
         const std::vector<std::unique_ptr<SimHost>>& hosts, Nanos origin);

  // Schedules the first samples. `conn_of`: [a * hosts + b], a's index of its connection to b.
  void begin(const std::vector<std::uint32_t>& conn_of);
  // A sample event with argument `which`.
  void sample(std::uint32_t which, const RunHooks& hooks);
  // A flow is complete: an incast's window of observation ends with its first.
  void flow_done(Nanos now);
  void result(RunResult& r) const;

 private:
  enum Which : std::uint32_t { kGoodput, kSeries, kIncast };
  void again(Nanos interval, Which which);
  void goodput();
  void series(const RunHooks& hooks);
  void incast();
  [[nodiscard]] std::uint64_t placed() const;

  const Scenario& scenario_;
  const Workload& workload_;
  Network& net_;
  const std::vector<std::unique_ptr<SimHost>>& hosts_;
  const Nanos origin_;
  GoodputSamples goodput_;
  std::uint64_t placed_before_ = 0;

  // Incast: all flows go to one host. Observed from 2 RTT after the last start to the first end.
  struct Sender {
    std::uint16_t host;
    std::uint32_t conn;
  };
  std::vector<Sender> senders_;
  std::uint16_t receiver_ = 0;
  Nanos from_ = kNever, until_ = kNever;
  Picos busy_from_ = 0, busy_until_ = 0, seen_from_ = 0, seen_until_ = 0;
  std::int64_t worst_jain_ppm_ = -1;
};

}  // namespace metaroce::sim
