// The daemon's door for applications: a Unix socket, one session per client.
//
// Owned by the control thread, has no thread of its own and never blocks: the thread calls poll()
// in its loop and may sleep on poll_fd() in between (events of the hosts do not wake it). Each
// pass does a bounded amount of work per client, so that none can keep the others waiting.
//
// At the end: stop(), then poll() until idle(), then stop the roles, then destroy. A server that
// is destroyed earlier unmaps memory that roles may still touch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/server/client_link.h"
#include "api/server/host_sessions.h"
#include "api/server/listen_socket.h"
#include "api/server/memfd_resources.h"

namespace metaroce {

struct ServerOptions {
  std::string path = "/run/metaroce/metaroced.sock";
  unsigned mode = 0660;
  std::string group;       // name or number; empty: the daemon's own
  bool hugepages = false;  // for clients' memory; trusted clients only, see memfd_resources.h
  SessionLimits limits;
  std::function<void(const std::string&)> log;  // one line each, at most kLogLinesPerSecond
};

// Why links came and went, sums since start.
struct ServerCounters {
  std::uint64_t accepted = 0;         // connections taken from the socket
  std::uint64_t attached = 0;         // of those, sessions opened
  std::uint64_t refused_clients = 0;  // limit of clients, or of clients of one user
  std::uint64_t refused_attach = 0;   // wrong version or host, attach failed or never came
  std::uint64_t no_descriptor = 0;    // the process has no descriptor left
  std::uint64_t gone = 0;             // client closed or died
  std::uint64_t cut_protocol = 0;     // client sent what no library of ours sends
  std::uint64_t cut_slow = 0;         // client did not read its messages
};

class SessionServer {
 public:
  struct Host {
    std::string name;
    ControlApi* api = nullptr;
  };
  static constexpr unsigned kLogLinesPerSecond = 20;

  // nullptr with one sentence in `error`. At least one host; they must outlive the server.
  // `door`: the options' path, when it was claimed before.
  static std::unique_ptr<SessionServer> create(ServerOptions options,
                                               const std::vector<Host>& hosts, std::string& error,
                                               ListenSocket door = {});
  ~SessionServer();
  SessionServer(const SessionServer&) = delete;
  SessionServer& operator=(const SessionServer&) = delete;

  // Readable when poll() has something to do for a socket (an epoll descriptor).
  [[nodiscard]] int poll_fd() const { return epoll_.get(); }
  // `now`: the clock of ControlApi's deadlines. Returns the number of requests and events handled.
  unsigned poll(Nanos now);
  // No new clients; tells all clients that the daemon goes and ends their sessions.
  void stop();
  [[nodiscard]] bool idle() const;

  [[nodiscard]] SessionCounts counts() const;
  [[nodiscard]] const ServerCounters& counters() const { return counters_; }

 private:
  explicit SessionServer(ServerOptions options);
  bool watch(int fd, void* what, std::string& error);
  void accept_clients(Nanos now);
  bool admit(const ucred& peer);
  unsigned serve(ClientLink& link, Nanos now);
  void attach(ClientLink& link, const abi::Request& r);
  void refuse_attach(ClientLink& link, const abi::Request& r, ControlStatus s,
                     const std::string& text);
  void settle(Nanos now);
  void drop(ClientLink& link);
  void log(Nanos now, const std::string& line);

  ServerOptions options_;
  MemfdResources resources_;
  ListenSocket listener_;
  UniqueFd epoll_, spare_;
  std::vector<std::unique_ptr<HostSessions>> hosts_;
  std::list<ClientLink> links_;
  ServerCounters counters_;
  Nanos log_second_ = 0;
  unsigned log_lines_ = 0;
};

}  // namespace metaroce
