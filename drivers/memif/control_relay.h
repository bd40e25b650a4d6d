// Stands between the driver of memif ports and their peers on the control sockets (not in the data
// path, which is shared memory). Why: the driver of DPDK 22.11 unmaps the rings on EAL's interrupt
// thread the moment its peer goes away, whoever is polling them, and frees them a second time when
// the port is stopped in that moment. With us between, it is stopped by the port's owner, when
// nobody polls (control_link.h), and no stranger's connection reaches it (server_socket.h).
//
// One thread per process, from the first port's start to the last one's stop; it sleeps in poll()
// and takes at most kRounds per kWindow, whatever knocks. The calls below are for the control
// thread.
// Rejected: a private copy of the driver; pausing the lcores from EAL's interrupt thread (it knows
// nothing of them, and would wait for a thread that may wait for it).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dataplane/status.h"
#include "drivers/memif/client_link.h"
#include "drivers/memif/control_link.h"
#include "drivers/memif/server_socket.h"

namespace metaroce::drivers::memif {

class ControlRelay {
 public:
  // The process's own, as long as somebody holds it; nullptr when no thread can be made.
  static std::shared_ptr<ControlRelay> instance();
  ~ControlRelay();
  ControlRelay(const ControlRelay&) = delete;

  // A server's port `id` of a configured socket; its driver has started.
  Status serve(const std::string& socket, std::uint32_t id,
               const std::shared_ptr<PrivateSocket>& driver, ControlLink& link);
  // A client; its door is open.
  void dial(ClientLink& link);
  // Around a restart of the driver, in LinkState::kGone; see there.
  UniqueFd hold(ControlLink& link);
  void restarted(ControlLink& link);
  // For good. Then stop the driver; then the link may go. False: the driver does not come to rest.
  bool leave(ControlLink& link);

 private:
  static constexpr int kRounds = 100;
  static constexpr std::chrono::milliseconds kWindow{10};
  static constexpr std::chrono::seconds kLeaveLimit{5};

  ControlRelay() = default;
  bool start();
  void run();
  void step();
  void sleep();
  void wake();

  std::mutex mutex_;
  std::condition_variable stepped_;
  std::vector<ControlLink*> links_;
  std::vector<std::unique_ptr<ServerSocket>> sockets_;
  bool stop_ = false;
  UniqueFd event_;
  std::thread thread_;
};

}  // namespace metaroce::drivers::memif
