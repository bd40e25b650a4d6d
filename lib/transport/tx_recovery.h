// TX role: resolving transmissions, queueing resends, standing NACKs, timers of paths. [MR-7]
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

// Removes one unresolved transmission (bit relative to the floor) that was not acknowledged.
// [MR-2.4.2] [MR-7.3.5] [MR-8.3.9]
// False: no node to remember it by; it stays unresolved.
template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::resolve(Conn& c, std::uint8_t path, unsigned bit, Lost how) {
  Path& p = c.paths[path];
  if (!p.seq.unresolved.test(bit)) return true;
  const TxRecord r = blocks_[p.block][(p.seq.floor.v + bit) & 255];
  SendStream* s = r.data ? find_stream(r.stream) : nullptr;
  const bool wanted = s != nullptr && !c.failed && !s->beyond_failure(r.spn) && !s->is_acked(r.spn);
  // [MR-6.5.4] [MR-6.5.6]
  if (wanted && how == Lost::kGap && s->nack.active && r.spn >= s->nack.spn) how = Lost::kRejected;
  if (wanted && !queue_resend(c, *s, path, r, how)) {
    ++counters_.no_node;
    return false;
  }
  p.seq.resolve(bit);
  p.inflight -= r.bytes;
  c.inflight -= r.bytes;
  if (!r.data) return true;
  --p.data_unresolved;
  --c.planes[c.plane_slots[path]].unresolved;
  --c.unresolved;
  if (how == Lost::kRejected) {
    ++counters_.rejected_packets;
    return true;
  }
  ++c.rest[path].counters.lost;
  ++c.lost;
  ++counters_.lost_packets;
  if (how == Lost::kMoved) return true;
  c.loss_mean.lost();
  if (!c.cc.hinted) p.leaving |= p.losses.lost(c.loss_mean);  // [MR-9.4.7]
  Cc::on_loss(c.cc, p.cc, r.bytes);                           // [MR-8.3.7]
  return true;
}

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::requeue_all(Conn& c, std::uint8_t path, Lost how) {
  Path& p = c.paths[path];
  for (unsigned i = 0; i < p.seq.span(); ++i) {
    if (p.seq.unresolved.test(i) && !resolve(c, path, i, how)) return false;
  }
  return true;
}

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::queue_resend(Conn& c, SendStream& s, std::uint8_t path, const TxRecord& r,
                                     Lost how) {
  const std::uint32_t losses = r.losses + (how == Lost::kGap ? 1U : 0U);
  if (losses >= config_.retry_limit) {  // [MR-7.5.1]
    s.fail(r.spn, WorkStatus::kRetryExceeded);
    end_nack(c, s);  // what waits behind a NACK is nobody's any more
    finish_work(s);
    return true;
  }
  const std::uint32_t n = nodes_.take();
  if (n == kNil) return false;
  nodes_[n] = ResendNode{kNil,  r.stream,
                         r.spn, static_cast<std::uint8_t>(losses),
                         path,  how == Lost::kTimeout || how == Lost::kMoved};
  if (s.nack.active && r.spn == s.nack.spn) s.nack.in_flight = false;
  ++c.waiting;
  if (how == Lost::kRejected) {
    append(s.rejected_head, s.rejected_tail, n);
    if (!s.nack.active) end_nack(c, s);
  } else {
    append(c.resend_head, c.resend_tail, n);
    list_conn(c);
  }
  return true;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::append(std::uint32_t& head, std::uint32_t& tail, std::uint32_t node) {
  nodes_[node].next = kNil;
  if (head == kNil)
    head = node;
  else
    nodes_[tail].next = node;
  tail = node;
}

// The named packet arrived, or the stream failed: what was rejected goes out again (or is
// dropped by send_resend).
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::end_nack(Conn& c, SendStream& s) {
  s.nack.active = s.nack.in_flight = false;
  if (s.rejected_head != kNil) {
    if (c.resend_head == kNil)
      c.resend_head = s.rejected_head;
    else
      nodes_[c.resend_tail].next = s.rejected_head;
    c.resend_tail = s.rejected_tail;
    s.rejected_head = s.rejected_tail = kNil;
  }
  list_stream(s);
}

// Streams that wait: for the end of a NACK's wait (then only the named packet is resent) or for
// receive credits (then the peer is asked, with back-off). [MR-6.3.7]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::wake_blocked() {
  if (blocked_.empty() || now_ < blocked_check_) return;
  blocked_check_ = now_ + 10 * kMicrosecond;
  std::erase_if(blocked_, [&](std::uint32_t slot) {
    SendStream& s = streams_[slot];
    Conn& c = conns_[s.params.conn.v];
    if (s.nack.active) {
      if (s.nack.in_flight || now_ < s.nack.resume_at) return false;
      std::uint32_t prev = kNil;
      for (std::uint32_t n = s.rejected_head; n != kNil; prev = n, n = nodes_[n].next) {
        if (nodes_[n].spn != s.nack.spn) continue;
        (prev == kNil ? s.rejected_head : nodes_[prev].next) = nodes_[n].next;
        if (s.rejected_tail == n) s.rejected_tail = prev;
        s.nack.in_flight = true;
        append(c.resend_head, c.resend_tail, n);
        list_conn(c);
        break;
      }
      return false;
    }
    if (!s.failing && s.has_unsent() && !s.credit_for(work_[s.current()])) {
      if (now_ >= s.probe_at && wake(c)) {
        const Nanos pto = c.paths[0].rtt.probe_timeout(
            config_.probe_timeout_floor, config_.max_ack_delay, c.params.handshake_rtt);
        s.probe_wait =
            s.probe_wait == 0 ? pto : std::min(2 * s.probe_wait, config_.probe_timeout_max);
        s.probe_at = now_ + s.probe_wait;
        if (c.probe_nonce == 0)
          c.probe_nonce = mix64(c.params.entropy_seed ^ static_cast<std::uint64_t>(now_)) | 1;
        // Each time on the next path: one of them may be dead. [MR-9.2.5]
        c.current_path = next_question_path(c);
        send_probe(c, c.current_path, s.params.peer_number, c.probe_nonce);
      }
      return false;
    }
    s.blocked = false;
    s.probe_wait = 0;
    list_stream(s);
    return true;
  });
}

// After anything changed on a path: floor, block, scheduler's view, port change, timer.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::settle(Conn& c, std::uint8_t path) {
  Path& p = c.paths[path];
  // No timer runs for FLUSHes alone, and a lost one would hold the path's block until there is data
  // again: once the data is resolved they have done their work and are abandoned. A silent path's
  // FLUSH is its question, which stays. [MR-3.5.2] [MR-7.4.4]
  const bool silent = p.health.state == PathState::kSuspect && c.planes[c.plane_slots[path]].up();
  if (p.data_unresolved == 0 && !silent) {
    p.seq.unresolved.clear();
    p.seq.floor = p.seq.next;
  }
  p.seq.settle();
  if (p.block != kNil && p.seq.span() == 0) {
    blocks_.give(p.block);
    p.block = kNil;
  }
  if (p.leaving && p.health.carries() && !p.draining) leave_route(c, path);
  if (p.draining && p.data_unresolved == 0) return try_port_change(c, path);
  update_open(c, path);
  // [MR-7.4.3] [MR-7.4.4]
  if (p.data_unresolved != 0 || !p.health.carries()) arm(c, path);
  if (c.resend_head != kNil || c.stream_head != kNil) list_conn(c);
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::update_open(Conn& c, std::uint8_t path) {
  const Path& p = c.paths[path];
  // [MR-8.1.1] [MR-2.3.5] [MR-9.2.4]
  c.set_open(path, !p.draining && p.health.carries() && p.inflight < p.cc.window &&
                       p.seq.span() < PathWindow::kDataLimit);
}

template <typename Q, typename Io, typename Cc>
Nanos TxRole<Q, Io, Cc>::deadline(const Conn& c, std::uint8_t path) const {
  const Path& p = c.paths[path];
  const unsigned slot = c.plane_slots[path];
  if (!c.planes[slot].up()) return path == slot ? c.planes[slot].next : kNever;
  if (p.health.asks()) return p.health.next;
  const Nanos pto = probe_timeout(c, p);
  // [MR-7.4.6] [MR-7.5.2]
  const unsigned own = peer_answers(c) ? 0 : p.health.silences;
  const unsigned shift = std::min<unsigned>(std::max<unsigned>(own, c.backoff), 16);
  return p.last_progress + std::min(pto << shift, std::max(pto, config_.probe_timeout_max));
}

// The timer role holds at most one deadline per path; it is moved only to come earlier. A timer
// that fires too early is armed again: one event per timeout, none per packet.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::arm(Conn& c, std::uint8_t path) {
  Path& p = c.paths[path];
  Nanos at = deadline(c, path);
  if (p.gap_since != kNever && p.data_unresolved != 0)
    at = std::min(at, p.gap_since + p.rtt.srtt() / 4);
  if (p.armed_at <= at) return;
  const std::uint32_t id = c.timers | path;
  if (q_.tx_to_timer.push(TimerArm{id, at})) {
    p.armed_at = at;
    return;
  }
  if (p.armed_at == kNever) {
    p.armed_at = at;  // armed here, in the list, until the ring has room
    unarmed_.push_back(id);
  }
}

}  // namespace metaroce
