#include "dataplane/mempools.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_mempool.h>

namespace metaroce {
namespace {

constexpr unsigned kBurstRoom = 128;  // in the hands of the roles at one time
constexpr unsigned kJumboCache = 32, kSmallCache = 128;

rte_mempool* make_pool(const std::string& name, unsigned n, unsigned cache, std::uint16_t priv,
                       std::uint32_t room, int socket) {
  return rte_pktmbuf_pool_create(name.c_str(), n, cache, priv, static_cast<std::uint16_t>(room),
                                 socket);
}

}  // namespace

Status make_queue_pools(const PoolPlan& p, std::uint16_t port, std::uint16_t queue,
                        QueuePools& out) {
  const auto name = [&](const char* what) {
    return fmt::format("mr_{}_p{}_q{}", what, port, queue);
  };
  const std::uint32_t rx_room = p.rx_room + RTE_PKTMBUF_HEADROOM;
  const std::uint32_t tx_room = p.frame_room + RTE_PKTMBUF_HEADROOM;
  if (std::max(rx_room, tx_room) > UINT16_MAX)
    return Status::error(Errc::kTooLarge,
                         fmt::format("frames of {} bytes do not fit one buffer of at most 65535",
                                     std::max(p.rx_room, p.frame_room)));
  // Caches hold up to 1.5 times their size per lcore that frees: the owner and one more.
  const unsigned rx =
      p.rx_descriptors + p.driver_mbufs + p.frames_away + kBurstRoom + 3 * kJumboCache;
  const unsigned linear = p.tx_descriptors + p.frames_away + kBurstRoom + 3 * kJumboCache;
  const unsigned small = 2U * p.tx_descriptors + p.frames_away + kBurstRoom + 3 * kSmallCache;
  QueuePools q;
  q.rx = make_pool(name("rx"), rx, kJumboCache, 0, rx_room, p.socket);
  q.small =
      make_pool(name("small"), small, kSmallCache, 0, kSmallRoom + RTE_PKTMBUF_HEADROOM, p.socket);
  constexpr std::uint16_t kShared =
      RTE_ALIGN_CEIL(sizeof(rte_mbuf_ext_shared_info), RTE_MBUF_PRIV_ALIGN);
  q.extbuf = make_pool(name("ext"), small, kSmallCache, kShared, 0, p.socket);
  if (p.linear) q.linear = make_pool(name("lin"), linear, kJumboCache, 0, tx_room, p.socket);
  if (q.rx != nullptr && q.small != nullptr && q.extbuf != nullptr &&
      (!p.linear || q.linear != nullptr)) {
    out = q;
    return {};
  }
  const std::string why = rte_strerror(rte_errno);
  free_queue_pools(q);
  const std::uint64_t bytes = std::uint64_t{rx} * rx_room +
                              std::uint64_t{small} * (kSmallRoom + 256) +
                              (p.linear ? std::uint64_t{linear} * tx_room : 0);
  return Status::error(
      Errc::kNoMemory,
      fmt::format("no memory for the pools of port {} queue {} ({}): about {} MB wanted on "
                  "socket {}; raise the memory size, or lower descriptors or queues",
                  port, queue, why, (bytes >> 20) + 1, p.socket));
}

void free_queue_pools(QueuePools& q) {
  for (rte_mempool* m : {q.rx, q.small, q.extbuf, q.linear}) rte_mempool_free(m);
  q = {};
}

}  // namespace metaroce
