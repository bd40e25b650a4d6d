#include "dataplane/port.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_random.h>

#include "dataplane/compat.h"

namespace metaroce {
namespace {

Errc code_of(int error) {
  switch (error < 0 ? -error : error) {
    case EPERM:
    case EACCES:
      return Errc::kPermission;
    case ENOMEM:
      return Errc::kNoMemory;
    case ENODEV:
    case ENOENT:
      return Errc::kNoDevice;
    case EEXIST:
      return Errc::kBusy;
    case ENOTSUP:
      return Errc::kNotSupported;
    default:
      return Errc::kFailed;
  }
}

bool valid_name(const std::string& n) {
  return !n.empty() && n.size() <= 12 && std::all_of(n.begin(), n.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

Port::Port(PortConfig config, const PortCapabilities& row)
    : config_(std::move(config)), caps_(row) {}
Port::~Port() = default;

std::string Port::vdev_name(const char* driver) const {
  return fmt::format("{}_{}", driver, config_.name);
}
std::string Port::more_args() const { return config_.args.empty() ? "" : "," + config_.args; }
std::uint32_t Port::frame_room() const {
  return std::max<std::uint32_t>(frame_bytes(config_.payload_mtu), 1522);
}

Status Port::check_config() const {
  const auto bad = [this](Errc c, std::string text) {
    return Status::error(c, fmt::format("port {}: {}", config_.name, text));
  };
  if (!valid_name(config_.name))
    return bad(Errc::kInvalid, "a port's name is 1 to 12 characters of a-z, 0-9, _ and -");
  if (config_.queues == 0) return bad(Errc::kInvalid, "needs at least one queue pair");
  for (const std::uint16_t n : {config_.rx_descriptors, config_.tx_descriptors})
    if (!std::has_single_bit(n) || n < 64 || n > 16384)
      return bad(Errc::kInvalid,
                 fmt::format("{} descriptors: use a power of two from 64 to 16384", n));
  const std::uint32_t frame = longest_frame();
  if (caps_.max_frame != 0 && frame > caps_.max_frame)
    return bad(
        Errc::kTooLarge,
        fmt::format(
            "payload MTU {} needs frames of {} bytes, {} carries at most {}: use a payload MTU "
            "of at most {}",
            config_.payload_mtu, frame, caps_.name, caps_.max_frame,
            caps_.max_frame - frame_overhead()));
  if ((config_.mac.b[0] & 1) != 0)
    return bad(Errc::kInvalid, "the MAC address is a multicast address");
  return {};
}

Status Port::attach(const char* bus, const std::string& name, const std::string& args,
                    std::uint16_t& id) {
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id) == 0 && std::strcmp(bus, "vdev") == 0)
    return Status::error(
        Errc::kBusy, fmt::format("port {}: device {} exists already; give each port its own name",
                                 config_.name, name));
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id) == 0) return {};
  const int r = rte_eal_hotplug_add(bus, name.c_str(), args.c_str());
  if (r != 0)
    return Status::error(code_of(r),
                         fmt::format("port {}: device {} could not be made with \"{}\": {}",
                                     config_.name, name, args, rte_strerror(-r)));
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id) != 0) {
    rte_eal_hotplug_remove(bus, name.c_str());
    return Status::error(Errc::kNoDevice,
                         fmt::format("port {}: {} is not an Ethernet device", config_.name, name));
  }
  return {};
}

void Port::detach(const char* bus, const std::string& name) {
  rte_eal_hotplug_remove(bus, name.c_str());
}

Status Port::open() {
  if (Status s = check_config(); !s.ok()) return s;
  std::uint16_t id = RTE_MAX_ETHPORTS;
  if (Status s = create(id); !s.ok()) return s;
  id_ = id;
  socket_ = rte_eth_dev_socket_id(id_);
  return configure();
}

void Port::probe(const rte_eth_dev_info& info) {
  const auto has = [](std::uint64_t capa, std::uint64_t bit) {
    return (capa & bit) != 0 ? Support::kYes : Support::kNo;
  };
  if (caps_.rx_checksum != Support::kNo)
    caps_.rx_checksum = has(info.rx_offload_capa, RTE_ETH_RX_OFFLOAD_UDP_CKSUM);
  if (caps_.tx_checksum != Support::kNo)
    caps_.tx_checksum = has(info.tx_offload_capa, RTE_ETH_TX_OFFLOAD_UDP_CKSUM);
  if (caps_.scatter == Support::kDevice)
    caps_.scatter = has(info.rx_offload_capa, RTE_ETH_RX_OFFLOAD_SCATTER);
  if (caps_.multi_segment_tx == Support::kDevice)
    caps_.multi_segment_tx = has(info.tx_offload_capa, RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
  const std::uint32_t queues = std::min(info.max_rx_queues, info.max_tx_queues);
  caps_.max_queues = caps_.max_queues == 0 ? queues : std::min(caps_.max_queues, queues);
  if (caps_.max_frame == 0)
    caps_.max_frame = std::min<std::uint32_t>(info.max_rx_pktlen, UINT16_MAX);
  // The transmit and receive flags of the data path follow.
  const bool memory_link = caps_.memory_link && !config_.checksum_always;
  const bool offload = config_.checksum_offload && caps_.tx_checksum == Support::kYes;
  verify_checksum_ = !memory_link;
  // [MR-3.1.8] [MR-3.1.9] [MR-3.1.12]
  tx_checksum_ = memory_link ? TxChecksum::kNone
                 : offload   ? TxChecksum::kOffload
                             : TxChecksum::kSoftware;
}

Status Port::configure() {
  rte_eth_dev_info info{};
  if (const int r = rte_eth_dev_info_get(id_, &info); r != 0)
    return Status::error(code_of(r), fmt::format("port {}: no device information: {}", config_.name,
                                                 rte_strerror(-r)));
  probe(info);
  if (config_.queues > caps_.max_queues)
    return Status::error(
        Errc::kNotSupported,
        fmt::format("port {}: {} queue pairs wanted, the device has {}: lower the number of worker "
                    "groups or use another port",
                    config_.name, config_.queues, caps_.max_queues));
  if (longest_frame() > caps_.max_frame)
    return Status::error(
        Errc::kTooLarge,
        fmt::format("port {}: payload MTU {} needs frames of {} bytes, the device takes {}",
                    config_.name, config_.payload_mtu, longest_frame(), caps_.max_frame));
  Plan plan;
  plan.rx_room = frame_room();
  rte_eth_conf& conf = plan.conf;
  const bool offload = config_.checksum_offload;
  if (offload && caps_.rx_checksum == Support::kYes)
    conf.rxmode.offloads |=
        info.rx_offload_capa & (RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_IPV4_CKSUM);
  if (tx_checksum_ == TxChecksum::kOffload) conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
  conf.txmode.offloads |= info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  // What is not steered should at least spread.
  const std::uint64_t rss =
      info.flow_type_rss_offloads & (RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP);
  if (config_.queues > 1 && rss != 0) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = rss;
  }
  conf.rxmode.mtu = frame_room() - 14 - 4;
  tune(info, plan);
  if (!plan.set_mtu) conf.rxmode.mtu = 0;
  if (const int r = rte_eth_dev_configure(id_, config_.queues, config_.queues, &conf); r != 0)
    return Status::error(
        code_of(r),
        fmt::format("port {}: the device refuses {} queue pairs with frames of {} bytes: {}",
                    config_.name, config_.queues, frame_room(), rte_strerror(-r)));
  if (Status s = setup_queues(info, plan); !s.ok()) return s;
  return settle_mac();
}

Status Port::setup_queues(const rte_eth_dev_info& info, const Plan& plan) {
  std::uint16_t rx = config_.rx_descriptors, tx = config_.tx_descriptors;
  rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx, &tx);
  pools_.resize(config_.queues);
  const PoolPlan pools{plan.rx_room,      frame_room(),     rx,        tx,
                       plan.driver_mbufs, plan.frames_away, !chains(), socket_};
  rte_eth_rxconf rx_conf = info.default_rxconf;
  rte_eth_txconf tx_conf = info.default_txconf;
  rx_conf.offloads = plan.conf.rxmode.offloads;
  tx_conf.offloads = plan.conf.txmode.offloads;
  const auto socket = static_cast<unsigned>(socket_);
  for (std::uint16_t q = 0; q < config_.queues; ++q) {
    if (Status s = make_queue_pools(pools, id_, q, pools_[q]); !s.ok()) return s;
    int r = rte_eth_rx_queue_setup(id_, q, rx, socket, &rx_conf, pools_[q].rx);
    if (r == 0) r = rte_eth_tx_queue_setup(id_, q, tx, socket, &tx_conf);
    if (r != 0)
      return Status::error(
          code_of(r), fmt::format("port {}: queue {} with {} and {} descriptors: {}", config_.name,
                                  q, rx, tx, rte_strerror(-r)));
  }
  return {};
}

// Configured, else the device's, else (ring) a random one that is locally administered.
Status Port::settle_mac() {
  rte_ether_addr a{};
  rte_eth_macaddr_get(id_, &a);
  if (config_.mac != MacAddress{}) {
    mac_ = config_.mac;
    if (std::memcmp(a.addr_bytes, mac_.b.data(), 6) == 0) return {};
    std::memcpy(a.addr_bytes, mac_.b.data(), 6);
    // A device without a filter needs none to be told: it delivers everything.
    const int r = rte_eth_dev_default_mac_addr_set(id_, &a);
    if (r != 0 && r != -ENOTSUP)
      return Status::error(
          code_of(r), fmt::format("port {}: the device refuses the MAC address: {}", config_.name,
                                  rte_strerror(-r)));
    return {};
  }
  std::memcpy(mac_.b.data(), a.addr_bytes, 6);
  if (mac_ == MacAddress{}) {
    const std::uint64_t x = rte_rand();
    std::memcpy(mac_.b.data(), &x, 6);
    mac_.b[0] = static_cast<std::uint8_t>((mac_.b[0] & 0xfc) | 2);
  }
  return {};
}

Status Port::start() {
  if (!created())
    return Status::error(Errc::kBusy, fmt::format("port {} is not open", config_.name));
  if (started_) return {};
  if (const int r = rte_eth_dev_start(id_); r != 0)
    return Status::error(
        code_of(r), fmt::format("port {}: does not start: {}", config_.name, rte_strerror(-r)));
  started_ = running_ = true;
  rte_eth_allmulticast_enable(id_);  // IPv6 neighbour discovery; kinds without a filter need it not
  return {};
}

void Port::stop() {
  if (!started_) return;
  started_ = running_ = false;
  steering_.remove();
  rte_eth_dev_stop(id_);
}

void Port::close() {
  if (created()) {
    stop();
    rte_eth_dev_close(id_);
    destroy();
    id_ = RTE_MAX_ETHPORTS;
  }
  for (QueuePools& q : pools_) free_queue_pools(q);
  pools_.clear();
}

Status Port::steer(std::uint16_t base_udp_port) {
  if (config_.queues == 1) return {};
  Status s =
      caps_.steering == Support::kNo
          ? Status::error(
                Errc::kNotSupported,
                fmt::format(
                    "port {}: {} cannot steer by UDP port: packets are handed over between the "
                    "worker groups in software",
                    config_.name, caps_.name))
          : steering_.install(id_, base_udp_port, config_.queues);
  caps_.steering = s.ok() ? Support::kYes : Support::kNo;
  return s;
}

LinkState Port::link() const {
  rte_eth_link l{};
  if (!running_ || rte_eth_link_get_nowait(id_, &l) != 0) return {};
  return {l.link_status == RTE_ETH_LINK_UP,
          l.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : l.link_speed};
}

bool Port::device_link_up() const {
  rte_eth_link l{};
  return started_ && rte_eth_link_get_nowait(id_, &l) == 0 && l.link_status == RTE_ETH_LINK_UP;
}

PortStats Port::stats() const {
  rte_eth_stats s{};
  if (!created() || rte_eth_stats_get(id_, &s) != 0) return {};
  return {s.ipackets, s.ibytes, s.imissed, s.ierrors, s.rx_nombuf, s.opackets, s.obytes, s.oerrors};
}

}  // namespace metaroce
