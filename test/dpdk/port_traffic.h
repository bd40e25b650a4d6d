// Frames through a pair of ports, as the data path sends them: header mbuf + external payload
// where the port takes chains, one linear copy where not.
#pragma once

#include <cstring>
#include <vector>

#include "eal_environment.h"
#include "wire/net.h"

namespace metaroce {

struct Sent {
  std::vector<std::uint8_t> payload;
  unsigned released = 0;  // external buffers given back
};

inline void released_cb(void*, void* opaque) { ++*static_cast<unsigned*>(opaque); }

// One packet from `from` to `to` with the payload of `s`; null when a pool is empty.
inline rte_mbuf* make_packet(Port& from, const Port& to, Sent& s, bool v6, std::uint16_t src_port,
                             std::uint16_t queue = 0) {
  IpAddress a, b;
  a.v6 = b.v6 = v6;
  a.b[0] = b.b[0] = 0xfd;
  a.b[v6 ? 15 : 3] = 1;
  b.b[v6 ? 15 : 3] = 2;
  const wire::Encap e(from.mac(), to.mac(), a, b, 47910);
  const auto n = static_cast<std::uint16_t>(s.payload.size());
  const QueuePools& pools = from.pools(queue);
  rte_mbuf* m = rte_pktmbuf_alloc(from.chains() ? pools.small : pools.linear);
  if (m == nullptr) return nullptr;
  auto* h =
      reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(m, static_cast<std::uint16_t>(e.size())));
  e.write(h, n, src_port, 0);
  if (from.tx_checksum() == TxChecksum::kSoftware) wire::write_udp_checksum(h + 14, s.payload);
  if (from.tx_checksum() == TxChecksum::kOffload) {
    wire::write_udp_pseudo_checksum(h + 14);
    set_tx_checksum(m, v6);
  }
  if (from.chains()) {
    rte_mbuf* p =
        attach_payload(pools.extbuf, s.payload.data(),
                       reinterpret_cast<rte_iova_t>(s.payload.data()), n, released_cb, &s.released);
    if (p == nullptr || rte_pktmbuf_chain(m, p) != 0) return nullptr;
  } else {
    if (n != 0) std::memcpy(rte_pktmbuf_append(m, n), s.payload.data(), n);
  }
  return m;
}

inline std::vector<std::uint8_t> payload_of(std::size_t n, unsigned seed) {
  std::vector<std::uint8_t> p(n);
  for (std::size_t i = 0; i < n; ++i)
    p[i] = static_cast<std::uint8_t>(i * 31 + seed * 7 + (i >> 8));
  return p;
}

// Sends `sizes` one after the other and compares what arrives on queue 0 of `to`.
inline void expect_passes(Port& from, Port& to, const std::vector<std::size_t>& sizes) {
  unsigned i = 0;
  for (const bool v6 : {false, true})
    for (const std::size_t n : sizes) {
      Sent s{payload_of(n, i), 0};
      const auto src_port = static_cast<std::uint16_t>(49152 + i++);
      rte_mbuf* m = make_packet(from, to, s, v6, src_port);
      ASSERT_NE(m, nullptr);
      // A memif client offers receive buffers when it polls, so that both ends have to.
      ASSERT_TRUE(wait_for([&] {
        if (rte_eth_tx_burst(from.id(), 0, &m, 1) == 1) return true;
        rte_mbuf* r = nullptr;
        if (rte_eth_rx_burst(to.id(), 0, &r, 1) == 1) rte_pktmbuf_free(r);
        return false;
      })) << n
          << " bytes, packet " << i;
      // Kernel interfaces carry other frames too.
      bool found = false;
      ASSERT_TRUE(wait_for([&] {
        rte_mbuf* r = nullptr;
        if (rte_eth_rx_burst(to.id(), 0, &r, 1) == 0) return false;
        wire::FrameView v;
        const DropReason parsed =
            wire::parse_frame(rte_pktmbuf_mtod(r, std::uint8_t*), r->pkt_len, v);
        if (parsed == DropReason::kNone && v.kind == wire::FrameKind::kUdp &&
            v.src_port == src_port) {
          found = true;
          EXPECT_EQ(v.payload_len, n);
          EXPECT_EQ(v.v6, v6);
          EXPECT_EQ(v.ecn, 2);
          std::vector<std::uint8_t> got(n);
          const void* p =
              rte_pktmbuf_read(r, v.payload_offset, static_cast<std::uint32_t>(n), got.data());
          EXPECT_TRUE(p != nullptr && (n == 0 || std::memcmp(p, s.payload.data(), n) == 0)) << n;
          if (to.verify_checksum() && !rx_checksum_good(r)) {
            EXPECT_EQ(wire::verify_udp_checksum(v), DropReason::kNone);
          }
        }
        rte_pktmbuf_free(r);
        return found;
      })) << n;
      rte_eth_tx_done_cleanup(from.id(), 0, 0);
      if (from.chains()) {
        // Drivers free what was sent at their next burst at the latest.
        EXPECT_TRUE(wait_for([&] {
          rte_mbuf* none = nullptr;
          rte_eth_tx_burst(from.id(), 0, &none, 0);
          return s.released == 1;
        })) << n;
      }
    }
}

}  // namespace metaroce
