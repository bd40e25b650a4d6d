#include "dataplane/fault_hook.h"

#include "wire/packet.h"

namespace metaroce {

unsigned FaultHook::apply(rte_mbuf*& m, std::uint32_t encap, rte_mempool* pool) {
  const auto* p = rte_pktmbuf_mtod_offset(m, const std::uint8_t*, encap);
  const bool ours = rte_pktmbuf_data_len(m) > encap && (p[0] >> 4) == wire::kVersion;
  const bool data = ours && (p[0] & 0x0f) == static_cast<unsigned>(wire::Type::kData);
  if (ours && rng_.chance_ppm(plan_.loss_ppm)) {
    ++counters_.lost;
    return 0;
  }
  if (data) {
    ++data_packets_;
    for (const FaultPlan::Flip& f : plan_.flips) {
      if (f.packet != data_packets_ || encap + f.offset >= rte_pktmbuf_pkt_len(m)) continue;
      // A copy: the payload may be the application's own memory.
      rte_mbuf* copy = rte_pktmbuf_copy(m, pool, 0, UINT32_MAX);
      if (copy == nullptr) break;
      copy->ol_flags = m->ol_flags & ~RTE_MBUF_F_EXTERNAL;
      copy->tx_offload = m->tx_offload;
      std::uint32_t at = encap + f.offset;
      rte_mbuf* seg = copy;
      while (at >= rte_pktmbuf_data_len(seg)) {
        at -= rte_pktmbuf_data_len(seg);
        seg = seg->next;
      }
      *rte_pktmbuf_mtod_offset(seg, std::uint8_t*, at) ^= 0xff;
      rte_pktmbuf_free(m);
      m = copy;
      ++counters_.flipped;
    }
  }
  if (ours && rng_.chance_ppm(plan_.duplicate_ppm)) {
    ++counters_.duplicated;
    return 2;
  }
  return 1;
}

}  // namespace metaroce
