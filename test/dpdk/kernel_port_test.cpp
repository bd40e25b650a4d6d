// Ports over kernel interfaces: veth pairs with a port at each end, and the kernel's own stack as
// the peer (its ARP, neighbour discovery and UDP checksums are not ours).
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dataplane/neighbour.h"
#include "drivers/registry.h"
#include "port_traffic.h"

namespace metaroce {
namespace {

void run(const std::string& command) {
  ASSERT_EQ(std::system((command + " >/dev/null 2>&1").c_str()), 0) << command;
}

void make_veth(const std::string& a, const std::string& b, unsigned mtu) {
  run("ip link add " + a + " mtu " + std::to_string(mtu) + " type veth peer name " + b + " mtu " +
      std::to_string(mtu));
  run("ip link set " + a + " up");
  run("ip link set " + b + " up");
}

// ethtool -K <interface> tx off: the kernel else leaves checksums to a device that there is not.
void tx_checksum_off(const char* interface) {
  ethtool_value v{ETHTOOL_STXCSUM, 0};
  ifreq r{};
  std::strncpy(r.ifr_name, interface, IFNAMSIZ - 1);
  r.ifr_data = reinterpret_cast<char*>(&v);
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  EXPECT_EQ(ioctl(fd, SIOCETHTOOL, &r), 0) << interface;
  ::close(fd);
}

PortConfig config(PortKind kind, const std::string& name, const std::string& device,
                  std::uint32_t payload) {
  PortConfig c;
  c.kind = kind;
  c.name = name;
  c.device = device;
  c.payload_mtu = payload;
  c.rx_descriptors = c.tx_descriptors = 256;
  return c;
}

std::unique_ptr<Port> open_started(const PortConfig& c) {
  std::unique_ptr<Port> p;
  Status s = open_port(c, p);
  EXPECT_TRUE(s.ok()) << s.message;
  if (p == nullptr) return p;
  s = p->start();
  EXPECT_TRUE(s.ok()) << s.message;
  return p;
}

void send_frame(Port& p, std::span<const std::uint8_t> f) {
  rte_mbuf* m = rte_pktmbuf_alloc(p.pools(0).small);
  ASSERT_NE(m, nullptr);
  std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(f.size())), f.data(), f.size());
  if (rte_eth_tx_burst(p.id(), 0, &m, 1) == 0) rte_pktmbuf_free(m);
}

// A host on a port: answers neighbours, and keeps the UDP payloads that arrive.
struct Host {
  Port& port;
  IpAddress ip;
  NeighbourTable table;
  std::vector<std::uint8_t> payload;
  std::uint16_t from = 0;

  Host(Port& p, const IpAddress& own, std::uint8_t prefix)
      : port(p),
        ip(own),
        table(NeighbourConfig{.mac = p.mac(), .addresses = {{own, prefix, {}}}},
              [this](std::span<const std::uint8_t> f) { send_frame(port, f); }) {}
  static Nanos now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
  void poll() {
    table.tick(now());
    rte_mbuf* m = nullptr;
    if (rte_eth_rx_burst(port.id(), 0, &m, 1) == 0) return;
    wire::FrameView v;
    if (wire::parse_frame(rte_pktmbuf_mtod(m, std::uint8_t*), m->pkt_len, v) == DropReason::kNone) {
      if (v.kind == wire::FrameKind::kNeighbour) {
        EXPECT_EQ(table.receive(v, now()), DropReason::kNone);
      } else if (wire::check_destination(v, port.mac(), ip) == DropReason::kNone) {
        EXPECT_TRUE(rx_checksum_good(m) || wire::verify_udp_checksum(v) == DropReason::kNone);
        payload.assign(v.payload(), v.payload() + v.payload_len);
        from = v.src_port;
      }
    }
    rte_pktmbuf_free(m);
  }
};

// The kernel at `kernel_ip` on an interface and `h` resolve each other and exchange datagrams.
void expect_talks_to_kernel(Host& h, const IpAddress& kernel_ip,
                            const std::vector<std::size_t>& sizes) {
  const bool v6 = h.ip.v6;
  const int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  ASSERT_GE(fd, 0);
  sockaddr_in6 peer6{};
  sockaddr_in peer4{};
  peer6.sin6_family = AF_INET6;
  peer4.sin_family = AF_INET;
  peer6.sin6_port = peer4.sin_port = htons(47910);
  std::memcpy(&peer6.sin6_addr, h.ip.b.data(), 16);
  std::memcpy(&peer4.sin_addr, h.ip.b.data(), 4);
  const auto* peer = v6 ? reinterpret_cast<sockaddr*>(&peer6) : reinterpret_cast<sockaddr*>(&peer4);
  const socklen_t peer_len = v6 ? sizeof peer6 : sizeof peer4;
  sockaddr_in6 any6 = peer6;
  sockaddr_in any4 = peer4;
  any6.sin6_addr = in6addr_any;
  any4.sin_addr.s_addr = 0;
  ASSERT_EQ(bind(fd, v6 ? reinterpret_cast<sockaddr*>(&any6) : reinterpret_cast<sockaddr*>(&any4),
                 peer_len),
            0);

  MacAddress mac;
  ASSERT_TRUE(wait_for([&] {  // we ask, the kernel answers
    h.poll();
    return h.table.resolve(kernel_ip, Host::now(), mac) == Resolved::kReady;
  }));
  for (const std::size_t n : sizes) {
    const auto data = payload_of(n, 1);
    // The kernel asks for us, then sends.
    h.payload = {0xff};
    ASSERT_TRUE(wait_for([&] {
      sendto(fd, data.data(), data.size(), 0, peer, peer_len);
      h.poll();
      return h.payload == data;
    })) << n;
    // Our datagram: the kernel drops it when any checksum is wrong.
    const wire::Encap e(h.port.mac(), mac, h.ip, kernel_ip, 47910);
    std::vector<std::uint8_t> f(e.size());
    e.write(f.data(), static_cast<std::uint32_t>(n), 50000, 0);
    wire::write_udp_checksum(f.data() + 14, data);
    f.insert(f.end(), data.begin(), data.end());
    std::vector<std::uint8_t> got(n + 1);
    ASSERT_TRUE(wait_for([&] {
      send_frame(h.port, f);
      h.poll();
      return recv(fd, got.data(), got.size(), 0) == static_cast<ssize_t>(n);
    })) << n;
    got.resize(n);
    EXPECT_EQ(got, data);
  }
  ::close(fd);
}

IpAddress v6_of(std::uint8_t last) {
  IpAddress a;
  a.v6 = true;
  a.b[0] = 0xfd;
  a.b[15] = last;
  return a;
}

}  // namespace

TEST(KernelPort, af_packet__carries_whole_frames) {
  make_veth("pa", "pb", 9000);
  auto a = open_started(config(PortKind::kAfPacket, "pa", "pa", 4096));
  auto b = open_started(config(PortKind::kAfPacket, "pb", "pb", 4096));
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->tx_checksum(), TxChecksum::kSoftware);
  EXPECT_TRUE(b->verify_checksum());
  EXPECT_EQ(a->capabilities().multi_segment_tx, Support::kYes);
  expect_passes(*a, *b, {0, 1, 44, 1473, 4096, 4152});
  expect_passes(*b, *a, {64, 4096});
  // A frame above the slot, as after a change of MTU behind our back: cut, dropped by name.
  std::vector<std::uint8_t> big(8000, 0);
  const wire::Encap e(b->mac(), a->mac(), IpAddress::v4(10, 0, 0, 2), IpAddress::v4(10, 0, 0, 1),
                      47910);
  e.write(big.data(), 8000 - 42, 50000, 0);
  b.reset();
  auto wide = open_started(config(PortKind::kAfPacket, "pbw", "pb", 8192));
  ASSERT_TRUE(wide);
  rte_mbuf* m = rte_pktmbuf_alloc(wide->pools(0).rx);
  std::memcpy(rte_pktmbuf_append(m, 8000), big.data(), 8000);
  ASSERT_EQ(rte_eth_tx_burst(wide->id(), 0, &m, 1), 1);
  ASSERT_TRUE(wait_for([&] {
    rte_mbuf* r = nullptr;
    if (rte_eth_rx_burst(a->id(), 0, &r, 1) == 0) return false;
    wire::FrameView v;
    const bool ours = r->pkt_len > 2000;
    if (ours) {
      EXPECT_EQ(wire::parse_frame(rte_pktmbuf_mtod(r, std::uint8_t*), r->pkt_len, v),
                DropReason::kTruncatedFrame);
    }
    rte_pktmbuf_free(r);
    return ours;
  }));
}

TEST(KernelPort, af_packet__interface_with_a_small_mtu_is_refused) {
  make_veth("sa", "sb", 1500);
  std::unique_ptr<Port> p;
  const Status s = open_port(config(PortKind::kAfPacket, "sa", "sa", 4096), p);
  EXPECT_EQ(s.code, Errc::kTooLarge);
  EXPECT_NE(s.message.find("ip link set sa mtu 4200"), std::string::npos) << s.message;
}

TEST(KernelPort, af_packet__several_queue_pairs_are_not_steered) {
  make_veth("qa", "qb", 1500);
  PortConfig c = config(PortKind::kAfPacket, "qa", "qa", 1024);
  c.queues = 3;
  auto p = open_started(c);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->steer(47910).code, Errc::kNotSupported);
  EXPECT_FALSE(p->steered());
}

// [MR-3.1.8] [MR-3.1.9]
TEST(KernelPort, af_packet__talks_to_the_kernel) {
  make_veth("ka", "kb", 1500);
  run("ip addr add 10.9.0.2/24 dev kb && ip -6 addr add fd00::2/64 dev kb nodad");
  tx_checksum_off("kb");
  auto p = open_started(config(PortKind::kAfPacket, "ka", "ka", 1024));
  ASSERT_TRUE(p);
  Host v4(*p, IpAddress::v4(10, 9, 0, 1), 24);
  expect_talks_to_kernel(v4, IpAddress::v4(10, 9, 0, 2), {0, 1, 333, 1024});
  Host v6(*p, v6_of(1), 64);
  expect_talks_to_kernel(v6, v6_of(2), {0, 1, 333, 1024});
}

// [MR-3.1.8] [MR-3.1.9]
TEST(KernelPort, tap__talks_to_the_kernel) {
  auto p = open_started(config(PortKind::kTap, "t0", "mrtap0", 1024));
  ASSERT_TRUE(p);
  run("ip link set mrtap0 up && ip addr add 10.8.0.2/24 dev mrtap0 && ip -6 addr add fd00:8::2/64 "
      "dev mrtap0 nodad");
  Host v4(*p, IpAddress::v4(10, 8, 0, 1), 24);
  expect_talks_to_kernel(v4, IpAddress::v4(10, 8, 0, 2), {0, 1, 333, 1024});
  IpAddress own = v6_of(1), peer = v6_of(2);
  own.b[3] = peer.b[3] = 8;
  Host v6(*p, own, 64);
  expect_talks_to_kernel(v6, peer, {0, 1, 333, 1024});
  // The device and its name are gone with the port.
  p.reset();
  EXPECT_NE(std::system("ip link show mrtap0 >/dev/null 2>&1"), 0);
}

TEST(KernelPort, tap__steering_is_what_was_created_not_what_was_promised) {
  PortConfig c = config(PortKind::kTap, "t1", "mrtap1", 1024);
  c.queues = 2;
  auto p = open_started(c);
  ASSERT_TRUE(p);
  const Status s = p->steer(47910);
  EXPECT_EQ(s.ok(), p->steered());
  EXPECT_EQ(p->capabilities().steering, s.ok() ? Support::kYes : Support::kNo);
}

TEST(KernelPort, af_xdp__carries_frames) {
  make_veth("xa", "xb", 3498);
  std::unique_ptr<Port> probe;
  const Status s = open_port(config(PortKind::kAfXdp, "xa", "xa", 3000), probe);
  if (!s.ok()) GTEST_SKIP() << s.message;  // kernel or DPDK without AF_XDP
  ASSERT_TRUE(probe->start().ok());
  auto b = open_started(config(PortKind::kAfXdp, "xb", "xb", 3000));
  ASSERT_TRUE(b);
  expect_passes(*probe, *b, {0, 1, 1473, 3000});
  expect_passes(*b, *probe, {3000});
}

}  // namespace metaroce
