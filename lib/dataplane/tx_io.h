// What the TX role needs of DPDK: headers in small mbufs, payload without a copy (an mbuf that
// refers to registered memory) or with one (short payloads, ports that take no chains, devices
// whose DMA does not reach the application's memory). tx-owned.
//
// A work request's buffer is given back when no mbuf refers to it: refs_[work] counts them. The
// count is atomic because a port that hands mbufs to another lcore (ring) frees them there. The
// counts outlive this object while any is not 0: mbufs that lie in stashes and ports are freed when
// those are closed, after the roles.
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <vector>

#include <rte_malloc.h>

#include "dataplane/out_queue.h"
#include "dataplane/rx_io.h"
#include "transport/params.h"
#include "wire/net.h"

namespace metaroce {

// Next-hop MAC addresses of each connection's planes: written by the control thread before it
// sends kAddConn or kPeerAddress, read by TX when it takes the command. 0 = not known.
class PeerMacs {
 public:
  PeerMacs(std::uint32_t connections) : macs_(std::size_t{connections} * kMaxPlanes) {}
  void set(ConnIndex c, unsigned plane_slot, const MacAddress& m) {
    std::uint64_t v = 1ULL << 63;
    std::memcpy(&v, m.b.data(), 6);
    macs_[c.v * kMaxPlanes + plane_slot].store(v, std::memory_order_relaxed);
  }
  void clear(ConnIndex c, unsigned plane_slot) {
    macs_[c.v * kMaxPlanes + plane_slot].store(0, std::memory_order_relaxed);
  }
  bool get(ConnIndex c, unsigned plane_slot, MacAddress& out) const {
    const std::uint64_t v = macs_[c.v * kMaxPlanes + plane_slot].load(std::memory_order_relaxed);
    std::memcpy(out.b.data(), &v, 6);
    return v != 0;
  }

 private:
  std::vector<std::atomic<std::uint64_t>> macs_;
};

class TxIo {
 public:
  static constexpr std::uint32_t kCopyBelow = 256;  // cheaper to copy than to attach

  // outs[i] is local port i; port_of_plane maps a plane's number to it (0xff: none).
  TxIo(std::vector<OutQueue*> outs, std::array<std::uint8_t, 256> port_of_plane,
       const PeerMacs& macs, std::uint32_t max_connections, std::uint32_t work_slots,
       std::uint8_t data_dscp, std::uint8_t control_dscp)
      : outs_(std::move(outs)),
        port_of_plane_(port_of_plane),
        macs_(macs),
        planes_(outs_.size()),
        ways_(std::size_t{max_connections} * planes_),
        refs_(make_refs(work_slots)),
        n_refs_(work_slots),
        dscp_(data_dscp),
        control_dscp_(control_dscp) {}
  ~TxIo() {
    rte_pktmbuf_free(mbuf_);
    for (std::uint32_t i = 0; i < n_refs_; ++i)
      if (busy(i)) return;  // the memory goes with EAL
    rte_free(refs_);
  }
  TxIo(const TxIo&) = delete;

  bool install(const ConnParams& p) {
    if (p.n_planes > planes_) return false;
    for (unsigned i = 0; i < p.n_planes; ++i) {
      const std::uint8_t port = port_of_plane_[p.planes[i].plane.v];
      if (port == 0xff) return false;
      Way& w = ways_[p.index.v * planes_ + i];
      w = Way{};
      w.out = outs_[port];
      MacAddress mac;
      w.resolved = macs_.get(p.index, i, mac);
      // [MR-9.1.2]
      w.encap =
          wire::Encap(w.out->port().mac(), mac, p.planes[i].local, p.planes[i].peer, p.peer_port);
    }
    return true;
  }
  void uninstall(ConnIndex c) {
    for (std::size_t i = 0; i < planes_; ++i) ways_[c.v * planes_ + i] = Way{};
  }
  [[nodiscard]] bool ready(ConnIndex c, unsigned plane_slot) const {
    const Way& w = ways_[c.v * planes_ + plane_slot];
    return w.resolved && w.out->ready();
  }
  std::uint8_t* begin(ConnIndex c, unsigned plane_slot) {
    current_ = &ways_[c.v * planes_ + plane_slot];
    OutQueue& out = *current_->out;
    if (mbuf_ == nullptr) mbuf_ = rte_pktmbuf_alloc(out.port().pools(out.queue()).small);
    return mbuf_ == nullptr ? nullptr
                            : rte_pktmbuf_mtod_offset(mbuf_, std::uint8_t*, current_->encap.size());
  }
  void commit(std::uint32_t header, const std::uint8_t* payload, std::uint32_t n,
              const std::uint8_t* trailer, std::uint16_t src_port, std::uint16_t,
              std::uint32_t work, bool control);
  [[nodiscard]] bool busy(std::uint32_t work) const {
    return refs_[work].load(std::memory_order_acquire) != 0;
  }

  [[nodiscard]] std::uint64_t copied() const { return copied_; }
  [[nodiscard]] std::uint64_t attached() const { return attached_; }
  [[nodiscard]] std::uint64_t no_buffer() const { return no_buffer_; }

 private:
  struct Way {
    OutQueue* out = nullptr;
    bool resolved = false;
    wire::Encap encap;
  };
  static std::atomic<std::uint32_t>* make_refs(std::uint32_t n) {
    auto* p = static_cast<std::atomic<std::uint32_t>*>(
        rte_zmalloc("metaroce", n * sizeof(std::atomic<std::uint32_t>), RTE_CACHE_LINE_SIZE));
    if (p == nullptr) throw std::bad_alloc();
    for (std::uint32_t i = 0; i < n; ++i) new (p + i) std::atomic<std::uint32_t>(0);
    return p;
  }
  static void release(void*, void* ref) {
    static_cast<std::atomic<std::uint32_t>*>(ref)->fetch_sub(1, std::memory_order_release);
  }
  bool attach(OutQueue& out, rte_mbuf* head, const std::uint8_t* payload, std::uint32_t n,
              std::uint32_t work);
  rte_mbuf* make_linear(OutQueue& out, rte_mbuf* head, const std::uint8_t* payload,
                        std::uint32_t n);

  std::vector<OutQueue*> outs_;
  std::array<std::uint8_t, 256> port_of_plane_;
  const PeerMacs& macs_;
  std::size_t planes_;
  std::vector<Way> ways_;
  std::atomic<std::uint32_t>* refs_;
  std::uint32_t n_refs_;
  std::uint8_t dscp_, control_dscp_;
  Way* current_ = nullptr;
  rte_mbuf* mbuf_ = nullptr;
  std::uint64_t copied_ = 0, attached_ = 0, no_buffer_ = 0;
};

inline bool TxIo::attach(OutQueue& out, rte_mbuf* head, const std::uint8_t* payload,
                         std::uint32_t n, std::uint32_t work) {
  auto* at = const_cast<std::uint8_t*>(payload);  // an mbuf's buffer is mutable by type only
  rte_mbuf* m =
      attach_payload(out.port().pools(out.queue()).extbuf, at, reinterpret_cast<rte_iova_t>(at),
                     static_cast<std::uint16_t>(n), release, &refs_[work]);
  if (m == nullptr) return false;
  refs_[work].fetch_add(1, std::memory_order_relaxed);
  head->next = m;
  head->nb_segs = 2;
  head->pkt_len = head->data_len + n;
  ++attached_;
  return true;
}

// One contiguous frame. nullptr: no buffer.
inline rte_mbuf* TxIo::make_linear(OutQueue& out, rte_mbuf* head, const std::uint8_t* payload,
                                   std::uint32_t n) {
  rte_mbuf* m = head;
  if (rte_pktmbuf_tailroom(head) < n + wire::kCrcBytes) {
    const QueuePools& pools = out.port().pools(out.queue());
    m = rte_pktmbuf_alloc(pools.linear != nullptr ? pools.linear : pools.rx);
    if (m == nullptr) return nullptr;
    std::memcpy(rte_pktmbuf_mtod(m, void*), rte_pktmbuf_mtod(head, void*), head->data_len);
    m->data_len = head->data_len;
    m->pkt_len = head->pkt_len;
    rte_pktmbuf_free(head);
  }
  std::memcpy(rte_pktmbuf_mtod_offset(m, std::uint8_t*, m->data_len), payload, n);
  m->data_len = static_cast<std::uint16_t>(m->data_len + n);
  m->pkt_len = m->data_len;
  ++copied_;
  return m;
}

inline void TxIo::commit(std::uint32_t header, const std::uint8_t* payload, std::uint32_t n,
                         const std::uint8_t* trailer, std::uint16_t src_port, std::uint16_t,
                         std::uint32_t work, bool control) {
  OutQueue& out = *current_->out;
  const wire::Encap& encap = current_->encap;
  rte_mbuf* m = mbuf_;
  mbuf_ = nullptr;
  const std::uint32_t udp = header + n + (trailer != nullptr ? wire::kCrcBytes : 0);
  // [MR-3.1.4] [MR-3.1.6]
  encap.write(rte_pktmbuf_mtod(m, std::uint8_t*), udp, src_port, control ? control_dscp_ : dscp_);
  m->data_len = static_cast<std::uint16_t>(encap.size() + header);
  m->pkt_len = m->data_len;
  // A probe's padding belongs to no request: it is copied.
  const bool chain = n >= kCopyBelow && work < n_refs_ && trailer == nullptr &&
                     out.port().chains() && out.port().capabilities().kind != PortKind::kPci;
  // A pool that is empty loses the packet like a full queue would: the gap brings it back.
  if (chain) {
    if (!attach(out, m, payload, n, work)) {
      ++no_buffer_;
      return rte_pktmbuf_free(m);
    }
  } else if (n != 0) {
    rte_mbuf* whole = make_linear(out, m, payload, n);
    if (whole == nullptr) {
      ++no_buffer_;
      return rte_pktmbuf_free(m);
    }
    m = whole;
  }
  if (trailer != nullptr) {
    std::memcpy(rte_pktmbuf_mtod_offset(m, std::uint8_t*, m->data_len), trailer, wire::kCrcBytes);
    m->data_len = static_cast<std::uint16_t>(m->data_len + wire::kCrcBytes);
    m->pkt_len = m->data_len;
  }
  if (!chain) {
    RxIo::finish_udp(out.port(), m, encap.v6(), encap.size(), udp);
  } else if (out.port().tx_checksum() == TxChecksum::kOffload) {
    wire::write_udp_pseudo_checksum(rte_pktmbuf_mtod(m, std::uint8_t*) + wire::kEthBytes);
    set_tx_checksum(m, encap.v6());
  } else if (out.port().tx_checksum() == TxChecksum::kSoftware) {
    wire::write_udp_checksum(
        rte_pktmbuf_mtod(m, std::uint8_t*) + wire::kEthBytes,
        {rte_pktmbuf_mtod_offset(m, const std::uint8_t*, encap.size()), header}, {payload, n});
  }
  out.push(m, encap.size());
}

}  // namespace metaroce
