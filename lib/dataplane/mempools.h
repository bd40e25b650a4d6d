// The mbuf pools of one queue pair, on the port's socket, all allocated before it starts.
//
//   rx      whole frames as the port delivers them. Few on purpose: a receive pool that leaves the
//           L2 cache costs a factor of two (4,095 against 159 buffers of 9 KB).
//   small   headers, ACKs, replies, control packets: 2 KiB.
//   extbuf  header-less mbufs that point into registered memory (zero-copy transmit); the private
//           area holds the shared info that DPDK wants per external buffer.
//   linear  whole frames to transmit by copy; only where the port takes no chains.
// Sized so that a transmit ring full of completed packets plus the caches never empties them.
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "dataplane/status.h"

namespace metaroce {

inline constexpr std::uint32_t kSmallRoom = 2048;

// Ethernet, VLAN tag, IPv6, UDP, largest header that carries payload, payload, CRC.
constexpr std::uint32_t frame_bytes(std::uint32_t payload_mtu) {
  return 14 + 4 + 40 + 8 + 52 + payload_mtu + 4;
}
inline constexpr std::uint32_t kFrameOverhead = frame_bytes(0);

struct QueuePools {
  rte_mempool* rx = nullptr;
  rte_mempool* small = nullptr;
  rte_mempool* extbuf = nullptr;
  rte_mempool* linear = nullptr;  // null when the port takes chains
};

struct PoolPlan {
  std::uint32_t rx_room = 0;     // bytes of one received frame
  std::uint32_t frame_room = 0;  // bytes of one transmitted frame
  std::uint16_t rx_descriptors = 0, tx_descriptors = 0;
  std::uint32_t driver_mbufs = 0;  // that the driver keeps besides its receive ring
  std::uint32_t frames_away = 0;   // sent, not yet back, besides the transmit ring
  bool linear = false;
  int socket = SOCKET_ID_ANY;
};

// Names contain the port and queue numbers. On an error nothing is left behind.
Status make_queue_pools(const PoolPlan& plan, std::uint16_t port, std::uint16_t queue,
                        QueuePools& out);
void free_queue_pools(QueuePools& pools);

// An mbuf of `extbuf` that refers to [addr, addr + length) without copying; null when the pool is
// empty. `free_cb(addr, opaque)` runs when the last reference goes, on the thread that frees it.
inline rte_mbuf* attach_payload(rte_mempool* extbuf, void* addr, rte_iova_t iova,
                                std::uint16_t length, rte_mbuf_extbuf_free_callback_t free_cb,
                                void* opaque) {
  rte_mbuf* m = rte_pktmbuf_alloc(extbuf);
  if (m == nullptr) return nullptr;
  auto* shared = static_cast<rte_mbuf_ext_shared_info*>(rte_mbuf_to_priv(m));
  shared->free_cb = free_cb;
  shared->fcb_opaque = opaque;
  rte_mbuf_ext_refcnt_set(shared, 1);
  rte_pktmbuf_attach_extbuf(m, addr, iova, length, shared);
  m->data_off = 0;
  m->data_len = length;
  m->pkt_len = length;
  return m;
}

}  // namespace metaroce
