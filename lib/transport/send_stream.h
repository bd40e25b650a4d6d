// Send side of one stream's request space: work requests in post order, which packet comes
// next, what is acknowledged, what stands in the way. tx-owned. [MR-2.5] [MR-6]
//
// A work request gets its packets' numbers when it is taken: spn -> bytes is then arithmetic
// (binary search over the outstanding requests, multiplication), so no per-packet record exists
// besides the one that is in flight.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/serial.h"
#include "transport/events.h"
#include "transport/params.h"
#include "transport/window_pool.h"
#include "wire/packet.h"

namespace metaroce {

inline constexpr std::uint32_t kNil = 0xffffffff;

// One outstanding work request; lives in the TX role's pool.
struct WorkState {
  std::uint64_t wr_id = 0, local = 0, remote = 0;
  std::uint32_t length = 0, lkey = 0, rkey = 0, imm = 0;
  StreamSeq first;
  std::uint32_t packets = 0;
  RecvNumber rqn;
  std::uint32_t msn = 0;
  ClientId client;
  WorkOp op{};
  std::uint8_t flags = 0;
  [[nodiscard]] StreamSeq end() const { return first + packets; }
  [[nodiscard]] bool consumes_receive() const { return op != WorkOp::kWrite; }
};

// A retriable NACK that stands: only `spn` is resent, at `resume_at`, until acknowledged. [MR-6.5]
struct StandingNack {
  bool active = false;
  bool in_flight = false;  // the named packet was resent and is not resolved
  StreamSeq spn;
  Nanos resume_at = 0;
  wire::NackReason reason{};
  Nanos since = 0;
  std::uint32_t rounds = 0;  // times that the named packet was refused again
};

class SendStream {
 public:
  // At most the pool's windows are used of what the peer accepts.
  void start(const StreamParams& p, WindowPool& pool) {
    params = p;
    ring_.start(p.send_depth);
    acked_.start(pool, p.send_window);
    cum_ = next_ = end_ = peer_cum_ = p.own_initial_spn;
    limit_ = p.peer_rqn_limit;
    head_ = cursor_ = tail_ = 0;
    next_rqn_ = RecvNumber{0};
    used = true;
    failing = draining = stopped = reported = false;
    nack = {};
    rejected_head = rejected_tail = kNil;
    next_in_list = kNil;
    listed = blocked = retiring = false;
    backlog = 0;
    msn_ = 0;
  }
  void release() {
    ring_.release();
    acked_.give(false);
    used = false;
  }

  // ---- work requests
  // ------------------------------------------------------------------------------ Packets ahead of
  // the cumulative point are bounded too: serial numbers compare below 2^31 only.
  static constexpr std::int32_t kMaxAhead = 1 << 30;
  [[nodiscard]] bool has_room() const {
    return tail_ - head_ < ring_.depth() && end_ - cum_ < kMaxAhead;
  }
  // Before push(): false when memory for it is short. A window is held from here until everything
  // is acknowledged.
  bool make_room() { return acked_.take() && ring_.make_room(head_, tail_); }
  [[nodiscard]] bool idle() const { return head_ == tail_; }
  [[nodiscard]] std::uint32_t outstanding() const { return tail_ - head_; }
  void push(std::uint32_t slot, WorkState& w, std::uint32_t mtu) {
    // [MR-2.2.3] [MR-6.2.1] [MR-3.4.10]
    w.packets = w.length == 0 ? 1 : (w.length + mtu - 1) / mtu;
    w.first = end_;
    w.msn = msn_++;
    // [MR-6.3.2]
    if (w.consumes_receive()) {
      w.rqn = next_rqn_;
      ++next_rqn_;
    }
    end_ = end_ + w.packets;
    backlog += w.length;
    ring_[tail_++] = slot;
  }
  [[nodiscard]] std::uint32_t oldest() const { return idle() ? kNil : ring_[head_]; }
  void pop_oldest() {
    ++head_;
    if (static_cast<std::int32_t>(cursor_ - head_) < 0) cursor_ = head_;
    if (idle() && cum_ == end_) acked_.give(true);
  }
  // Request that holds `spn`, by binary search; kNil when it is not outstanding.
  template <typename Pool>
  [[nodiscard]] std::uint32_t find(StreamSeq spn, const Pool& pool) const {
    std::uint32_t lo = head_, n = tail_ - head_;
    while (n > 0) {
      const std::uint32_t half = n / 2, slot = ring_[lo + half];
      if (pool[slot].end() <= spn) {
        lo += half + 1;
        n -= half + 1;
      } else
        n = half;
    }
    if (lo == tail_ || pool[ring_[lo]].first > spn) return kNil;
    return ring_[lo];
  }

  // ---- next new packet
  // -----------------------------------------------------------------------------
  [[nodiscard]] bool has_unsent() const { return next_ < end_; }
  [[nodiscard]] StreamSeq next_spn() const { return next_; }
  [[nodiscard]] StreamSeq end_spn() const { return end_; }
  [[nodiscard]] std::uint32_t current() const { return ring_[cursor_]; }
  [[nodiscard]] bool window_open() const {
    return static_cast<std::uint32_t>(next_ - serial_max(cum_, peer_cum_)) < acked_.size() &&
           static_cast<std::uint32_t>(next_ - cum_) < acked_.size();
  }
  [[nodiscard]] bool credit_for(const WorkState& w) const {
    return !w.consumes_receive() || w.rqn < limit_;
  }
  [[nodiscard]] RecvNumber credit_limit() const { return limit_; }
  void sent_one(const WorkState& w, std::uint32_t bytes) {
    backlog -= bytes;
    ++next_;
    if (next_ == w.end()) ++cursor_;
  }

  // ---- acknowledged
  // ----------------------------------------------------------------------------------
  [[nodiscard]] StreamSeq cum() const { return cum_; }
  [[nodiscard]] bool is_acked(StreamSeq spn) const {
    if (spn < cum_ || spn < peer_cum_) return true;
    return acked_.present() && static_cast<std::uint32_t>(spn - cum_) < acked_.size() &&
           acked_.test(spn.v);
  }
  void on_acked(StreamSeq spn) {
    if (spn < cum_ || !acked_.present()) return;
    acked_.set(spn.v);
    if (spn == cum_) cum_ = cum_ + acked_.take_run(cum_.v);
  }
  // The receiver's own word about its cumulative spn; never beyond what was sent.
  bool on_stream_ack(StreamSeq peer_cum, RecvNumber limit) {
    // Relative to cum_, not to next_: at exactly half the number space a serial number is neither
    // ahead nor behind, and the loop below must not walk there. [MR-3.6.8] [MR-10.2.5]
    const std::int32_t ahead = peer_cum - cum_;
    if (ahead > next_ - cum_) return false;
    if (ahead > 0) peer_cum_ = peer_cum;
    limit_ = serial_max(limit_, limit);  // [MR-6.3.5]
    while (cum_ < peer_cum_) {  // everything below it arrived, whatever became of the path's ACKs
      acked_.set(cum_.v);
      cum_ = cum_ + acked_.take_run(cum_.v);
    }
    return true;
  }

  // ---- errors
  // ----------------------------------------------------------------------------------------- The
  // lowest failing spn wins; nothing from there on is sent or resent.
  void fail(StreamSeq spn, WorkStatus status) {
    if (!failing || spn < fail_spn) {
      fail_spn = spn;
      fail_status = status;
    }
    failing = true;
  }
  [[nodiscard]] bool beyond_failure(StreamSeq spn) const { return failing && spn >= fail_spn; }

  StreamParams params;
  bool used = false, failing = false, draining = false;
  bool stopped = false;   // closed: nothing new is taken
  bool reported = false;  // control knows of the failure
  bool listed = false;    // in the connection's list of streams that may send
  bool blocked = false;   // in the role's list of streams that wait for credits or a NACK's end
  bool retiring =
      false;  // in the role's list of streams whose oldest request waits for its buffers
  StreamSeq fail_spn;
  WorkStatus fail_status{};
  StandingNack nack;
  std::uint32_t rejected_head = kNil, rejected_tail = kNil;  // resend nodes that wait for the NACK
  std::uint32_t next_in_list = kNil;
  std::uint64_t backlog = 0;  // bytes taken and not sent: part of the connection's
  Nanos probe_at = 0, probe_wait = 0;

 private:
  GrowingRing<std::uint32_t> ring_;
  PooledWindow acked_;
  StreamSeq cum_, next_, end_, peer_cum_;
  RecvNumber limit_, next_rqn_;
  std::uint32_t head_ = 0, cursor_ = 0, tail_ = 0, msn_ = 0;
};

}  // namespace metaroce
