// Transmit side of one port's queue: what TX built, what RX answers and what control sends,
// joined into bursts. Owned by the TX lcore; RX and control hand packets in through rings of
// mbufs. A port that is full keeps at most kStash packets here and pushes back: `ready()` is what
// the TX role asks before it builds another one. A port that takes nothing for kGiveUp (its peer is
// gone or sleeps) loses what is here, like a dead link: the packets refer to applications' buffers,
// which could not be given back otherwise.
#pragma once

#include <cstdint>
#include <memory>

#include <rte_ethdev.h>

#include "base/units.h"
#include "dataplane/fault_hook.h"
#include "dataplane/port.h"
#include "dataplane/rte_queue.h"

namespace metaroce {

class OutQueue {
 public:
  static constexpr std::uint16_t kBurst = 32, kStash = 3 * kBurst;
  static constexpr Nanos kGiveUp = 100 * kMillisecond;

  OutQueue(Port& port, std::uint16_t queue, FaultHook* faults)
      : answers(256, port.socket()),
        control(64, port.socket()),
        port_(port),
        queue_(queue),
        faults_(faults),
        encap_bytes_(0) {}
  ~OutQueue() {
    rte_pktmbuf_free_bulk(stash_, n_);
    rte_mbuf* m = nullptr;
    while (answers.pop(m)) rte_pktmbuf_free(m);
    while (control.pop(m)) rte_pktmbuf_free(m);
  }

  RteQueue<rte_mbuf*> answers;  // from the RX lcore
  RteQueue<rte_mbuf*> control;  // from the control thread

  [[nodiscard]] bool ready() const { return n_ < kBurst && port_.running(); }
  [[nodiscard]] bool empty() const { return n_ == 0; }
  // After ready(). `encap`: bytes of headers in front of the UDP payload.
  void push(rte_mbuf* m, std::uint32_t encap) {
    encap_bytes_ = encap;
    if (faults_ == nullptr) {
      stash_[n_++] = m;
    } else
      push_faulty(m);
    if (n_ >= kBurst) transmit();
  }
  // Takes in answers and control packets (they wait for nobody) and sends what there is.
  void flush(Nanos now) {
    rte_mbuf* m = nullptr;
    while (n_ < kStash - 2 && (answers.pop(m) || control.pop(m))) {
      if (faults_ == nullptr || encap_bytes_ == 0)
        stash_[n_++] = m;
      else
        push_faulty(m);
    }
    if (n_ != 0) transmit();
    if (n_ == 0 || moved_) moved_at_ = now;
    moved_ = false;
    if (now - moved_at_ >= kGiveUp) [[unlikely]] {
      discarded_ += n_;
      rte_pktmbuf_free_bulk(stash_, n_);
      n_ = 0;
    }
  }
  [[nodiscard]] std::uint64_t discarded() const { return discarded_; }
  [[nodiscard]] Port& port() const { return port_; }
  [[nodiscard]] std::uint16_t queue() const { return queue_; }

 private:
  void push_faulty(rte_mbuf* m) {
    const unsigned copies = faults_->apply(m, encap_bytes_, port_.pools(queue_).rx);
    if (copies == 0) {
      rte_pktmbuf_free(m);
      return;
    }
    if (copies == 2) {
      rte_mbuf* again = rte_pktmbuf_copy(m, port_.pools(queue_).rx, 0, UINT32_MAX);
      if (again != nullptr) {
        again->ol_flags = m->ol_flags & ~RTE_MBUF_F_EXTERNAL;
        again->tx_offload = m->tx_offload;
        stash_[n_++] = again;
      }
    }
    stash_[n_++] = m;
  }
  void transmit() {
    if (!port_.running()) return;
    const std::uint16_t sent = rte_eth_tx_burst(port_.id(), queue_, stash_, n_);
    if (sent != 0 && sent < n_) std::copy(stash_ + sent, stash_ + n_, stash_);
    n_ = static_cast<std::uint16_t>(n_ - sent);
    moved_ |= sent != 0;
  }

  Port& port_;
  std::uint16_t queue_;
  FaultHook* faults_;
  std::uint32_t encap_bytes_;
  std::uint16_t n_ = 0;
  bool moved_ = false;  // the port took something since the last flush
  Nanos moved_at_ = 0;
  std::uint64_t discarded_ = 0;
  rte_mbuf* stash_[kStash];
};

}  // namespace metaroce
