// What an idle connection and an idle stream cost: bytes that the roles allocate for them, and
// their slots. Counted through operator new, so whatever a command allocates is in it, also what
// nobody thought of.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>

#include "support/host.h"

namespace {
std::size_t live_bytes = 0;  // one thread
constexpr std::size_t kHead = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
}  // namespace

void* operator new(std::size_t n) {
  auto* p = static_cast<unsigned char*>(std::malloc(n + kHead));
  if (p == nullptr) throw std::bad_alloc{};
  *reinterpret_cast<std::size_t*>(p) = n;
  live_bytes += n;
  return p + kHead;
}
void* operator new[](std::size_t n) { return operator new(n); }
void operator delete(void* p) noexcept {
  if (p == nullptr) return;
  auto* at = static_cast<unsigned char*>(p) - kHead;
  live_bytes -= *reinterpret_cast<std::size_t*>(at);
  std::free(at);
}
void operator delete[](void* p) noexcept { operator delete(p); }
void operator delete(void* p, std::size_t) noexcept { operator delete(p); }
void operator delete[](void* p, std::size_t) noexcept { operator delete(p); }

namespace metaroce {
namespace {

using test::Host;

constexpr std::uint32_t kConns = 64, kStreams = 256;

struct Cost {
  std::size_t tx = 0, rx = 0;
  [[nodiscard]] std::size_t both() const { return tx + rx; }
};

// Depths of the limits that the interface announces are an application's choice; these are typical.
constexpr std::uint32_t kDepth = 128;

class Footprint : public ::testing::Test {
 protected:
  static TransportConfig config() {
    TransportConfig c;
    c.max_connections = kConns + 1;
    c.max_streams = kStreams;
    c.max_streams_per_connection = kStreams;
    c.max_regions = 64;
    c.max_cqs = 4;
    c.max_clients = 4;
    return c;
  }
  void connect(std::uint32_t index, std::uint32_t planes, Cost& cost) {
    ConnParams p;
    p.index = ConnIndex{index};
    p.own_dcid = p.peer_dcid = (index << 8) | 0x5a;
    p.n_planes = static_cast<std::uint16_t>(planes);
    p.n_paths = static_cast<std::uint16_t>(planes * config_.paths_per_plane);
    for (std::uint8_t i = 0; i < planes; ++i)
      p.planes[i] = PlanePair{PlaneId{i}, host_->ip, IpAddress::v4(10, 0, 1, 1)};
    p.own_pseq_seed = p.peer_pseq_seed = p.entropy_seed = index;
    p.payload_mtu = 4096;
    p.line_rate = 100000;
    p.handshake_rtt = 10 * kMicrosecond;
    p.verified = true;
    Command k;
    k.kind = CommandKind::kAddConn;
    k.conn = &p;
    std::size_t before = live_bytes;
    ASSERT_TRUE(host_->to_rx(k).ok);
    cost.rx += live_bytes - before;
    before = live_bytes;
    ASSERT_TRUE(host_->to_tx(k).ok);
    k.kind = CommandKind::kOpenConn;
    k.id = index;
    ASSERT_TRUE(host_->to_tx(k).ok);
    cost.tx += live_bytes - before;
  }
  Cost connections(std::uint32_t planes) {
    host_ = std::make_unique<Host>(config_, IpAddress::v4(10, 0, 0, 1));
    connect(0, planes, warm_);
    Cost cost;
    for (std::uint32_t i = 1; i <= kConns; ++i) connect(i, planes, cost);
    cost.tx = cost.tx / kConns + sizeof(TxConn<EcnAimd>);
    cost.rx = cost.rx / kConns + sizeof(RxConn);
    return cost;
  }
  Cost streams() {
    Cost cost;
    for (std::uint32_t i = 0; i < kStreams; ++i) {
      StreamParams p;
      p.conn = ConnIndex{1};
      p.own_number = p.peer_number = static_cast<std::uint16_t>(i);
      p.handle = i | (5U << kStreamSlotBits);
      p.client = ClientId{1};
      p.pd = 1;
      p.send_window = p.recv_window = config_.spn_window;
      p.send_depth = p.recv_depth = kDepth;
      Command k;
      k.kind = CommandKind::kAddStream;
      k.stream = &p;
      std::size_t before = live_bytes;
      EXPECT_TRUE(host_->to_rx(k).ok);
      cost.rx += live_bytes - before;
      before = live_bytes;
      EXPECT_TRUE(host_->to_tx(k).ok);
      cost.tx += live_bytes - before;
    }
    cost.tx = cost.tx / kStreams + sizeof(SendStream);
    cost.rx = cost.rx / kStreams + sizeof(RecvStream);
    return cost;
  }
  static void print(const char* what, const Cost& c) {
    std::printf("%-40s TX %6zu  RX %6zu  both %6zu bytes\n", what, c.tx, c.rx, c.both());
  }

  TransportConfig config_ = config();
  Cost warm_;
  std::unique_ptr<Host> host_;
};

TEST_F(Footprint, idle_connection__one_plane_below_8_kib) {
  const Cost c = connections(1);
  print("idle connection, 1 plane x 32 paths:", c);
  std::printf("  slots: TX %zu, RX %zu\n", sizeof(TxConn<EcnAimd>), sizeof(RxConn));
  EXPECT_LE(c.both(), 8192U);
  const Cost s = streams();
  print("idle stream:", s);
  std::printf("  slots: TX %zu, RX %zu\n", sizeof(SendStream), sizeof(RecvStream));
  EXPECT_LE(s.both(), 1024U);
}

TEST_F(Footprint, idle_connection__eight_planes) {
  const Cost c = connections(8);
  print("idle connection, 8 planes x 32 paths:", c);
}

}  // namespace
}  // namespace metaroce
