// net_tap: a kernel TAP interface that this process creates and that vanishes with it. For talking
// to the local kernel, not for speed (about 22,000 cycles per packet). Before DPDK 24.11 it drops
// longer frames silently on transmit, so max_frame refuses them at the door. rte_flow: validate
// says yes, create fails without the kernel's multiq and flower; hence steering is tried.
#include <net/if.h>

#include <fmt/format.h>

#include "dataplane/compat.h"
#include "drivers/interface.h"
#include "drivers/kinds.h"

namespace metaroce::drivers {

const PortCapabilities k_tap_row = {.kind = PortKind::kTap,
                                    .name = "tap",
                                    .rx_checksum = Support::kYes,
                                    .tx_checksum = Support::kYes,  // by the driver, in software
                                    .max_queues = 16,
                                    .steering = Support::kDevice,
                                    .scatter = Support::kYes,
                                    .multi_segment_tx = Support::kYes,
                                    .max_frame = compat::kTapMaxFrame,
                                    .needs_root = true};

namespace {
class TapPort final : public Port {
 public:
  explicit TapPort(PortConfig c) : Port(std::move(c), k_tap_row) {}
  ~TapPort() override { close(); }

 protected:
  Status create(std::uint16_t& id) override {
    if (!valid_interface_name(config_.device))
      return Status::error(
          Errc::kInvalid,
          fmt::format("port {}: \"{}\" is not an interface name (1 to 15 characters)", config_.name,
                      config_.device));
    if (if_nametoindex(config_.device.c_str()) != 0)
      return Status::error(
          Errc::kBusy,
          fmt::format("port {}: interface {} exists already; a tap port makes its own: "
                      "choose another name",
                      config_.name, config_.device));
    Status s = attach("vdev", vdev_name("net_tap"), "iface=" + config_.device + more_args(), id);
    if (!s.ok()) s.message += "; tap needs CAP_NET_ADMIN and /dev/net/tun";
    return s;
  }
  void destroy() override { detach("vdev", vdev_name("net_tap")); }
  void tune(const rte_eth_dev_info&, Plan& p) override {
    p.set_mtu = compat::kTapMaxFrame > 1518;  // 22.11 answers EINVAL above 1500
  }
};
}  // namespace

std::unique_ptr<Port> make_tap(PortConfig c) { return std::make_unique<TapPort>(std::move(c)); }

}  // namespace metaroce::drivers
