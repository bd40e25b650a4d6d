// TX role: what RX heard from the peer, and expired probe timeouts. [MR-7]
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::take_feedback() {
  RxToTx e;
  for (unsigned n = 0; n < 256 && q_.rx_to_tx.pop(e); ++n) {
    if (e.conn.v >= conns_.size() || !conns_[e.conn.v].used || conns_[e.conn.v].failed) continue;
    Conn& c = conns_[e.conn.v];
    // Said of a connection that had this index before: nothing of it fits, not even the path.
    if (e.generation != static_cast<std::uint8_t>(c.params.own_dcid) || e.path >= c.rest.size())
      continue;
    if (c.rests() && !concerns_resting(c, e)) continue;
    switch (e.kind) {
      case RxToTxKind::kPathAck:
        note_hint(c, e.ack, e.received_at);
        on_path_ack(c, e.path, e.ack, e.received_at);
        break;
      case RxToTxKind::kStreamAck:
        on_stream_ack(c, e.stream);
        break;
      case RxToTxKind::kNack:
        on_nack(c, e.path, e.nack);
        break;
      case RxToTxKind::kProbeReply:
        on_probe_reply(c, e.path, e.probe);
        break;
    }
  }
}

// Something about a path of a connection that rests, hence has nothing unresolved. True: it is
// awake now, or need not be.
template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::concerns_resting(Conn& c, const RxToTx& e) {
  switch (e.kind) {
    case RxToTxKind::kPathAck:
      return wake(c);
    case RxToTxKind::kStreamAck:
      return true;
    case RxToTxKind::kNack:
      counters_.drops.add(DropReason::kNackUnknown);
      return false;
    case RxToTxKind::kProbeReply:
      on_reply_at_rest(c, e.probe);
      return false;
  }
  return false;
}

// Any believable word shows that the peer lives.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::heard_peer(Conn& c) {
  c.last_ack = now_;
  c.ever_answered = true;
  c.probe_sent = 0;  // a keepalive that was lost no longer counts
  if (c.backoff != 0) peer_recovered(c);
  c.starting = false;
}

// An answer to what went out on the path shows that its route lives, too.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::heard(Conn& c, std::uint8_t path) {
  heard_peer(c);
  PathHealth& h = c.paths[path].health;
  if (h.silences == 0 && h.state != PathState::kSuspect) return;
  if (!c.planes[c.plane_slots[path]].up()) return;  // returns as a whole
  // [MR-9.4.2]
  if (h.heard()) Cc::regrow(c.paths[path].cc, c.paths[path].window_before / 2);
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::on_path_ack(Conn& c, std::uint8_t path, const PathAck& a,
                                    Nanos received_at) {
  Path& p = c.paths[path];
  if (p.block != kNil) __builtin_prefetch(&blocks_[p.block][p.seq.floor.v & 255]);
  SackVector acked;
  switch (acked_vector(p.seq, a, p.epoch, acked)) {
    // [MR-3.6.8] [MR-3.6.9]
    case AckCheck::kStale:
      return counters_.drops.add(DropReason::kAckStale);
    case AckCheck::kUnsent:
      return counters_.drops.add(DropReason::kAckUnsent);
    case AckCheck::kOk:
      break;
  }
  const bool first = c.starting;
  heard_peer(c);
  p.epoch_confirmed = true;
  const bool fresh = a.highest > p.highest_acked;
  if (fresh) p.highest_acked = a.highest;
  const auto late = static_cast<std::uint16_t>(a.late - p.peer_late);
  if (late != 0 && late < 0x8000) {
    p.peer_late = a.late;
    p.dup.late_seen(now_);
    c.rest[path].counters.spurious += late;
    c.spurious += late;
    counters_.spurious_packets += late;
  }
  const std::uint32_t ce = a.ce_packets - p.peer_ce, packets = a.received_packets - p.peer_received;
  const bool newer = packets < 0x80000000U;
  if (newer) {
    p.peer_ce = a.ce_packets;
    p.peer_received = a.received_packets;
    if (ce != 0) p.losses.reset();
  }

  SackVector newly;
  // [MR-2.4.1]
  for (unsigned k = 0; k < 4; ++k)
    newly.words()[k] = acked.words()[k] & p.seq.unresolved.words()[k];
  // Blocks also travel with hints, and with ACKs for other paths: only news counts. [MR-9.4.2]
  if (fresh || newly.any()) heard(c, path);
  Bytes bytes = 0;
  typename Cc::Delay delay{0, 0};
  // Also of a transmission that was given up for lost meanwhile: else a queue longer than the probe
  // timeout would never be measured, and all of it sent again and again. [MR-7.2.1] [MR-7.2.2]
  if (fresh && a.ack_delay_64ns != wire::kNoDelaySample) {
    // 64 bits: the peer chose the echo, and the difference may be as low as it can get.
    const std::int64_t units =
        std::int64_t{to_wire_time(received_at) - a.timestamp_echo} - a.ack_delay_64ns;
    if (units > 0 && a.highest == p.announced)
      on_announced(c, static_cast<Nanos>(units) << kWireTimeShift);
    else if (units > 0)
      delay = {on_rtt(c, p, static_cast<Nanos>(units) << kWireTimeShift), c.lowest_rtt.value()};
  }
  if (newly.any()) {
    const std::uint32_t before = p.data_unresolved;
    apply_acked(c, path, newly, bytes);
    c.loss_mean.acked(before - p.data_unresolved);
    p.losses.acked(before - p.data_unresolved);
    p.last_progress = now_;
  }
  if (first) lift_windows(c);  // the round trip is known now
  const bool ripe = p.gap_since != kNever && now_ - p.gap_since >= p.rtt.srtt() / 4;
  const unsigned threshold = p.dup.value(now_);
  const SackVector lost = lost_vector(p.seq, acked, threshold, ripe);
  bool all = true;
  if (lost.any()) {
    all = apply_lost(c, path, lost);
    c.flush_credit = 1000;
  }
  // A gap that is not ripe yet keeps the timer short.
  const SackVector open_gaps =
      threshold > 1 || !all ? lost_vector(p.seq, acked, 1, true) : SackVector{};
  if (!open_gaps.any())
    p.gap_since = kNever;
  else if (p.gap_since == kNever || ripe)
    p.gap_since = now_;
  if (newer &&
      Cc::on_ack(c.cc, p.cc, bytes, packets, ce < 0x80000000U ? ce : 0, a.cum, p.seq.next, delay))
    c.set_skip(path, true);
  settle(c, path);
  watch_window(c);
  if (bytes != 0) plane_progress(c, path);
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::apply_acked(Conn& c, std::uint8_t path, const SackVector& newly,
                                    Bytes& bytes) {
  Path& p = c.paths[path];
  PlaneHealth& plane = c.planes[c.plane_slots[path]];
  const TxBlock& block = blocks_[p.block];
  SendStream* touched = nullptr;
  for (unsigned k = 0; k < 4; ++k) {
    for (std::uint64_t v = newly.words()[k]; v != 0; v &= v - 1) {
      const unsigned i = k * 64 + static_cast<unsigned>(std::countr_zero(v));
      p.seq.resolve(i);
      const TxRecord& r = block[(p.seq.floor.v + i) & 255];
      p.inflight -= r.bytes;
      c.inflight -= r.bytes;
      if (!r.data) continue;
      bytes += r.bytes;
      --p.data_unresolved;
      --plane.unresolved;
      --c.unresolved;
      ++counters_.acked_packets;
      SendStream* s = find_stream(r.stream);
      if (s == nullptr) continue;
      if (touched != nullptr && touched != s) {
        finish_work(*touched);
        list_stream(*touched);
      }
      touched = s;
      s->on_acked(r.spn);
      if (s->nack.active && s->is_acked(s->nack.spn)) end_nack(c, *s);
    }
  }
  counters_.acked_bytes += static_cast<std::uint64_t>(bytes);
  if (touched != nullptr) {
    finish_work(*touched);
    if (touched->has_unsent()) list_stream(*touched);  // the stream's window may have opened
  }
}

// False: the pool of resend nodes is empty; what is left stays unresolved for the next pass.
template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::apply_lost(Conn& c, std::uint8_t path, const SackVector& lost) {
  for (unsigned k = 0; k < 4; ++k) {
    for (std::uint64_t v = lost.words()[k]; v != 0; v &= v - 1) {
      if (!resolve(c, path, k * 64 + static_cast<unsigned>(std::countr_zero(v)), Lost::kGap))
        return false;
    }
  }
  return true;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::on_stream_ack(Conn& c, const StreamAck& a) {
  if (a.number >= c.stream_slots.size() || c.stream_slots[a.number] == kNil) return;
  SendStream& s = streams_[c.stream_slots[a.number]];
  if (!s.on_stream_ack(a.cum_spn, a.rqn_limit)) return counters_.drops.add(DropReason::kAckUnsent);
  if (s.nack.active && s.is_acked(s.nack.spn)) end_nack(c, s);
  finish_work(s);
  if (s.has_unsent()) list_stream(s);
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::on_nack(Conn& c, std::uint8_t path, const NackInfo& n) {
  Path& p = c.paths[path];
  const std::int32_t i = n.pseq - p.seq.floor;
  // It is matched to the transmission that it answers; otherwise it says nothing we can use.
  // [MR-2.4.4] [MR-6.6.7] [MR-10.1.4]
  if (i < 0 || static_cast<std::uint32_t>(i) >= p.seq.span() ||
      !p.seq.unresolved.test(static_cast<unsigned>(i))) {
    return counters_.drops.add(DropReason::kNackUnknown);
  }
  const TxRecord r = blocks_[p.block][n.pseq.v & 255];
  SendStream* s = r.data ? find_stream(r.stream) : nullptr;
  const bool final = wire::is_final(n.reason);
  if (s == nullptr || (final ? n.spn > r.spn || n.spn < s->cum() : n.spn != r.spn)) {
    return counters_.drops.add(DropReason::kNackUnknown);
  }
  heard(c, path);
  if (final) {
    s->fail(n.spn, final_status(n.reason));  // [MR-6.6.4]
    resolve(c, path, static_cast<unsigned>(i), Lost::kRejected);
    end_nack(c, *s);
    finish_work(*s);
  } else if (s->is_acked(r.spn)) {  // it arrived by another transmission: nothing to wait for
    resolve(c, path, static_cast<unsigned>(i), Lost::kRejected);
  } else {
    StandingNack& k = s->nack;
    if (!k.active) {
      k.since = now_;
      k.rounds = 0;
    }
    if (!k.active || n.spn <= k.spn) {
      if (k.active && n.spn == k.spn) ++k.rounds;
      k.active = true;
      k.in_flight = false;
      k.spn = n.spn;
      k.reason = n.reason;
      k.resume_at = now_ + std::max<Nanos>(n.wait_us, 1) * kMicrosecond;
    }
    resolve(c, path, static_cast<unsigned>(i), Lost::kRejected);
    // [MR-6.3.9] [MR-4.3.1]
    const bool rnr_over = n.reason == wire::NackReason::kRnr && config_.rnr_retry != 7 &&
                          k.rounds > config_.rnr_retry;
    const bool never_ready =
        n.reason == wire::NackReason::kNotReady && now_ - k.since > config_.dead_peer_timeout;
    if (rnr_over || never_ready) {
      s->fail(n.spn, rnr_over ? WorkStatus::kRnrRetryExceeded : WorkStatus::kRetryExceeded);
      end_nack(c, *s);
      finish_work(*s);
    } else if (!s->blocked) {
      s->blocked = true;
      blocked_.push_back(slot_of(*s));
    }
  }
  settle(c, path);
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::on_probe_reply(Conn& c, std::uint8_t path, const ProbeReplyInfo& r) {
  PlaneHealth& plane = c.planes[c.plane_slots[path]];
  if (plane.nonce != 0 && r.nonce == plane.nonce) {
    heard(c, path);
    return plane_returns(c, c.plane_slots[path]);
  }
  const std::uint64_t asked = c.paths[path].health.nonce;
  if (asked != 0 && r.nonce == asked) return on_path_reply(c, path, r);
  // [MR-3.8.5]
  if (c.probe_nonce == 0 || r.nonce != c.probe_nonce)
    return counters_.drops.add(DropReason::kProbeUnknown);
  c.probe_nonce = 0;
  c.probe_sent = 0;
  heard(c, path);
  settle(c, path);  // a silent path is open again
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::take_timers() {
  TimerFired t;
  for (unsigned n = 0; n < 64 && q_.timer_to_tx.pop(t); ++n) {
    const std::uint32_t index = owners_[t.id >> path_shift_];
    const auto path = static_cast<std::uint8_t>(t.id & ((1U << path_shift_) - 1));
    if (index == kNil || path >= conns_[index].paths.size()) continue;  // it rests
    Conn& c = conns_[index];
    c.paths[path].armed_at = kNever;
    if (!c.failed) on_timer(c, path);
  }
  for (std::size_t i = unarmed_.size(); i-- > 0;) {  // the ring to the timer role was full
    const std::uint32_t id = unarmed_[i];
    unarmed_[i] = unarmed_.back();
    unarmed_.pop_back();
    Conn& c = conns_[owners_[id >> path_shift_]];
    const auto path = static_cast<std::uint8_t>(id & ((1U << path_shift_) - 1));
    c.paths[path].armed_at = kNever;
    arm(c, path);
    if (q_.tx_to_timer.room() == 0) break;
  }
}

// The one deadline of a path: what it is for follows from the state of its plane and its own.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::on_timer(Conn& c, std::uint8_t path) {
  Path& p = c.paths[path];
  PlaneHealth& plane = c.planes[c.plane_slots[path]];
  if (!plane.up()) {
    if (path != c.plane_slots[path]) return;
    if (now_ >= plane.next) return ask_plane(c, path);
    return arm(c, path);
  }
  if (p.health.asks()) {
    if (now_ >= p.health.next) return ask_path(c, path);
    return arm(c, path);
  }
  if (p.data_unresolved == 0 && p.health.carries()) return;
  if (p.gap_since != kNever && now_ - p.gap_since >= p.rtt.srtt() / 4) on_ripe_gap(c, path);
  if (now_ >= deadline(c, path)) on_timeout(c, path);
  settle(c, path);
}

// srtt / 4 after a gap was seen, any later acknowledged number is proof enough. [MR-7.3.1]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::on_ripe_gap(Conn& c, std::uint8_t path) {
  Path& p = c.paths[path];
  p.gap_since = kNever;
  const std::int32_t top = p.highest_acked - p.seq.floor;
  if (top <= 0 || top >= 256) return;
  SackVector known;
  known.set(static_cast<unsigned>(top));
  apply_lost(c, path, lost_vector(p.seq, known, 1, true));
  c.flush_credit = 1000;
}

// The oldest data transmission is resolved as lost and goes to another path; a FLUSH goes out here,
// again at each timeout while the path is silent. A second silence moves everything that is left,
// and asks twice; the first one does when the path was never heard at all, while others are. A
// silent plane leaves as a whole. [MR-7.4.5] [MR-7.4.6] [MR-7.4.8] [MR-9.4.1]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::on_timeout(Conn& c, std::uint8_t path) {
  Path& p = c.paths[path];
  ++counters_.timeouts;
  ++c.rest[path].timeouts;
  if (plane_is_silent(c, path)) return lose_plane(c, c.plane_slots[path]);
  // One step per silence that was waited for, not one for each path that waited. [MR-7.5.2]
  // [MR-7.5.6]
  if (now_ - c.last_ack > p.rtt.srtt() && now_ >= c.backoff_until && c.backoff < 16) {
    ++c.backoff;
    c.backoff_until = now_ + std::min(probe_timeout(c, p) << c.backoff, config_.probe_timeout_max);
  }
  if (p.health.carries()) p.window_before = p.cc.window;
  // [MR-7.4.7]
  if (p.health.silent(now_, c.last_ack)) return fail_path(c, path);
  p.last_progress = now_;
  c.flush_credit = 1000;
  // [MR-7.4.9]
  bool all = true;
  if (p.health.silences >= 2 || (peer_answers(c) && !p.rtt.valid())) {
    all = requeue_all(c, path, Lost::kTimeout);
  } else {
    for (unsigned i = 0; i < p.seq.span(); ++i) {
      if (!p.seq.unresolved.test(i) || !blocks_[p.block][(p.seq.floor.v + i) & 255].data) continue;
      all = resolve(c, path, i, Lost::kTimeout);
      break;
    }
  }
  // Also what brings a silent path back: its answer is heard. When what could not be resolved for
  // want of nodes keeps the numbers from moving on, the rest of them is for data. Only then: the
  // answer to a PROBE shows none of the losses.
  const bool crowded = !all && p.seq.span() >= PathWindow::kLimit / 2;
  // Many paths may time out in one pass, more than the port takes: a question that is not asked
  // counts as unanswered all the same. [MR-7.6.6]
  if (!crowded && !send_flush(c, path)) {
    p.owes_question = c.owes_questions = true;
    list_conn(c);
  }
  if (!crowded && p.health.silences < 2) return;
  p.health.nonce = fresh_nonce(c);
  if (!send_probe(c, path, 0xffff, p.health.nonce)) p.health.nonce = 0;
}

}  // namespace metaroce
