#include "dataplane/compat.h"
#include "drivers/registry.h"
#include "drivers/ring/ring_port.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "port_traffic.h"

namespace metaroce {
namespace {

PortConfig config(PortKind kind, const std::string& name, const std::string& device = {}) {
  PortConfig c;
  c.kind = kind;
  c.name = name;
  c.device = device;
  c.rx_descriptors = c.tx_descriptors = 128;
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

// Abstract sockets are shared by the network namespace: parallel runs need their own.
std::string socket_name(const char* what) {
  return "mr_test_" + std::to_string(getpid()) + "_" + what;
}

const std::vector<std::size_t> kSizes = {0, 1, 16, 44, 1000, 1473, 2048, 4096, 4096 + 52 + 4};

// The probed row of a port agrees with the documented one.
void expect_row(const Port& p) {
  const PortCapabilities& row = port_kind(p.config().kind);
  const PortCapabilities& got = p.capabilities();
  EXPECT_EQ(got.rx_checksum, row.rx_checksum);
  EXPECT_EQ(got.tx_checksum, row.tx_checksum);
  EXPECT_EQ(got.scatter, row.scatter);
  EXPECT_EQ(got.multi_segment_tx, row.multi_segment_tx);
  EXPECT_LE(got.max_queues, row.max_queues);
  EXPECT_EQ(got.max_frame, row.max_frame);
}

}  // namespace

// [MR-3.1.12]
TEST(Port, ring__carries_frames_both_ways_without_copying) {
  auto a = open_started(config(PortKind::kRing, "ra", "link"));
  auto b = open_started(config(PortKind::kRing, "rb", "link"));
  ASSERT_TRUE(a && b);
  expect_row(*a);
  EXPECT_EQ(a->tx_checksum(), TxChecksum::kNone);
  EXPECT_FALSE(a->verify_checksum());
  EXPECT_NE(a->mac(), b->mac());
  EXPECT_TRUE(a->link().up);
  expect_passes(*a, *b, kSizes);
  expect_passes(*b, *a, kSizes);
  EXPECT_EQ(a->stats().tx_packets, 2 * kSizes.size());
  EXPECT_EQ(a->stats().rx_packets, 2 * kSizes.size());
}

TEST(Port, ring__queue_pairs_are_separate) {
  PortConfig ca = config(PortKind::kRing, "rqa", "lq"), cb = config(PortKind::kRing, "rqb", "lq");
  ca.queues = cb.queues = 3;
  auto a = open_started(ca), b = open_started(cb);
  ASSERT_TRUE(a && b);
  for (std::uint16_t q = 0; q < 3; ++q) {
    Sent s{payload_of(64, q), 0};
    rte_mbuf* m = make_packet(*a, *b, s, false, 50000, q);
    ASSERT_EQ(rte_eth_tx_burst(a->id(), q, &m, 1), 1);
    for (std::uint16_t other = 0; other < 3; ++other) {
      rte_mbuf* r = nullptr;
      EXPECT_EQ(rte_eth_rx_burst(b->id(), other, &r, 1), other == q ? 1 : 0);
      rte_pktmbuf_free(r);
    }
    EXPECT_EQ(s.released, 1U);
  }
  EXPECT_EQ(a->steer(47910).code, Errc::kNotSupported);
  EXPECT_FALSE(a->steered());
}

TEST(Port, ring__link_has_two_ends_of_one_shape) {
  auto a = open_started(config(PortKind::kRing, "r1", "l2"));
  PortConfig wide = config(PortKind::kRing, "r2", "l2");
  wide.queues = 2;
  std::unique_ptr<Port> p;
  EXPECT_EQ(open_port(wide, p).code, Errc::kInvalid);
  EXPECT_EQ(open_port(config(PortKind::kRing, "r1", "other"), p).code, Errc::kBusy);
  auto b = open_started(config(PortKind::kRing, "r2", "l2"));
  EXPECT_EQ(open_port(config(PortKind::kRing, "r3", "l2"), p).code, Errc::kBusy);
  // Packets on the way when one end closes go back to their pool, and the end can be opened again.
  Sent s{payload_of(64, 1), 0};
  rte_mbuf* m = make_packet(*b, *a, s, false, 50000);
  ASSERT_EQ(rte_eth_tx_burst(b->id(), 0, &m, 1), 1);
  b.reset();
  EXPECT_EQ(s.released, 1U);
  b = open_started(config(PortKind::kRing, "r2", "l2"));
  ASSERT_TRUE(b);
  expect_passes(*a, *b, {64});
}

TEST(Port, ring__over_the_callers_rings) {
  rte_ring* rings[2];
  for (unsigned i = 0; i < 2; ++i)
    rings[i] =
        rte_ring_create(i == 0 ? "own0" : "own1", 64, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
  std::unique_ptr<Port> p;
  PortConfig c = config(PortKind::kRing, "ro");
  ASSERT_TRUE(open_ring_port(c, std::span(rings).first(1), std::span(rings).last(1), p).ok());
  ASSERT_TRUE(p->start().ok());
  Sent s{payload_of(64, 1), 0};
  rte_mbuf* m = make_packet(*p, *p, s, false, 50000);
  ASSERT_EQ(rte_eth_tx_burst(p->id(), 0, &m, 1), 1);
  void* got = nullptr;
  ASSERT_EQ(rte_ring_dequeue(rings[1], &got), 0);
  EXPECT_EQ(got, m);
  rte_pktmbuf_free(m);
  p.reset();
  for (rte_ring* r : rings) rte_ring_free(r);
}

TEST(Port, null__swallows_everything_and_is_silent) {
  PortConfig c = config(PortKind::kNull, "n0");
  c.queues = 2;
  auto p = open_started(c);
  ASSERT_TRUE(p);
  expect_row(*p);
  for (std::uint16_t q = 0; q < 2; ++q) {
    Sent s{payload_of(4096, q), 0};
    rte_mbuf* m = make_packet(*p, *p, s, false, 50000, q);
    EXPECT_EQ(rte_eth_tx_burst(p->id(), q, &m, 1), 1);
    EXPECT_EQ(s.released, 1U);
    rte_mbuf* r[8];
    EXPECT_EQ(rte_eth_rx_burst(p->id(), q, r, 8), 0);
  }
}

TEST(Port, null__frames_of_zeros_are_named_drops) {
  PortConfig c = config(PortKind::kNull, "n1");
  c.args = "no-rx=0,size=64";
  auto p = open_started(c);
  ASSERT_TRUE(p);
  rte_mbuf* r[8];
  const std::uint16_t n = rte_eth_rx_burst(p->id(), 0, r, 8);
  ASSERT_GT(n, 0);
  for (unsigned i = 0; i < n; ++i) {
    wire::FrameView v;
    EXPECT_EQ(wire::parse_frame(rte_pktmbuf_mtod(r[i], std::uint8_t*), r[i]->pkt_len, v),
              DropReason::kNotIp);
    rte_pktmbuf_free(r[i]);
  }
}

TEST(Port, memif__carries_whole_frames_in_one_segment) {
  PortConfig cs = config(PortKind::kMemif, "ms", socket_name("a")),
             cc = config(PortKind::kMemif, "mc", socket_name("a"));
  cc.memif_server = false;
  auto server = open_started(cs), client = open_started(cc);
  ASSERT_TRUE(server && client);
  expect_row(*server);
  ASSERT_TRUE(wait_joined(*server, *client));
  expect_passes(*client, *server, kSizes);
  expect_passes(*server, *client, kSizes);
}

// [MR-3.1.8] [MR-3.1.9]
TEST(Port, memif__checksums_when_the_other_end_is_a_switch) {
  PortConfig cs = config(PortKind::kMemif, "ks", socket_name("k")),
             cc = config(PortKind::kMemif, "kc", socket_name("k"));
  cc.memif_server = false;
  cs.checksum_always = cc.checksum_always = true;
  auto server = open_started(cs), client = open_started(cc);
  ASSERT_TRUE(server && client);
  EXPECT_EQ(client->tx_checksum(), TxChecksum::kSoftware);
  EXPECT_TRUE(server->verify_checksum());
  ASSERT_TRUE(wait_joined(*server, *client));
  expect_passes(*client, *server, {0, 1, 4096});
}

TEST(Port, memif__client_reconnects_to_a_new_server) {
  const std::string path = "/tmp/" + socket_name("p.sock");
  PortConfig cs = config(PortKind::kMemif, "ps", path), cc = config(PortKind::kMemif, "pc", path);
  cc.memif_server = false;
  // A path that a killed server left behind.
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un addr{};
  addr.sun_family = AF_UNIX;
  std::strncpy(addr.sun_path, path.c_str(), sizeof addr.sun_path - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&addr), sizeof addr), 0);
  ::close(fd);

  auto server = open_started(cs), client = open_started(cc);
  ASSERT_TRUE(server && client);
  ASSERT_TRUE(wait_joined(*server, *client));
  EXPECT_FALSE(client->needs_reconnect());
  server.reset();
  ASSERT_TRUE(wait_for([&] { return client->needs_reconnect(); }));
  EXPECT_TRUE(client->running());  // until its owner says so
  EXPECT_TRUE(client->reconnect().ok());
  EXPECT_FALSE(client->running());
  server = open_started(cs);
  ASSERT_TRUE(server);
  ASSERT_TRUE(wait_joined(*server, *client));
  expect_passes(*client, *server, {64, 4096});
  server.reset();
  client.reset();
  std::filesystem::remove(path);
}

TEST(Port, open__refuses_in_one_line) {
  std::unique_ptr<Port> p;
  const auto refused = [&](PortConfig c, Errc code, const char* says) {
    const Status s = open_port(c, p);
    EXPECT_EQ(s.code, code) << s.message;
    EXPECT_NE(s.message.find(says), std::string::npos) << s.message;
    EXPECT_EQ(s.message.find('\n'), std::string::npos) << s.message;
    EXPECT_EQ(p, nullptr);
  };
  PortConfig c = config(PortKind::kNull, "Bad Name");
  refused(c, Errc::kInvalid, "1 to 12 characters");
  c = config(PortKind::kNull, "x");
  c.queues = 0;
  refused(c, Errc::kInvalid, "queue pair");
  c.queues = 1;
  c.rx_descriptors = 100;
  refused(c, Errc::kInvalid, "power of two");
  c = config(PortKind::kTap, "x", "tapx");
  c.payload_mtu = 9000;
  if (compat::kTapMaxFrame == 1518) refused(c, Errc::kTooLarge, "at most 1396");
  c.ipv4 = true;
  if (compat::kTapMaxFrame == 1518) refused(c, Errc::kTooLarge, "at most 1416");
  c = config(PortKind::kMemif, "x", socket_name("x"));
  c.payload_mtu = 65535;
  refused(c, Errc::kTooLarge, "payload MTU");
  c = config(PortKind::kMemif, "x", socket_name("x"));
  c.queues = 300;
  refused(c, Errc::kNotSupported, "255");
  c.queues = 1;
  c.device.clear();
  refused(c, Errc::kInvalid, "not a memif socket");
  refused(config(PortKind::kAfPacket, "x", "mr_no_such_if"), Errc::kNoDevice, "ip link");
  refused(config(PortKind::kAfPacket, "x", "sixteen_letters_"), Errc::kInvalid, "1 to 15");
  c = config(PortKind::kAfXdp, "x", "lo");
  refused(c, Errc::kTooLarge, "at most 3398");
  c = config(PortKind::kTap, "x", "lo");
  c.payload_mtu = 1024;
  refused(c, Errc::kBusy, "exists already");
  refused(config(PortKind::kPci, "x", "0000:ff:1f.7"), Errc::kNoDevice, "dpdk-devbind");
}

TEST(Port, open__pools_that_do_not_fit_are_named_and_left_behind_by_nobody) {
  std::unique_ptr<Port> p;
  PortConfig c = config(PortKind::kNull, "big");
  c.rx_descriptors = 16384;
  c.payload_mtu = 60000;
  const Status s = open_port(c, p);
  EXPECT_EQ(s.code, Errc::kNoMemory);
  EXPECT_NE(s.message.find("MB wanted"), std::string::npos) << s.message;
  EXPECT_TRUE(open_started(config(PortKind::kNull, "big")));
}

}  // namespace metaroce
