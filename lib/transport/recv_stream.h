// Receive side of one stream's request space: exactly-once bitmap, cumulative point, posted
// receives, held ordered packets, error state. rx-owned. [MR-2.5] [MR-6]
//
// A message is complete when the cumulative spn passes its last packet, so completions are in
// order by construction. A Send names the receive it consumes (rqn), hence its slot remembers
// where the message ends; slots complete in rqn order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/serial.h"
#include "transport/events.h"
#include "transport/params.h"
#include "transport/window_pool.h"
#include "wire/packet.h"

namespace metaroce {

// A posted receive, and what arrived for it.
struct RecvSlot {
  std::uint64_t wr_id = 0;
  std::uint64_t va = 0;
  std::uint32_t lkey = 0, length = 0;
  std::uint32_t message_length = 0, imm = 0;
  std::uint32_t arrived = 0;  // bytes placed for a Send: a sender that skips some is found out
  StreamSeq last_spn;
  bool has_last = false, has_imm = false;
  WorkOp op = WorkOp::kRecv;
};

// A packet accepted before its predecessors although it must be placed after them. The payload
// lies in the connection's hold space.
struct HeldPacket {
  StreamSeq spn;
  std::uint32_t space = 0;  // index of the hold buffer
  std::uint16_t length = 0;
  std::uint16_t access = 0;
  std::uint32_t rkey = 0;
  std::uint64_t va = 0;
};

class RecvStream {
 public:
  enum class Window : std::uint8_t { kNew, kDuplicate, kBeyond };

  void start(const StreamParams& p, WindowPool& pool) {
    params = p;
    seen_.start(pool, p.recv_window);
    ahead_ = 0;
    next_arrived_ = false;
    slots_.start(p.recv_depth);
    cum_ = p.peer_initial_spn;
    held_.clear();
    posted_ = completed_ = advertised_ = consumed_ = RecvNumber{0};
    failed_ = stopped_ = false;
    used = true;
  }
  void release() {
    seen_.give(ahead_ == 0);
    slots_.release();
    held_ = {};
    used = false;
  }

  [[nodiscard]] StreamSeq cum() const { return cum_; }
  // [MR-2.5.1] over the whole window. [MR-2.2.6]
  [[nodiscard]] Window classify(StreamSeq spn) const {
    const std::int32_t d = spn - cum_;
    if (d < 0) return Window::kDuplicate;
    if (static_cast<std::uint32_t>(d) >= seen_.size()) return Window::kBeyond;
    return seen_.present() && seen_.test(spn.v) ? Window::kDuplicate : Window::kNew;
  }
  // May a new packet be recorded? The next one in order always; false: no window is free.
  bool can_mark(StreamSeq spn) { return spn == cum_ || seen_.take(); }
  void mark(StreamSeq spn) {
    if (seen_.present()) {
      seen_.set(spn.v);
      ++ahead_;
    } else {
      next_arrived_ = spn == cum_;
    }
  }
  // Moves the cumulative point over what is marked; true when it moved.
  bool advance() {
    if (!seen_.present()) {
      if (!next_arrived_) return false;
      next_arrived_ = false;
      ++cum_;
      return true;
    }
    const std::uint32_t n = seen_.take_run(cum_.v);
    cum_ = cum_ + n;
    ahead_ -= n;
    if (ahead_ == 0) seen_.give(true);
    return n != 0;
  }

  // ---- receives -------------------------------------------------------------------------------
  // Before post().
  bool receive_room() { return slots_.make_room(completed_.v, posted_.v); }
  void post(const WorkRequest& w) {
    slots_[posted_.v] =
        RecvSlot{w.wr_id, w.local_addr, w.lkey, w.length, 0, 0, 0, {}, false, false, WorkOp::kRecv};
    ++posted_;
  }
  [[nodiscard]] RecvNumber credit_limit() const { return posted_; }  // [MR-6.3.1] [MR-6.3.4]
  // The slot of rqn while it is posted and not complete; nullptr otherwise.
  [[nodiscard]] RecvSlot* slot(RecvNumber rqn) {
    if (rqn < completed_ || rqn >= posted_) return nullptr;
    return &slots_[rqn.v];
  }
  void note_consumed(RecvNumber rqn) { consumed_ = serial_max(consumed_, rqn + 1); }
  // True when the peer may be waiting for a limit above the one it was told. [MR-6.3.6] [MR-6.3.10]
  [[nodiscard]] bool credit_push_due() const {
    return posted_ > advertised_ &&
           advertised_ - consumed_ <= static_cast<std::int32_t>(slots_.depth() / 8);
  }
  void advertised(RecvNumber limit) { advertised_ = serial_max(advertised_, limit); }
  // Oldest receive whose message is complete, or nullptr. complete_one() takes it. [MR-2.5.2]
  [[nodiscard]] RecvSlot* completable() {
    RecvSlot* s = slot(completed_);
    return s != nullptr && s->has_last && s->last_spn < cum_ ? s : nullptr;
  }
  void complete_one() { ++completed_; }
  // Oldest receive of any state, for flushing; nullptr when there is none.
  [[nodiscard]] RecvSlot* oldest() { return slot(completed_); }

  // ---- ordered packets
  // ---------------------------------------------------------------------------
  void hold(const HeldPacket& h) {
    held_.insert(std::upper_bound(held_.begin(), held_.end(), h,
                                  [](const auto& a, const auto& b) { return a.spn < b.spn; }),
                 h);
  }
  [[nodiscard]] bool holds_any() const { return !held_.empty(); }
  [[nodiscard]] const std::vector<HeldPacket>& held() const { return held_; }
  // Oldest held packet that the cumulative point has passed; nullptr when none.
  [[nodiscard]] const HeldPacket* ripe() const {
    return !held_.empty() && held_.front().spn < cum_ ? &held_.front() : nullptr;
  }
  void drop_front_held() { held_.erase(held_.begin()); }
  void clear_held() { held_.clear(); }

  // ---- errors: act in spn order
  // ------------------------------------------------------------------- Keeps the lowest failing
  // spn and its reason. [MR-6.6.1] [MR-6.6.2]
  void fail(StreamSeq spn, wire::NackReason r) {
    if (!failed_ || spn < fail_spn_) {
      fail_spn_ = spn;
      fail_reason_ = r;
    }
    failed_ = true;
  }
  [[nodiscard]] bool refuses(StreamSeq spn) const { return failed_ && spn >= fail_spn_; }
  [[nodiscard]] StreamSeq fail_spn() const { return fail_spn_; }
  [[nodiscard]] wire::NackReason fail_reason() const { return fail_reason_; }
  // After close nothing new is accepted; what is below the final point is acknowledged again.
  // [MR-6.7.3] [MR-4.3.3]
  void stop() {
    stopped_ = true;
    fail(cum_, wire::NackReason::kBadStream);
  }
  [[nodiscard]] bool stopped() const { return stopped_; }

  StreamParams params;
  bool used = false;
  // State event for TX, newest wins; queued once.
  StreamAck mail;
  bool mail_dirty = false;
  bool ack_dirty = false;        // its block belongs into the next ACK
  std::uint32_t nack_round = 0;  // receive pass of the last NACK: at most one per pass

 private:
  PooledWindow seen_;        // while something beyond `cum` arrived
  std::uint32_t ahead_ = 0;  // marked in it
  StreamSeq cum_;
  GrowingRing<RecvSlot> slots_;
  std::vector<HeldPacket> held_;
  RecvNumber posted_, completed_, advertised_, consumed_;
  StreamSeq fail_spn_;
  wire::NackReason fail_reason_{};
  bool failed_ = false, stopped_ = false;
  bool next_arrived_ = false;  // marked without a window: advance() comes next
};

}  // namespace metaroce
