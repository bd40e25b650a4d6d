// fabric: a place in the emulated fabric of this process (emulated_fabric.h), as a net_ring port
// over its two rings. Not a memory link: what crosses a fabric may be damaged on the way, so
// packets carry checksums and are checked. A frame that lies in the fabric keeps its mbufs, for
// which the pools are larger here.
#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>

#include "drivers/fabric/emulated_fabric.h"
#include "drivers/kinds.h"

namespace metaroce::drivers {

const PortCapabilities k_fabric_row = {.kind = PortKind::kFabric,
                                       .name = "fabric",
                                       .max_queues = 1,
                                       .scatter = Support::kYes,
                                       .multi_segment_tx = Support::kYes,
                                       .max_frame = 65535};

namespace {

class FabricPort final : public Port {
 public:
  explicit FabricPort(PortConfig c) : Port(std::move(c), k_fabric_row) {}
  ~FabricPort() override { close(); }

 protected:
  Status create(std::uint16_t& id) override {
    if (config_.queues > k_fabric_row.max_queues)
      return Status::error(Errc::kNotSupported,
                           fmt::format("port {}: {} queue pairs wanted, fabric has {}",
                                       config_.name, config_.queues, k_fabric_row.max_queues));
    fabric_ = EmulatedFabric::current();
    if (fabric_ == nullptr)
      return Status::error(Errc::kNoDevice,
                           fmt::format("port {}: no fabric runs in this process", config_.name));
    std::uint16_t taken = 0;
    if (rte_eth_dev_get_port_by_name(("net_ring_" + vdev_name("f")).c_str(), &taken) == 0)
      return Status::error(
          Errc::kBusy,
          fmt::format("port {}: exists already; give each port its own name", config_.name));
    EmulatedFabric::Rings rings;
    const unsigned slots = std::max(config_.rx_descriptors, config_.tx_descriptors);
    if (Status s = fabric_->attach(config_.fabric_host, config_.fabric_plane, slots, rings);
        !s.ok())
      return Status::error(s.code, fmt::format("port {}: {}", config_.name, s.message));
    const int r = rte_eth_from_rings(vdev_name("f").c_str(), &rings.to_host, 1, &rings.from_host, 1,
                                     SOCKET_ID_ANY);
    if (r < 0) {
      const std::string why = rte_strerror(rte_errno);
      fabric_->detach(config_.fabric_host, config_.fabric_plane);
      return Status::error(Errc::kFailed, fmt::format("port {}: ring port could not be made: {}",
                                                      config_.name, why));
    }
    id = static_cast<std::uint16_t>(r);
    fabric_->set_device(config_.fabric_host, config_.fabric_plane, id);
    return {};
  }
  void destroy() override {
    detach("vdev", "net_ring_" + vdev_name("f"));
    if (EmulatedFabric::current() == fabric_)
      fabric_->detach(config_.fabric_host, config_.fabric_plane);
  }
  void tune(const rte_eth_dev_info&, Plan& p) override {
    p.set_mtu = false;
    p.frames_away = fabric_->port_packets();
  }

 private:
  EmulatedFabric* fabric_ = nullptr;
};
}  // namespace

std::unique_ptr<Port> make_fabric(PortConfig c) {
  return std::make_unique<FabricPort>(std::move(c));
}

}  // namespace metaroce::drivers
