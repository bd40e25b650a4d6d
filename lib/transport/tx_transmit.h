// TX role: which packet goes next, on which path. [MR-9.2]
//
// Scheduler: connections round-robin; within one, resends first, then streams round-robin in
// runs of 16 packets; paths in rotation, in runs of up to 4 packets, over the bit set of paths
// with room. Path p runs on plane p modulo planes, so the rotation loads planes equally; a path
// with a small window has room less often, which is the weighting. O(1): a bit scan.
// [MR-9.2.1] [MR-9.2.2] [MR-9.2.3] [MR-9.2.4]
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

template <typename Q, typename Io, typename Cc>
std::uint32_t TxRole<Q, Io, Cc>::poll(Nanos now, std::uint32_t budget) {
  now_ = now;
  take_commands();
  take_feedback();
  take_timers();
  take_submissions();
  wake_blocked();
  const std::uint32_t sent = transmit(budget);
  retire();
  keep_alive();
  cqs_.flush();
  return sent;
}

template <typename Q, typename Io, typename Cc>
std::uint32_t TxRole<Q, Io, Cc>::transmit(std::uint32_t budget) {
  std::uint32_t sent = 0;
  wake_ = kNever;
  const std::uint32_t last = conn_tail_;  // what is listed again meanwhile waits for the next pass
  bool more = conn_head_ != kNil;
  // With full ports a thousand connections would be asked in vain. A few each pass, which go to the
  // end of the list: others may have other ports.
  constexpr std::uint32_t kAskedInVain = 8;
  std::uint32_t in_vain = 0;
  while (more && sent < budget && in_vain < kAskedInVain) {
    Conn& c = conns_[conn_head_];
    more = conn_head_ != last;
    conn_head_ = c.next_in_list;
    if (conn_head_ == kNil) conn_tail_ = kNil;
    c.listed = false;
    if (!any_port(c)) {
      ++in_vain;
      list_conn(c);
      continue;
    }
    sent += send_from(c, std::min(budget - sent, 32U));
  }
  if (more && in_vain < kAskedInVain) wake_ = now_;  // the budget ended first
  return sent;
}

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::any_port(const Conn& c) {
  for (unsigned i = 0; i < c.params.n_planes; ++i)
    if (io_.ready(c.params.index, i)) return true;
  return false;
}

// Sends up to `budget` packets; lists the connection again when it may have more to send.
template <typename Q, typename Io, typename Cc>
std::uint32_t TxRole<Q, Io, Cc>::send_from(Conn& c, std::uint32_t budget) {
  if (c.rests() && c.resend_head == kNil && c.stream_head == kNil && !unproven(c)) return 0;
  if (!wake(c)) {
    list_conn(c);
    return 0;
  }
  // What has not left since it drained gives way to data, which is a successor as well; later.
  if (c.drained && !worth_questions(c) && (c.resend_head != kNil || c.stream_head != kNil))
    c.flush_paths = {};
  c.drained = false;
  if (c.owes_questions) c.owes_questions = !send_owed_questions(c);
  std::uint32_t sent = 0;
  Sent last = Sent::kYes;
  while (sent < budget && last == Sent::kYes) {
    if (c.flushes_owed()) pay_flushes(c);  // [MR-8.1.3]
    if (!may_send(c)) {
      last = Sent::kNoRoom;
      break;
    }
    // Resends first. [MR-7.3.7]
    last = c.resend_head != kNil ? send_resend(c) : send_new(c);
    if (last == Sent::kYes) ++sent;
  }
  if (last == Sent::kYes) wake_ = now_;
  if (last == Sent::kNothing) {
    // [MR-7.6.1] [MR-7.6.5] After a loss at every drain; else when the drain ends enough data for
    // one packet per path not to matter.
    c.drained = c.flush_credit != 0 || much_since_flush(c);
    if (c.drained) owe_flushes(c, true);
    if (!pay_flushes(c) || c.owes_questions)
      list_conn(c);
    else if (c.drained)
      c.sent_since_flush = 0;
  } else {
    list_conn(c);  // more to send, or room to wait for: looked at again next pass
  }
  return sent;
}

template <typename Q, typename Io, typename Cc>
typename TxRole<Q, Io, Cc>::Sent TxRole<Q, Io, Cc>::send_resend(Conn& c) {
  while (c.resend_head != kNil) {
    const std::uint32_t n = c.resend_head;
    const ResendNode node = nodes_[n];
    SendStream* s = find_stream(node.stream);
    const auto unlink = [&] {
      c.resend_head = node.next;
      if (c.resend_head == kNil) c.resend_tail = kNil;
    };
    // Arrived after all, or nobody wants it any more. [MR-2.4.3]
    if (s == nullptr || s->beyond_failure(node.spn) || s->is_acked(node.spn)) {
      unlink();
      nodes_.give(n);
      --c.waiting;
      continue;
    }
    if (s->nack.active && node.spn >= s->nack.spn &&
        !(node.spn == s->nack.spn && s->nack.in_flight)) {
      unlink();
      append(s->rejected_head, s->rejected_tail, n);
      continue;
    }
    const std::uint32_t work = s->find(node.spn, work_);
    const int path = pick_resend_path(c, node);
    if (path < 0) return Sent::kNoRoom;
    if (!send_data(c, static_cast<std::uint8_t>(path), *s, work, node.spn, node.losses, true))
      return Sent::kNoRoom;
    unlink();
    nodes_.give(n);
    --c.waiting;
    // [MR-7.6.7] It is older than all else that is in flight: its loss is what will be waited for.
    if (worth_questions(c) && !node.timed_out) owe_flush(c, static_cast<std::uint8_t>(path));
    return Sent::kYes;
  }
  return send_new(c);
}

template <typename Q, typename Io, typename Cc>
typename TxRole<Q, Io, Cc>::Sent TxRole<Q, Io, Cc>::send_new(Conn& c) {
  constexpr std::uint8_t kStreamRun = 16;
  while (c.stream_head != kNil) {
    // [MR-8.2.5]
    if (c.starting && c.start_room <= 0) return Sent::kNoRoom;
    const std::uint32_t slot = c.stream_head;
    SendStream& s = streams_[slot];
    const auto unlink = [&] {
      c.stream_head = s.next_in_list;
      if (c.stream_head == kNil) c.stream_tail = kNil;
      s.listed = false;
      c.stream_run = 0;
    };
    // [MR-2.2.6]
    const bool can =
        s.has_unsent() && !s.beyond_failure(s.next_spn()) && !s.nack.active && s.window_open();
    if (!can) {
      unlink();
      continue;
    }
    const std::uint32_t work = s.current();
    // [MR-6.3.3]
    if (!s.credit_for(work_[work])) {
      unlink();
      if (!s.blocked) {
        s.blocked = true;
        s.probe_at = now_ + config_.probe_timeout_floor;
        blocked_.push_back(slot);
      }
      continue;
    }
    const int path = pick_path(c);
    if (path < 0) return Sent::kNoRoom;
    const StreamSeq spn = s.next_spn();
    if (!send_data(c, static_cast<std::uint8_t>(path), s, work, spn, 0, false)) {
      if (s.beyond_failure(spn)) continue;  // its memory is gone: the stream has failed
      return Sent::kNoRoom;
    }
    // [MR-7.6.8] As at a drain: who waits for this message does not wait for what comes after it.
    // Short ones would have a question for each of their packets.
    const WorkState& w = work_[work];
    if (spn + 1 == w.end() && worth_questions(c) && much_since_flush(c) &&
        static_cast<std::uint32_t>(w.end() - w.first) >= 4 * c.active_paths) {
      owe_flushes(c, false);
      c.sent_since_flush = 0;
    }
    if (++c.stream_run >= kStreamRun && s.next_in_list != kNil) {
      unlink();
      list_stream(s);
    }
    return Sent::kYes;
  }
  return Sent::kNothing;
}

// Next path in rotation with room in its window, its sequence and its port; -1 when none.
template <typename Q, typename Io, typename Cc>
int TxRole<Q, Io, Cc>::pick_path(Conn& c) {
  const std::uint32_t index = c.params.index.v;
  if (c.run_left != 0 && c.current_path < c.active_paths && c.path_open(c.current_path) &&
      io_.ready(ConnIndex{index}, c.plane_slots[c.current_path])) {
    --c.run_left;
    return c.current_path;
  }
  const unsigned n = c.active_paths;  // [MR-9.1.6]
  const unsigned first = c.current_path + 1U >= n ? 0 : c.current_path + 1U;
  const auto all_planes = static_cast<std::uint32_t>((1U << c.params.n_planes) - 1);
  std::uint32_t full = 0;  // planes whose port takes nothing now
  bool skipped = false;
  for (unsigned k = 0, at = first, end = n; k < 2; ++k, at = 0, end = first) {
    for (at = c.next_open(at, end); at < end; at = c.next_open(at + 1, end)) {
      const auto p = static_cast<std::uint8_t>(at);
      if (c.skips(p)) {
        c.set_skip(p, false);
        skipped = true;
        continue;
      }
      const std::uint32_t plane = 1U << c.plane_slots[p];
      if ((full & plane) != 0) continue;
      if (!io_.ready(ConnIndex{index}, c.plane_slots[p])) {
        full |= plane;
        if (full == all_planes && !c.any_skips()) return -1;
        continue;
      }
      const Path& path = c.paths[p];
      c.current_path = p;
      const Bytes room = path.cc.window - path.inflight;
      c.run_left = room >= 8 * c.cc.packet ? 3 : room >= 4 * c.cc.packet ? 1 : 0;
      return p;
    }
  }
  // Every open path sat out this rotation: nobody would ask again before the next event.
  if (skipped) return pick_path(c);
  return -1;
}

// On the path that lost it; on another one when that is silent, full, or lost it twice. [MR-7.3.6]
template <typename Q, typename Io, typename Cc>
int TxRole<Q, Io, Cc>::pick_resend_path(Conn& c, const ResendNode& n) {
  const bool same = !n.timed_out && n.losses < 2 && n.path < c.active_paths &&
                    c.path_open(n.path) && io_.ready(c.params.index, c.plane_slots[n.path]);
  if (same) return n.path;
  int other = pick_path(c);
  if (other == n.path) {  // the rotation came by: one further, if there is one
    c.run_left = 0;
    other = pick_path(c);
  }
  if (other >= 0) return other;
  // No node is free, so no loss can be resolved, and windows stay full of lost packets: only
  // sending what holds the nodes leads out.
  if (nodes_.used() == nodes_.size()) [[unlikely]] {
    for (unsigned i = 0; i < c.active_paths; ++i) {
      const Path& p = c.paths[i];
      if (p.health.carries() && p.seq.span() < PathWindow::kDataLimit &&  // a draining one, too
          io_.ready(c.params.index, c.plane_slots[i]))
        return static_cast<int>(i);
    }
  }
  if (n.timed_out && c.inflight < c.cc.window && peer_answers(c)) {
    const int proven = next_proven_path(c);
    if (proven >= 0) return proven;
  }
  // All windows closed: a resend may still use its own path when nothing is in flight there; when
  // every path is silent, that is the only way to learn that one lives again.
  Path& p = c.paths[n.path];
  if (!peer_answers(c) && !p.draining && !p.health.asks() && c.planes[c.plane_slots[n.path]].up() &&
      p.data_unresolved == 0 && p.seq.span() < PathWindow::kDataLimit &&
      io_.ready(c.params.index, c.plane_slots[n.path])) {
    return n.path;
  }
  return -1;
}

// What a silent path held has left the connection's window: it may go where answers come from,
// although each of those paths has a full window of its own. -1: none. [MR-7.3.9]
template <typename Q, typename Io, typename Cc>
int TxRole<Q, Io, Cc>::next_proven_path(Conn& c) {
  unsigned at = c.current_path;
  for (unsigned tries = 0; tries < c.active_paths; ++tries) {
    at = at + 1 >= c.active_paths ? 0 : at + 1;
    const Path& p = c.paths[at];
    if (!p.health.carries() || p.draining || !p.rtt.valid() ||
        p.seq.span() >= PathWindow::kDataLimit || !io_.ready(c.params.index, c.plane_slots[at]))
      continue;
    c.current_path = static_cast<std::uint8_t>(at);
    c.run_left = 0;
    return static_cast<int>(at);
  }
  return -1;
}

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::send_data(Conn& c, std::uint8_t path, SendStream& s, std::uint32_t work,
                                  StreamSeq spn, std::uint8_t losses, bool resend) {
  // Before anything is taken for this packet: it may send probes of its own.
  if (c.unresolved + c.waiting == 0) {
    start_after_idle(c);
    if (c.starting) announce(c);
  }
  Path& p = c.paths[path];
  const WorkState& w = work_[work];
  const std::uint32_t mtu = c.params.payload_mtu;
  // [MR-2.2.4] [MR-3.4.9] The number alone says which bytes.
  const std::uint32_t offset = static_cast<std::uint32_t>(spn - w.first) * mtu;
  const std::uint32_t bytes = std::min(mtu, w.length - offset);
  std::uint8_t* payload = nullptr;
  if (bytes != 0 && memory_.translate(w.lkey, s.params.pd, 0, w.local + offset, bytes, payload) !=
                        AccessError::kNone) {
    s.fail(spn, WorkStatus::kLocalProtection);  // deregistered while posted
    end_nack(c, s);
    finish_work(s);
    return false;
  }
  if (p.block == kNil) {
    p.block = blocks_.take();
    if (p.block == kNil) {
      ++counters_.no_block;
      return false;
    }
  }
  std::uint8_t* out = io_.begin(c.params.index, c.plane_slots[path]);
  if (out == nullptr) {
    ++counters_.no_buffer;
    settle_block(p);
    return false;
  }
  if (p.data_unresolved == 0) p.last_progress = now_;
  PlaneHealth& plane = c.planes[c.plane_slots[path]];
  if (plane.unresolved++ == 0) plane.busy_since = now_;
  // [MR-2.1.1] [MR-2.1.2] [MR-2.1.5] A resend takes a number like any other.
  const PathSeq pseq = p.seq.take();
  const std::uint32_t header = write_header(out, c, path, s, w, spn, offset, bytes, resend, pseq);
  finish_packet(c, path, out, header, payload, bytes, work);

  blocks_[p.block][pseq.v & 255] = TxRecord{
      s.params.handle, spn, to_wire_time(now_).v, static_cast<std::uint16_t>(bytes + header),
      losses,          true};
  p.inflight += bytes + header;
  c.inflight += bytes + header;
  ++c.sent_since_flush;
  ++p.data_unresolved;
  ++c.unresolved;
  p.dirty = true;
  if (p.inflight >= p.cc.window) p.cc.used_fully = true;
  charge(c, bytes + header, resend);
  c.last_sent = now_;
  if (c.flush_credit != 0) --c.flush_credit;
  TxPathCounters& counters = c.rest[path].counters;
  ++counters.packets;
  counters.bytes += bytes;
  ++c.packets;
  ++counters_.data_packets;
  counters_.data_bytes += bytes;
  if (resend) {
    ++counters.resent;
    ++c.resent;
    ++counters_.resent_packets;
    counters_.resent_bytes += bytes;
  } else {
    s.sent_one(w, bytes);
    c.backlog -= bytes;
  }
  update_open(c, path);
  arm(c, path);
  return true;
}

}  // namespace metaroce
