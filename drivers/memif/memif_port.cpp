// net_memif: shared-memory packet rings between two processes of one machine, without privileges.
//  - One side is the server (it listens, and survives the other), one the client (it does not
//    reconnect by itself when the server dies: see needs_reconnect()).
//  - `device` is the socket: a path when it begins with '/', else an abstract name of this network
//    namespace, which leaves nothing behind. A path left by a killed server is removed when nobody
//    listens on it any more.
//  - A buffer (bsize) holds a whole frame, so that a frame is one segment on arrival.
//  - The driver reports 1518 bytes and fails to configure a larger MTU, yet passes what fits a
//    buffer: no MTU is set. It copies: payload may lie in memory that EAL does not know. (Its
//    zero-copy mode hands out offsets into EAL memory and is refused here for that reason.)
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "drivers/kinds.h"

namespace metaroce::drivers {

const PortCapabilities k_memif_row = {
    .kind = PortKind::kMemif, .name = "memif", .max_queues = 255,
    .multi_segment_tx = Support::kYes, .max_frame = 65472, .memory_link = true, .reconnect = true};

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
  const bool dead = connect(fd, reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0 && errno == ECONNREFUSED;
  ::close(fd);
  return !dead;
}

class MemifPort final : public Port {
 public:
  explicit MemifPort(PortConfig c) : Port(std::move(c), k_memif_row) {}
  ~MemifPort() override { close(); }

  // The link was up and is down: the server died, or was stopped.
  bool needs_reconnect() override {
    const bool up = link().up;
    was_up_ = was_up_ || up;
    return !config_.memif_server && !up && was_up_;
  }
  Status reconnect() override {
    stop();
    was_up_ = false;
    return start();
  }

 protected:
  Status create(std::uint16_t& id) override {
    const std::string& socket_name = config_.device;
    if (socket_name.empty() || socket_name.size() >= sizeof(sockaddr_un::sun_path) - 1 ||
        socket_name.find(',') != std::string::npos)
      return Status::error(Errc::kInvalid, fmt::format("port {}: \"{}\" is not a memif socket: give a path or a name "
                                                       "of up to 106 characters", config_.name, socket_name));
    if (config_.args.find("zero-copy=yes") != std::string::npos)
      return Status::error(Errc::kNotSupported, fmt::format("port {}: memif zero-copy reaches EAL memory only, not "
                                                            "registered memory: remove zero-copy=yes", config_.name));
    const bool path = socket_name.front() == '/';
    if (path && config_.memif_server && access(socket_name.c_str(), F_OK) == 0 && !somebody_listens(socket_name))
      unlink(socket_name.c_str());
    const std::uint32_t buffer = (frame_room() + 63) / 64 * 64;
    const int log2_ring = std::countr_zero(std::max(config_.rx_descriptors, config_.tx_descriptors));
    const std::string args =
        fmt::format("role={},id={},socket={},socket-abstract={},bsize={},rsize={}{}",
                    config_.memif_server ? "server" : "client", config_.memif_id, socket_name, path ? "no" : "yes",
                    buffer, log2_ring, more_args());
    return attach("vdev", vdev_name("net_memif"), args, id);
  }
  void destroy() override { detach("vdev", vdev_name("net_memif")); }
  void tune(const rte_eth_dev_info&, Plan& p) override {
    p.set_mtu = false;
    p.rx_room = (frame_room() + 63) / 64 * 64;
  }

 private:
  bool was_up_ = false;
};
}  // namespace

std::unique_ptr<Port> make_memif(PortConfig c) { return std::make_unique<MemifPort>(std::move(c)); }

}  // namespace metaroce::drivers
