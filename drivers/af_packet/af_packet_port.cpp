// net_af_packet: a kernel interface (veth, any NIC) through mmapped packet sockets.
//  - A ring slot (framesz) holds the kernel's header, up to 80 bytes, and the frame; slots may not
//    straddle blocks. Slots of a multiple of 256 bytes, 16 to a block, keep blocks whole pages.
//  - The driver copies up to framesz - 32 bytes into an mbuf, and refuses smaller ones: the receive
//    pool follows the slot, so that a larger frame (somebody raised the MTU behind our back) is cut
//    by the kernel and dropped by the parser, and cannot overflow.
//  - It reports 1518 bytes and refuses an MTU above 1500, yet passes what fits a slot: no MTU is
//  set.
//  - The local kernel leaves UDP checksums half done on veth: `ethtool -K <if> tx off` where a
//    program of this host talks to the port.
//  - Several queue pairs: PACKET_FANOUT_HASH spreads flows by the kernel's hash, not by UDP port.
#include <fmt/format.h>

#include "drivers/interface.h"
#include "drivers/kinds.h"

namespace metaroce::drivers {

const PortCapabilities k_af_packet_row = {.kind = PortKind::kAfPacket,
                                          .name = "af_packet",
                                          .max_queues = 16,
                                          .multi_segment_tx = Support::kYes,
                                          .max_frame = 16000,
                                          .needs_root = true};

namespace {
class AfPacketPort final : public Port {
 public:
  explicit AfPacketPort(PortConfig c) : Port(std::move(c), k_af_packet_row) {}
  ~AfPacketPort() override { close(); }

 protected:
  Status create(std::uint16_t& id) override {
    if (Status s =
            check_interface(config_.name, config_.device, frame_bytes(config_.payload_mtu) - 18);
        !s.ok())
      return s;
    slot_ = (frame_room() + 80 + 255) / 256 * 256;
    const std::string args =
        fmt::format("iface={},qpairs={},framesz={},blocksz={},framecnt={},qdisc_bypass=1{}",
                    config_.device, config_.queues, slot_, slot_ * 16,
                    std::max(config_.rx_descriptors, config_.tx_descriptors), more_args());
    Status s = attach("vdev", vdev_name("net_af_packet"), args, id);
    if (!s.ok()) s.message += "; af_packet needs CAP_NET_RAW";
    return s;
  }
  void destroy() override { detach("vdev", vdev_name("net_af_packet")); }
  void tune(const rte_eth_dev_info&, Plan& p) override {
    p.set_mtu = false;
    p.rx_room = slot_;
  }

 private:
  std::uint32_t slot_ = 0;
};
}  // namespace

std::unique_ptr<Port> make_af_packet(PortConfig c) {
  return std::make_unique<AfPacketPort>(std::move(c));
}

}  // namespace metaroce::drivers
