// net_memif: shared-memory packet rings between two processes of one machine, without privileges.
//  - One side is the server (it listens, and survives the other), one the client (it does not
//    reconnect by itself when the server dies: see needs_reconnect()).
//  - `device` is the socket: a path when it begins with '/', else an abstract name of this network
//    namespace, which leaves nothing behind. A path left by a killed server is removed when nobody
//    listens on it any more.
//  - Both ends in one process (tests): open the server first, the driver shares one socket object.
//  - A buffer (bsize) holds a whole frame, so that a frame is one segment on arrival.
//  - The driver frees a listening socket without closing it or telling EAL's interrupt thread (seen
//    with 22.11): the next client that knocks is answered from freed memory. See
//    silence_listener().
//  - The driver reports 1518 bytes and fails to configure a larger MTU, yet passes what fits a
//    buffer: no MTU is set. It copies: payload may lie in memory that EAL does not know. (Its
//    zero-copy mode hands out offsets into EAL memory and is refused here for that reason.)
#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <rte_alarm.h>

#include "drivers/kinds.h"

namespace metaroce::drivers {

const PortCapabilities k_memif_row = {.kind = PortKind::kMemif,
                                      .name = "memif",
                                      .max_queues = 255,
                                      // [MR-3.1.12]
                                      .multi_segment_tx = Support::kYes,
                                      .max_frame = 65472,
                                      .memory_link = true,
                                      .reconnect = true};

namespace {

// Asks with the wrong socket type: a bound socket answers EPROTOTYPE, a dead path ECONNREFUSED. A
// real connection that closes at once would kill a live server: its driver closes the descriptor
// that EAL's interrupt thread still polls, which makes that thread panic (seen with 22.11).
bool somebody_listens(const std::string& path) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  std::memcpy(a.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;
  const bool dead =
      connect(fd, reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0 && errno == ECONNREFUSED;
  ::close(fd);
  return !dead;
}

// Does this descriptor listen on the socket of that name?
bool listens_on(int fd, const std::string& name) {
  int listening = 0;
  socklen_t n = sizeof listening;
  sockaddr_un a{};
  socklen_t bytes = sizeof a;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) != 0 || listening == 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&a), &bytes) != 0 || a.sun_family != AF_UNIX)
    return false;
  const bool path = name.front() == '/';
  const std::size_t used = bytes - offsetof(sockaddr_un, sun_path);
  if (path) return name == std::string(a.sun_path, strnlen(a.sun_path, used));
  return used == name.size() + 1 && a.sun_path[0] == '\0' &&
         name.compare(0, name.size(), a.sun_path + 1, name.size()) == 0;
}

std::atomic<std::uint32_t> g_alarms{0};
void on_alarm(void*) { g_alarms.fetch_add(1, std::memory_order_release); }

// Puts a descriptor that never becomes readable in the place of the driver's listening one: the
// kernel refuses who knocks from now on, and EAL, which has no way to be told, watches silence. An
// alarm runs on the interrupt thread: once it has, that thread is out of the driver's handler. The
// descriptor stays open until the process ends; closing it would make EAL panic.
void silence_listener(const std::string& name) {
  DIR* d = opendir("/proc/self/fd");
  if (d == nullptr) return;
  int found = -1;
  while (const dirent* e = readdir(d)) {
    const int fd = std::atoi(e->d_name);
    if (fd > 2 && listens_on(fd, name)) found = fd;
  }
  closedir(d);
  const int silent = found < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (silent < 0) return;
  dup3(silent, found, O_CLOEXEC);
  ::close(silent);
  const std::uint32_t before = g_alarms.load(std::memory_order_acquire);
  if (rte_eal_alarm_set(1, on_alarm, nullptr) != 0) return;
  for (int i = 0; i < 1000 && g_alarms.load(std::memory_order_acquire) == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Ports of either role by socket, as long as the driver keeps its object: the last to go silences
// it. Ports are opened and closed by one thread.
std::map<std::string, unsigned>& socket_users() {
  // Never destroyed: ports of an embedded dataplane close while the process exits.
  static auto& m = *new std::map<std::string, unsigned>;
  return m;
}

class MemifPort final : public Port {
 public:
  explicit MemifPort(PortConfig c) : Port(std::move(c), k_memif_row) {}
  ~MemifPort() override {
    if (joined_ && --socket_users()[config_.device] == 0) {
      socket_users().erase(config_.device);
      silence_listener(config_.device);
    }
    close();
  }

  // A client's driver fails to start when no server listens: that is a link that is down, not an
  // error, or the order in which two daemons start would matter.
  Status start() override {
    Status s = begin();
    return lost_ ? Status{} : s;
  }
  // Not up long after the connection: a server that was not started yet refuses for good.
  bool needs_reconnect() override {
    if (config_.memif_server || lost_) return lost_;
    const bool up = link().up;
    lost_ = !up && (was_up_ || std::chrono::steady_clock::now() - begun_ > kHandshakeLimit);
    was_up_ = up;
    return lost_;
  }
  Status reconnect() override {
    stop();
    return begin();
  }

 protected:
  Status create(std::uint16_t& id) override {
    const std::string& socket_name = config_.device;
    if (socket_name.empty() || socket_name.size() >= sizeof(sockaddr_un::sun_path) - 1 ||
        socket_name.find(',') != std::string::npos)
      return Status::error(
          Errc::kInvalid,
          fmt::format("port {}: \"{}\" is not a memif socket: give a path or a name "
                      "of up to 106 characters",
                      config_.name, socket_name));
    if (config_.args.find("zero-copy=yes") != std::string::npos)
      return Status::error(Errc::kNotSupported,
                           fmt::format("port {}: memif zero-copy reaches EAL memory only, not "
                                       "registered memory: remove zero-copy=yes",
                                       config_.name));
    const bool path = socket_name.front() == '/';
    if (path && config_.memif_server && access(socket_name.c_str(), F_OK) == 0 &&
        !somebody_listens(socket_name))
      unlink(socket_name.c_str());
    const std::uint32_t buffer = (frame_room() + 63) / 64 * 64;
    const int log2_ring =
        std::countr_zero(std::max(config_.rx_descriptors, config_.tx_descriptors));
    const std::string args =
        fmt::format("role={},id={},socket={},socket-abstract={},bsize={},rsize={}{}",
                    config_.memif_server ? "server" : "client", config_.memif_id, socket_name,
                    path ? "no" : "yes", buffer, log2_ring, more_args());
    Status s = attach("vdev", vdev_name("net_memif"), args, id);
    if (s.ok()) {
      joined_ = true;
      ++socket_users()[socket_name];
    }
    return s;
  }
  void destroy() override { detach("vdev", vdev_name("net_memif")); }
  void tune(const rte_eth_dev_info&, Plan& p) override {
    p.set_mtu = false;
    p.rx_room = (frame_room() + 63) / 64 * 64;
  }

 private:
  Status begin() {
    begun_ = std::chrono::steady_clock::now();
    was_up_ = false;
    Status s = Port::start();
    lost_ = !s.ok() && !config_.memif_server;
    return s;
  }

  static constexpr std::chrono::milliseconds kHandshakeLimit{500};
  std::chrono::steady_clock::time_point begun_;
  bool joined_ = false;  // counted among the socket's users
  bool was_up_ = false;  // when last asked
  bool lost_ = false;
};
}  // namespace

std::unique_ptr<Port> make_memif(PortConfig c) { return std::make_unique<MemifPort>(std::move(c)); }

}  // namespace metaroce::drivers
