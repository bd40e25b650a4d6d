// A NIC on the PCI bus, by address, bound to vfio-pci (or left with its kernel driver where DPDK
// shares it, as for mlx5). The address must be on EAL's allow list. Nearly everything is probed.
#include <fmt/format.h>

#include "drivers/kinds.h"

namespace metaroce::drivers {

const PortCapabilities k_pci_row = {.kind = PortKind::kPci,
                                    .name = "pci",
                                    .rx_checksum = Support::kDevice,
                                    .tx_checksum = Support::kDevice,
                                    .max_queues = 0,
                                    .steering = Support::kDevice,
                                    .scatter = Support::kDevice,
                                    .multi_segment_tx = Support::kDevice,
                                    .max_frame = 0,
                                    .needs_root = true,
                                    .needs_hugepages = true};

namespace {
class PciPort final : public Port {
 public:
  explicit PciPort(PortConfig c) : Port(std::move(c), k_pci_row) {}
  ~PciPort() override { close(); }

 protected:
  Status create(std::uint16_t& id) override {
    if (config_.device.empty())
      return Status::error(
          Errc::kInvalid,
          fmt::format("port {}: a pci port needs its address, such as 0000:3b:00.0", config_.name));
    Status s = attach("pci", config_.device, config_.args, id);
    if (!s.ok())
      s.message +=
          "; check that it is listed by `dpdk-devbind.py -s`, bound to vfio-pci and on the allow "
          "list";
    return s;
  }
  void destroy() override { detach("pci", config_.device); }
};
}  // namespace

std::unique_ptr<Port> make_pci(PortConfig c) { return std::make_unique<PciPort>(std::move(c)); }

}  // namespace metaroce::drivers
