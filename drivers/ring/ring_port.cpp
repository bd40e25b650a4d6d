// net_ring: mbufs move between two ports of one process as pointers, nothing is copied. Two ports
// with the same `device` are the two ends of one link; each queue pair has a ring per direction.
//  - What was sent as a chain arrives as a chain, and an external buffer arrives as one: the
//    receiver reads the sender's memory.
//  - Mbufs return to the sender's pools on the receiver's lcore.
//  - Closing either end frees what lies in the link's rings (its pools go with it), so the lcores
//    of both ends must have stopped, and nobody may keep mbufs of the other end.
#include "drivers/ring/ring_port.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>

#include "drivers/kinds.h"

namespace metaroce {
namespace drivers {

const PortCapabilities k_ring_row = {.kind = PortKind::kRing,
                                     .name = "ring",
                                     .max_queues = 16,
                                     .scatter = Support::kYes,
                                     .multi_segment_tx = Support::kYes,
                                     .max_frame = 65535,
                                     .memory_link = true};  // [MR-3.1.12]

namespace {

struct Link {
  std::vector<rte_ring*> to[2];  // towards end 0, towards end 1
  bool open[2] = {false, false};

  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() {
    drain();
    for (const auto& side : to)
      for (rte_ring* r : side) rte_ring_free(r);
  }
  void drain() {
    for (const auto& side : to)
      for (rte_ring* r : side) {
        void* m = nullptr;
        while (r != nullptr && rte_ring_dequeue(r, &m) == 0)
          rte_pktmbuf_free(static_cast<rte_mbuf*>(m));
      }
  }
};

// Control thread only.
std::map<std::string, std::unique_ptr<Link>>& links() {
  // Never destroyed: ports of an embedded dataplane close while the process exits.
  static auto& all = *new std::map<std::string, std::unique_ptr<Link>>;
  return all;
}

class RingPort final : public Port {
 public:
  explicit RingPort(PortConfig c) : Port(std::move(c), k_ring_row) {}
  RingPort(PortConfig c, std::span<rte_ring* const> rx, std::span<rte_ring* const> tx)
      : Port(std::move(c), k_ring_row),
        rx_(rx.begin(), rx.end()),
        tx_(tx.begin(), tx.end()),
        own_(false) {}
  ~RingPort() override { close(); }

 protected:
  Status create(std::uint16_t& id) override {
    if (config_.queues > k_ring_row.max_queues)
      return Status::error(Errc::kNotSupported,
                           fmt::format("port {}: {} queue pairs wanted, ring has {}", config_.name,
                                       config_.queues, k_ring_row.max_queues));
    if (own_) {
      if (Status s = join_link(); !s.ok()) return s;
    }
    const std::string name = vdev_name("r");
    std::uint16_t taken = 0;
    if (rte_eth_dev_get_port_by_name(("net_ring_" + name).c_str(), &taken) == 0) {
      leave_link();
      return Status::error(
          Errc::kBusy,
          fmt::format("port {}: exists already; give each port its own name", config_.name));
    }
    const int r = rte_eth_from_rings(name.c_str(), rx_.data(), static_cast<unsigned>(rx_.size()),
                                     tx_.data(), static_cast<unsigned>(tx_.size()), 0);
    if (r < 0) {
      const std::string why = rte_strerror(rte_errno);
      leave_link();
      return Status::error(Errc::kFailed, fmt::format("port {}: ring port could not be made: {}",
                                                      config_.name, why));
    }
    id = static_cast<std::uint16_t>(r);
    return {};
  }
  void destroy() override {
    detach("vdev", "net_ring_" + vdev_name("r"));
    leave_link();
  }
  void tune(const rte_eth_dev_info&, Plan& p) override { p.set_mtu = false; }

 private:
  Status join_link() {
    std::unique_ptr<Link>& l = links()[config_.device];
    if (l == nullptr) {
      l = std::make_unique<Link>();
      const std::size_t number = next_link_++;
      for (unsigned side = 0; side < 2; ++side)
        for (unsigned q = 0; q < config_.queues; ++q) {
          const unsigned slots = std::max(config_.rx_descriptors, config_.tx_descriptors);
          rte_ring* r =
              rte_ring_create(fmt::format("mr_link{}_{}_{}", number, side, q).c_str(), slots,
                              SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
          l->to[side].push_back(r);
          if (r == nullptr) {
            links().erase(config_.device);
            return Status::error(
                Errc::kNoMemory,
                fmt::format("port {}: no memory for a ring of {}: raise the memory "
                            "size or lower descriptors",
                            config_.name, slots));
          }
        }
    }
    end_ = l->open[0] ? 1 : 0;
    if (l->open[end_])
      return Status::error(Errc::kBusy, fmt::format("port {}: link {} has two ends already",
                                                    config_.name, config_.device));
    if (l->to[0].size() != config_.queues)
      return Status::error(
          Errc::kInvalid,
          fmt::format("port {}: {} queue pairs, but the other end of link {} has {}: "
                      "make them equal",
                      config_.name, config_.queues, config_.device, l->to[0].size()));
    l->open[end_] = true;
    joined_ = true;
    rx_ = l->to[end_];
    tx_ = l->to[1 - end_];
    return {};
  }
  void leave_link() {
    if (!joined_) return;
    joined_ = false;
    const auto it = links().find(config_.device);
    it->second->open[end_] = false;
    it->second->drain();
    if (!it->second->open[1 - end_]) links().erase(it);
  }

  static inline std::size_t next_link_ = 0;
  std::vector<rte_ring*> rx_, tx_;
  unsigned end_ = 0;
  bool own_ = true, joined_ = false;
};
}  // namespace

std::unique_ptr<Port> make_ring(PortConfig c) { return std::make_unique<RingPort>(std::move(c)); }

}  // namespace drivers

Status open_ring_port(const PortConfig& config, std::span<rte_ring* const> rx,
                      std::span<rte_ring* const> tx, std::unique_ptr<Port>& out) {
  out.reset();
  if (rx.size() != config.queues || tx.size() != config.queues)
    return Status::error(Errc::kInvalid,
                         fmt::format("port {}: {} queue pairs need as many rings per direction",
                                     config.name, config.queues));
  auto port = std::make_unique<drivers::RingPort>(config, rx, tx);
  if (Status s = port->open(); !s.ok()) return s;
  out = std::move(port);
  return {};
}

}  // namespace metaroce
