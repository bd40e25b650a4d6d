// What the RX role needs of DPDK: answers built in an mbuf of the port on which the question came,
// and the copy into final memory. rx-owned.
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "dataplane/out_queue.h"
#include "transport/rx_role.h"
#include "wire/net.h"

namespace metaroce {

class RxIo {
 public:
  RxIo(std::vector<OutQueue*> outs, std::uint32_t max_connections, std::uint8_t control_dscp)
      : outs_(std::move(outs)),
        planes_(outs_.size()),
        replies_(std::size_t{max_connections} * planes_),
        dscp_(control_dscp) {}

  // Remembers how to answer this connection on this plane: the last packet's addresses, swapped.
  // [MR-7.1.3] [MR-9.6.2]
  void learn(ConnIndex conn, unsigned plane_slot, const RxPacket& p) {
    Reply& r = replies_[conn.v * planes_ + plane_slot];
    std::uint64_t who = (p.port.v + 1U) | (p.v6 ? 0x8000U : 0U);  // 0: nobody yet
    std::array<std::uint64_t, 2> ip{};
    std::memcpy(reinterpret_cast<std::uint8_t*>(&who) + 2, p.src_mac, 6);
    std::memcpy(ip.data(), p.src_ip, p.v6 ? 16 : 4);
    if (r.who == who && r.ip == ip) [[likely]]
      return;
    r.who = who;
    r.ip = ip;
    r.port = p.port.v;
    MacAddress mac;
    IpAddress src, dst;
    std::memcpy(mac.b.data(), p.src_mac, 6);
    src.v6 = dst.v6 = p.v6;
    std::memcpy(src.b.data(), p.dst_ip, p.v6 ? 16 : 4);
    std::memcpy(dst.b.data(), p.src_ip, p.v6 ? 16 : 4);
    r.encap = wire::Encap(outs_[r.port]->port().mac(), mac, src, dst, 0);
  }

  std::uint8_t* begin_reply(ConnIndex conn, unsigned plane_slot) {
    current_ = &replies_[conn.v * planes_ + plane_slot];
    if (current_->encap.size() == 0) return nullptr;
    OutQueue& out = *outs_[current_->port];
    if (mbuf_ == nullptr) mbuf_ = rte_pktmbuf_alloc(out.port().pools(out.queue()).small);
    return mbuf_ == nullptr ? nullptr
                            : rte_pktmbuf_mtod_offset(mbuf_, std::uint8_t*, current_->encap.size());
  }
  // False: the queue to TX is full, the answer is gone; the next ACK says it again.
  bool commit_reply(std::uint32_t n, std::uint16_t src_port, std::uint16_t dst_port) {
    OutQueue& out = *outs_[current_->port];
    auto* frame = rte_pktmbuf_mtod(mbuf_, std::uint8_t*);
    const wire::Encap& encap = current_->encap;
    encap.write(frame, n, src_port, dscp_);  // [MR-3.1.6]
    wire::Be16 port = dst_port;
    std::memcpy(frame + encap.size() - wire::kUdpBytes + offsetof(wire::Udp, dst_port), &port, 2);
    mbuf_->data_len = static_cast<std::uint16_t>(encap.size() + n);
    mbuf_->pkt_len = mbuf_->data_len;
    finish_udp(out.port(), mbuf_, encap.v6(), encap.size(), n);
    const bool taken = out.answers.push(mbuf_);
    if (!taken) rte_pktmbuf_free(mbuf_);
    mbuf_ = nullptr;
    return taken;
  }
  // Done when it returns, hence before any ACK is built. [MR-2.5.5] [MR-4.6.1]
  void place(std::uint8_t* to, const std::uint8_t* from, std::uint32_t n) {
    std::memcpy(to, from, n);
  }
  ~RxIo() { rte_pktmbuf_free(mbuf_); }

  // UDP checksum of a contiguous packet, as the port wants it. [MR-3.1.8] [MR-3.1.9] [MR-3.1.12]
  static void finish_udp(const Port& port, rte_mbuf* m, bool v6, std::uint32_t encap,
                         std::uint32_t n) {
    const TxChecksum how = port.tx_checksum();
    if (how == TxChecksum::kNone) return;
    auto* frame = rte_pktmbuf_mtod(m, std::uint8_t*);
    if (how == TxChecksum::kOffload) {
      wire::write_udp_pseudo_checksum(frame + wire::kEthBytes);
      set_tx_checksum(m, v6);
    } else {
      wire::write_udp_checksum(frame + wire::kEthBytes, {frame + encap, n});
    }
  }

 private:
  struct Reply {
    std::uint64_t who = 0;
    std::array<std::uint64_t, 2> ip{};
    wire::Encap encap;
    std::uint16_t port = 0;
  };
  std::vector<OutQueue*> outs_;
  std::size_t planes_;
  std::vector<Reply> replies_;
  std::uint8_t dscp_;
  Reply* current_ = nullptr;
  rte_mbuf* mbuf_ = nullptr;
};

}  // namespace metaroce
