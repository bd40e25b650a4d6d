// A port: one device with N queue pairs, its pools and what it can do. Control thread, except that
// lcores call rte_eth_rx_burst(id(), q) and rte_eth_tx_burst(id(), q) directly; queue pair q
// belongs to worker group q. Virtual calls on the control path only.
//
// Kinds differ in three places, which they override (drivers/<kind>): create() makes the device,
// tune() changes what configure() is about to do, and the capability row says the rest. A device
// is made when its port is opened, not by EAL arguments, so that an error belongs to one port and
// is one line.
//
// Life: open() -> start() -> stop() -> destructor. Stop the lcores first.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rte_ethdev.h>

#include "base/units.h"
#include "dataplane/capabilities.h"
#include "dataplane/mempools.h"
#include "dataplane/status.h"
#include "dataplane/steering.h"
#include "wire/address.h"

namespace metaroce {

struct PortConfig {
  std::string name;  // [a-z0-9_-], 1 to 12 characters, unique in the process
  PortKind kind = PortKind::kNull;
  std::string device;  // pci: address; tap, af_packet, af_xdp: interface; memif: socket
                       // ("/path", or a name: abstract); ring: the link's name
  std::string args;    // further device arguments of the driver, "a=1,b=2"
  bool memif_server = true;
  std::uint32_t memif_id = 0;
  std::uint16_t fabric_host = 0;  // fabric: where the port hangs
  std::uint8_t fabric_plane = 0;
  std::uint16_t queues = 1;
  std::uint16_t rx_descriptors = 256, tx_descriptors = 256;  // powers of two
  std::uint32_t payload_mtu = 4096;
  bool ipv4 = false;             // all addresses are IPv4: frames are 20 bytes shorter
  bool checksum_offload = true;  // use it where the port has it
  bool checksum_always = false;  // also on memory links (their other end is a switch)
  MacAddress mac{};              // zero: the device's own
};

// What a transmit path does about the UDP checksum.
enum class TxChecksum : std::uint8_t {
  kNone,      // memory link: leave it 0
  kOffload,   // pseudo header sum, RTE_MBUF_F_TX_UDP_CKSUM and lengths; see set_tx_checksum()
  kSoftware,  // wire::write_udp_checksum()
};

struct PortStats {
  std::uint64_t rx_packets = 0, rx_bytes = 0, rx_missed = 0, rx_errors = 0, rx_no_mbuf = 0;
  std::uint64_t tx_packets = 0, tx_bytes = 0, tx_errors = 0;
};

struct LinkState {
  bool up = false;
  Mbps speed = 0;  // 0 = unknown
};

class Port {
 public:
  virtual ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Creates and configures the device and its pools. Called once, by open_port().
  Status open();
  virtual Status start();
  virtual void stop();
  // False: lcores must not call the burst functions. Only a memif whose peer is not there yet is
  // not running after a successful start(). Changes while no lcore is inside them.
  [[nodiscard]] bool running() const { return running_; }

  [[nodiscard]] std::uint16_t id() const { return id_; }
  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] const PortConfig& config() const { return config_; }
  // Of this very port, as probed.
  [[nodiscard]] const PortCapabilities& capabilities() const { return caps_; }
  [[nodiscard]] std::uint16_t queues() const { return config_.queues; }
  [[nodiscard]] const QueuePools& pools(std::uint16_t queue) const { return pools_[queue]; }
  [[nodiscard]] const MacAddress& mac() const { return mac_; }
  [[nodiscard]] TxChecksum tx_checksum() const { return tx_checksum_; }
  // False on memory links: whatever arrives was not exposed to a wire.
  [[nodiscard]] bool verify_checksum() const { return verify_checksum_; }
  // Payload in mbuf chains is fine; else copy into an mbuf of pools().linear.
  [[nodiscard]] bool chains() const { return caps_.multi_segment_tx == Support::kYes; }

  // Brings UDP destination port base + i to queue i; kNotSupported where the port cannot, and
  // then a packet may arrive on any queue. With one queue there is nothing to do. After start().
  Status steer(std::uint16_t base_udp_port);
  [[nodiscard]] bool steered() const { return config_.queues == 1 || steering_.active(); }

  [[nodiscard]] LinkState link() const;
  [[nodiscard]] PortStats stats() const;

  // Kinds with capabilities().reconnect: true when the peer came or went and the device has to
  // follow. Ask often, it is cheap; take the port away from the lcores, call reconnect(), and give
  // it back: running() says whether they may poll it. An error: ask again later.
  [[nodiscard]] virtual bool needs_reconnect() { return false; }
  virtual Status reconnect() { return {}; }

 protected:
  Port(PortConfig config, const PortCapabilities& row);
  // What open() is about to ask of the device; tune() may change it.
  struct Plan {
    rte_eth_conf conf{};
    std::uint32_t rx_room = 0;       // data room of receive mbufs
    std::uint32_t driver_mbufs = 0;  // of the receive pool that the driver keeps for itself
    std::uint32_t frames_away = 0;   // sent ones whose mbufs come back late, besides its ring
    bool set_mtu = true;             // the driver understands rxmode.mtu
  };
  // Makes the device; `id` is its ethdev port.
  virtual Status create(std::uint16_t& id) = 0;
  // Frees what create() made; the ethdev is stopped and closed.
  virtual void destroy() = 0;
  virtual void tune(const rte_eth_dev_info&, Plan&) {}

  // Device name "net_<kind>_<name>" and creation on the vdev bus, for create().
  [[nodiscard]] std::string vdev_name(const char* driver) const;
  Status attach(const char* bus, const std::string& name, const std::string& args,
                std::uint16_t& id);
  void detach(const char* bus, const std::string& name);
  [[nodiscard]] std::uint32_t frame_room() const;
  // The longest frame that the transport sends on this port.
  [[nodiscard]] std::uint32_t longest_frame() const {
    return config_.payload_mtu + frame_overhead();
  }
  [[nodiscard]] std::uint32_t frame_overhead() const {
    return kFrameOverhead - (config_.ipv4 ? 20 : 0);
  }
  // config.args with a leading comma, or nothing.
  [[nodiscard]] std::string more_args() const;
  // For kinds that stay started while there is nothing to poll; see running().
  void set_running(bool on) { running_ = on; }
  [[nodiscard]] bool device_link_up() const;
  [[nodiscard]] bool created() const { return id_ != RTE_MAX_ETHPORTS; }

  // Stops, closes, destroys and frees; the destructor of each kind calls it, because destroy() is
  // theirs.
  void close();

  PortConfig config_;
  PortCapabilities caps_;

 private:
  Status check_config() const;
  Status configure();
  Status setup_queues(const rte_eth_dev_info& info, const Plan& plan);
  void probe(const rte_eth_dev_info& info);
  Status settle_mac();

  std::uint16_t id_ = RTE_MAX_ETHPORTS;
  int socket_ = SOCKET_ID_ANY;
  bool started_ = false, running_ = false;
  bool verify_checksum_ = true;
  TxChecksum tx_checksum_ = TxChecksum::kSoftware;
  MacAddress mac_;
  std::vector<QueuePools> pools_;
  Steering steering_;
};

// True when the port verified the UDP checksum of `m`. Anything else (bad, absent, not looked at)
// is for wire::verify_udp_checksum() to decide: drivers disagree on what "bad" covers.
inline bool rx_checksum_good(const rte_mbuf* m) {
  return (m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD;
}
// Flags for TxChecksum::kOffload, on the first segment of a packet with an Encap header and
// wire::write_udp_pseudo_checksum() done. The IPv4 header checksum is written in software.
inline void set_tx_checksum(rte_mbuf* m, bool v6, std::uint16_t l2_bytes = 14) {
  m->l2_len = l2_bytes;
  m->l3_len = v6 ? 40 : 20;
  m->l4_len = 8;
  m->ol_flags |= RTE_MBUF_F_TX_UDP_CKSUM | (v6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4);
}

}  // namespace metaroce
