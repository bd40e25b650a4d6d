// net_memif: shared-memory packet rings between two processes of one machine, without privileges.
//  - One side is the server, which listens, one the client. Either may come, die and come back.
//  - `device` is the socket: a path when it begins with '/', else an abstract name of this network
//    namespace, which leaves nothing behind. It is not the driver's: control_relay.h stands between
//    (why is said there), the driver meets the relay on sockets of our own.
//  - The port is running() while a peer is there. needs_reconnect(): one came (the lcores may
//  poll),
//    or went (they may not, and the driver is restarted).
//  - A buffer (bsize) holds a whole frame, so that a frame is one segment on arrival.
//  - The driver frees a listening socket without closing it or telling EAL's interrupt thread (seen
//    with 22.11): a knock would be answered from freed memory. Nobody can: it has no name.
//  - The driver reports 1518 bytes and fails to configure a larger MTU, yet passes what fits a
//    buffer: no MTU is set. It copies: payload may lie in memory that EAL does not know. (Its
//    zero-copy mode hands out offsets into EAL memory and is refused here for that reason.)
#include <unistd.h>

#include <bit>

#include <fmt/format.h>
#include <rte_log.h>
#include <rte_random.h>

#include "drivers/kinds.h"
#include "drivers/memif/control_relay.h"
#include "drivers/memif/socket_name.h"

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

using memif::LinkState;

class MemifPort final : public Port {
 public:
  explicit MemifPort(PortConfig c) : Port(std::move(c), k_memif_row) {}
  ~MemifPort() override {
    // The driver complains that its socket's name is gone.
    const int type = rte_log_register("pmd.net.memif"), level = rte_log_get_level(type);
    if (level >= 0) rte_log_set_level(type, RTE_LOG_CRIT);
    close();
    if (level >= 0) rte_log_set_level(type, static_cast<std::uint32_t>(level));
  }

  // Nobody at the other end is a link that is down, not an error: the order in which two daemons
  // start does not matter.
  Status start() override {
    if (link_ != nullptr) return {};
    relay_ = memif::ControlRelay::instance();
    if (relay_ == nullptr)
      return Status::error(Errc::kFailed,
                           fmt::format("port {}: no thread for memif's control", config_.name));
    Status s = config_.memif_server ? serve() : dial();
    if (!s.ok()) stop();
    return s;
  }
  void stop() override {
    if (link_ != nullptr) relay_->leave(*link_);
    Port::stop();
    link_.reset();
    relay_.reset();
  }
  bool needs_reconnect() override {
    if (link_ == nullptr) return false;
    const LinkState s = link_->state();
    return s == LinkState::kGone || s == LinkState::kHeld ||
           (s == LinkState::kJoined && !running() && device_link_up());
  }
  Status reconnect() override {
    if (!needs_reconnect()) return {};
    if (link_->state() != LinkState::kJoined) return restart();
    set_running(true);
    return {};
  }

 protected:
  Status create(std::uint16_t& id) override {
    if (Status s = check(); !s.ok()) return s;
    if (!config_.memif_server) {
      door_ = fmt::format("metaroce-{}-{}-{:016x}", getpid(), config_.name, rte_rand());
      return attach("vdev", vdev_name("net_memif"), arguments("client", door_, true), id);
    }
    Status s;
    private_ = memif::PrivateSocket::make(s);
    if (private_ == nullptr) return s;
    s = attach("vdev", vdev_name("net_memif"), arguments("server", private_->path(), false), id);
    if (!s.ok()) return s;
    s = private_->adopt();
    if (!s.ok()) destroy();
    return s;
  }
  void destroy() override {
    detach("vdev", vdev_name("net_memif"));
    private_.reset();
  }
  void tune(const rte_eth_dev_info&, Plan& p) override {
    p.set_mtu = false;
    p.rx_room = buffer_bytes();
  }

 private:
  [[nodiscard]] std::uint32_t buffer_bytes() const { return (frame_room() + 63) / 64 * 64; }

  Status check() const {
    const std::string& socket = config_.device;
    if (socket.empty() || socket.size() > memif::SocketName::kLongest)
      return Status::error(
          Errc::kInvalid,
          fmt::format("port {}: \"{}\" is not a memif socket: give a path or a name "
                      "of up to {} characters",
                      config_.name, socket, memif::SocketName::kLongest));
    if (config_.args.find("zero-copy=yes") != std::string::npos)
      return Status::error(Errc::kNotSupported,
                           fmt::format("port {}: memif zero-copy reaches EAL memory only, not "
                                       "registered memory: remove zero-copy=yes",
                                       config_.name));
    return {};
  }
  [[nodiscard]] std::string arguments(const char* role, const std::string& socket,
                                      bool abstract) const {
    const int log2_ring =
        std::countr_zero(std::max(config_.rx_descriptors, config_.tx_descriptors));
    return fmt::format("role={},id={},socket={},socket-abstract={},bsize={},rsize={}{}", role,
                       config_.memif_id, socket, abstract ? "yes" : "no", buffer_bytes(), log2_ring,
                       more_args());
  }

  // The driver first: the relay's clients reach it.
  Status serve() {
    if (Status s = begin(); !s.ok()) return s;
    auto link = std::make_unique<memif::ControlLink>(true, config_.queues);
    Status s = relay_->serve(config_.device, config_.memif_id, private_, *link);
    if (!s.ok()) return Status::error(s.code, fmt::format("port {}: {}", config_.name, s.message));
    link_ = std::move(link);
    return {};
  }
  // The relay first: the driver connects to it.
  Status dial() {
    auto link = std::make_unique<memif::ClientLink>(config_.device, config_.queues);
    if (Status s = link->open_door(door_); !s.ok()) return s;
    relay_->dial(*link);
    link_ = std::move(link);
    return begin();
  }
  // The driver disconnects from the peer that went. A client's connects to the relay again, which
  // looks for the server. When the start fails, the link stays kHeld.
  Status restart() {
    const UniqueFd ours = relay_->hold(*link_);
    Port::stop();
    Status s = begin();
    if (s.ok()) relay_->restarted(*link_);
    return s;
  }
  Status begin() {
    Status s = Port::start();
    set_running(false);
    return s;
  }

  std::string door_;                               // client: where the driver finds the relay
  std::shared_ptr<memif::PrivateSocket> private_;  // server: where the relay finds the driver
  std::shared_ptr<memif::ControlRelay> relay_;     // while started
  std::unique_ptr<memif::ControlLink> link_;
};
}  // namespace

std::unique_ptr<Port> make_memif(PortConfig c) { return std::make_unique<MemifPort>(std::move(c)); }

}  // namespace metaroce::drivers
