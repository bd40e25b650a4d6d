// net_af_xdp: a kernel interface through AF_XDP sockets. A frame must fit one 4 KiB page together
// with the mbuf, so that 4 KiB payloads do not pass. Queue pairs are the interface's combined
// channels (veth has one). Busy polling is off: on veth it costs a third of the rate.
// Without root the driver fails to lock its memory and to load its program.
#include <fmt/format.h>

#include "drivers/interface.h"
#include "drivers/kinds.h"

namespace metaroce::drivers {
namespace {
constexpr std::uint32_t kXdpMaxFrame = 3520;  // 4096 - mbuf, pool header and headrooms
constexpr std::uint32_t kXdpFillRing = 4096;  // the driver fills it whatever the descriptors
}  // namespace

const PortCapabilities k_af_xdp_row = {.kind = PortKind::kAfXdp,
                                       .name = "af_xdp",
                                       .max_queues = 0,
                                       .max_frame = kXdpMaxFrame,
                                       .needs_root = true};

namespace {
class AfXdpPort final : public Port {
 public:
  explicit AfXdpPort(PortConfig c) : Port(std::move(c), k_af_xdp_row) {}
  ~AfXdpPort() override { close(); }

 protected:
  Status create(std::uint16_t& id) override {
    if (Status s =
            check_interface(config_.name, config_.device, frame_bytes(config_.payload_mtu) - 18);
        !s.ok())
      return s;
    const std::string args = fmt::format("iface={},start_queue=0,queue_count={},busy_budget=0{}",
                                         config_.device, config_.queues, more_args());
    Status s = attach("vdev", vdev_name("net_af_xdp"), args, id);
    if (!s.ok())
      s.message +=
          "; af_xdp needs root, and as many combined channels as queue pairs (`ethtool -l`)";
    return s;
  }
  void destroy() override { detach("vdev", vdev_name("net_af_xdp")); }
  void tune(const rte_eth_dev_info&, Plan& p) override {
    p.set_mtu = false;  // it would change the interface's
    p.rx_room = kXdpMaxFrame;
    p.driver_mbufs = kXdpFillRing;
  }
};
}  // namespace

std::unique_ptr<Port> make_af_xdp(PortConfig c) {
  return std::make_unique<AfXdpPort>(std::move(c));
}

}  // namespace metaroce::drivers
