// From a configuration to a running dataplane: EAL, ports, hosts, lcores. One per process (EAL
// allows one start). Used by metaroced and by libmetaroce-embed.
//
// Threads: create(), control_pass() and the destructor belong to one thread, the control thread.
// With `progress: lcore` the roles run on pinned lcores; with `progress: inline` the caller's
// thread runs them through inline_pass(), and nothing else does.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "config/daemon_config.h"
#include "dataplane/eal.h"
#include "dataplane/host.h"
#include "drivers/fabric/emulated_fabric.h"
#include "drivers/fabric/fabric_admin.h"

namespace metaroce {

class Runtime {
 public:
  // Started and carrying traffic; nullptr with one sentence in `error`.
  static std::unique_ptr<Runtime> create(const config::DaemonConfig& config,
                                         const std::string& program, std::string& error);
  ~Runtime();
  // Ends the lcores. After it nothing touches memory of applications: their sessions may go, and
  // must, before the hosts that they call.
  void stop();
  Runtime(const Runtime&) = delete;

  [[nodiscard]] bool inline_progress() const { return inline_; }
  // One pass over all roles and, now and then, control. Packets moved.
  int inline_pass();
  // Everything that is due on the control thread; call every millisecond or so.
  void control_pass(Nanos now);
  [[nodiscard]] const Clock& clock() const { return *clock_; }
  [[nodiscard]] std::vector<std::unique_ptr<Host>>& hosts() { return hosts_; }
  // Joins the ports of kind fabric; nullptr without one.
  [[nodiscard]] const EmulatedFabric* fabric() const { return fabric_.get(); }
  // What start-up found: memory mode, CPUs, a capability table of the ports.
  [[nodiscard]] const std::vector<std::string>& report() const { return report_; }
  // CPUs on which threads that do not poll should stay; empty: anywhere.
  [[nodiscard]] const std::vector<unsigned>& housekeeping_cpus() const { return housekeeping_; }

 private:
  struct Task {
    Group* group;
    bool rx, tx, timer;
  };
  struct alignas(64) Worker {
    Runtime* runtime = nullptr;
    unsigned lcore = 0, cpu = 0;
    std::vector<Task> tasks;
    bool fabric = false;  // runs it, after the tasks
    config::IdlePolicy idle = config::IdlePolicy::kYield;
    std::atomic<bool> paused{false}, running{false};
  };
  Runtime() = default;
  bool start_eal(const config::DaemonConfig& config, const std::string& program,
                 std::string& error);
  bool make_fabric(const config::DaemonConfig& config, std::string& error);
  bool open_host(const config::DaemonConfig& config, const config::HostConfig& host,
                 std::string& error);
  bool launch(std::string& error);
  void plan_workers(const config::DaemonConfig& config);
  static int worker_main(void* arg);
  void work(Worker& w);
  void warn_remote_memory();
  void reconnect_ports(Nanos now);

  bool inline_ = false;
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<EmulatedFabric> fabric_;  // outlives the hosts' ports
  std::unique_ptr<FabricAdmin> fabric_admin_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::string> report_;
  std::vector<unsigned> housekeeping_;
  std::atomic<bool> stop_{false}, pause_{false};
  Nanos reconnect_at_ = 0, control_at_ = 0, fabric_links_at_ = 0;
};

}  // namespace metaroce
