// RX role: DATA and FLUSH. Path checks, stream window, placement, completion. [MR-4] [MR-6]
//
// Nothing is recorded as received before the packet is placed, held or known as a duplicate:
// acknowledged means "in final memory, or held". [MR-2.5.5] [MR-2.2.5] [MR-4.6.1]
#pragma once

#include <atomic>

#include "transport/rx_role.h"

namespace metaroce {

template <typename Q, typename Io>
void RxRole<Q, Io>::on_flush(RxConn& conn, const RxPacket& p) {
  const auto& f = *reinterpret_cast<const wire::Flush*>(p.data);
  RxPath& path = conn.paths[f.c.path];
  const PathSeq pseq{f.c.pseq};
  const RxPath::Epoch e = path.classify(f.c.epoch);
  if (e == RxPath::Epoch::kBad || e == RxPath::Epoch::kOld)
    return drop(conn, DropReason::kPathEpoch);
  if (!path.plausible(pseq)) return drop(conn, DropReason::kPathSeq);
  hints_of(conn, f.c.path).data(conn.params.index.v, frame_bytes(p), f.demand, f.c.path);
  if (e == RxPath::Epoch::kNext) path.begin_epoch(rings_, f.c.epoch, pseq, f.floor_delta);
  const RxPath::Rings rings = rings_of(conn, f.c.path);
  path.raise_floor(rings, pseq, f.floor_delta);
  record(path, rings, pseq, WireTime{f.c.timestamp}, p.ce);
  // In a crowd that arrives at once the hint of this instant would be "none". [MR-8.4.22]
  if (hints_of(conn, f.c.path).answers_later(conn.params.index.v))
    return RxConn::mark(conn.ack_paths, f.c.path);
  ack_alone(conn, f.c.path);
}

template <typename Q, typename Io>
void RxRole<Q, Io>::on_data(RxConn& conn, const RxPacket& p, const wire::Checked& k) {
  const auto& d = *reinterpret_cast<const wire::Data*>(p.data);
  const std::uint8_t path_id = d.c.path;
  RxPath& path = conn.paths[path_id];
  const PathSeq pseq{d.c.pseq};
  const StreamSeq spn{d.spn};
  ++counters_.data_packets;
  // [MR-3.4.7]
  if (k.payload_bytes > conn.params.payload_mtu) return drop(conn, DropReason::kOversize);

  const RxPath::Epoch e = path.classify(d.c.epoch);
  if (e == RxPath::Epoch::kBad) return drop(conn, DropReason::kPathEpoch);
  if (!path.plausible(pseq)) return drop(conn, DropReason::kPathSeq);
  hints_of(conn, path_id).data(conn.params.index.v, frame_bytes(p), d.demand, path_id);
  // [MR-4.2.2]: the plausibility of pseq went before.
  if (e == RxPath::Epoch::kNext) path.begin_epoch(rings_, d.c.epoch, pseq, d.floor_delta);
  const bool current =
      e != RxPath::Epoch::kOld;  // old-epoch data is placed, not acknowledged [MR-9.3.4]
  const RxPath::Rings rings = rings_of(conn, path_id);
  if (current) path.raise_floor(rings, pseq, d.floor_delta);

  const std::uint16_t number = d.stream;
  const std::uint32_t slot = conn.slot_of(number);
  RecvStream* s = slot == RxConn::kNoSlot ? nullptr : &streams_[slot];
  Outcome o;
  bool fresh = false;
  if (s == nullptr) {
    // [MR-4.3.1]
    o = retry_later(DropReason::kNoStream, wire::NackReason::kNotReady, 200);
  } else {
    switch (s->classify(spn)) {
      case RecvStream::Window::kDuplicate:  // before the key: it may be invalid by now [MR-4.4.1]
        drop(DropReason::kDuplicate);
        ++conn.counters.duplicates;
        break;
      case RecvStream::Window::kBeyond:
        o = retry_later(DropReason::kStreamWindow, wire::NackReason::kStreamWindow, 50);
        break;
      case RecvStream::Window::kNew:
        // [MR-6.6.1] [MR-4.3.3]
        if (s->refuses(spn)) {
          o = Outcome{DropReason::kStreamClosed, s->fail_reason(), true, 0};
        } else if (!s->can_mark(spn)) {
          ++counters_.no_window;
          o = retry_later(DropReason::kNoResource, wire::NackReason::kNoResource, 50);
        } else {
          o = place(conn, *s, p, k);
        }
        fresh = o.drop == DropReason::kNone;
    }
  }
  if (o.drop != DropReason::kNone) {  // not acknowledged [MR-6.5.3] [MR-6.6.3]
    drop(conn, o.drop);
    if (current) path.count_reject();
    if (o.answer) send_nack(conn, path_id, s, o, spn, pseq);
    return;
  }
  if (fresh) {
    counters_.data_bytes += k.payload_bytes;
    conn.counters.bytes += k.payload_bytes;
    RxPathCounters& pc = conn.path_counters[path_id];
    ++pc.packets;
    pc.bytes += k.payload_bytes;
    if (spn != s->cum()) {
      ++pc.out_of_order;
      ++conn.counters.out_of_order;
      ++counters_.out_of_order;
    }
    s->mark(spn);
    if (spn == s->cum()) progress_stream(conn, *s);
    owe_stream_block(conn, *s);
  }
  if (!current) return;
  const auto arrival = record(path, rings, pseq, WireTime{d.c.timestamp}, p.ce);
  if ((d.c.flags & wire::kFlagAckReq) != 0) {
    return ack_alone(conn, path_id);
  }
  // Nothing else comes that could share an ACK with it.
  conn.urgent |= d.demand == 0;
  account(conn, path_id, arrival, p.ce);
}

// Quiet paths give their rings back: a few looks each time.
template <typename Q, typename Io>
void RxRole<Q, Io>::sweep_rings() {
  constexpr std::uint32_t kLooks = 64;
  if (now_ < ring_check_) return;
  ring_check_ = now_ + kMillisecond;
  for (std::uint32_t k = 0; k < std::min(kLooks, rings_.touched()); ++k) {
    if (next_ring_ >= rings_.touched()) next_ring_ = 0;
    const std::uint32_t owner = rings_.owner(next_ring_++);
    if (owner == RxRingPool::kFree) continue;
    RxPath& path = conns_[owner / kMaxPaths].paths[owner % kMaxPaths];
    if (now_ - path.newest_at() >= kRingIdle) path.forget(rings_);
  }
}

template <typename Q, typename Io>
void RxRole<Q, Io>::account(RxConn& conn, std::uint8_t path, RxPath::Arrival a, bool ce) {
  RxConn::mark(conn.ack_paths, path);
  ++conn.pending;
  conn.urgent |= a == RxPath::Arrival::kGap || ce != conn.last_ce;
  conn.last_ce = ce;
  owe_ack(conn);
}

// Finds the destination, copies, and remembers what completes. [MR-4.5.3]
template <typename Q, typename Io>
typename RxRole<Q, Io>::Outcome RxRole<Q, Io>::place(RxConn& conn, RecvStream& s, const RxPacket& p,
                                                     const wire::Checked& k) {
  const auto& d = *reinterpret_cast<const wire::Data*>(p.data);
  Target t;
  t.last = (d.op & wire::kOpLast) != 0;
  t.pd = s.params.pd;
  const Outcome o = resolve_target(s, p, k, t);
  if (o.drop != DropReason::kNone) return o;
  const StreamSeq spn{d.spn};
  const std::uint8_t* from = p.data + k.header_bytes;
  const bool ordered = (d.c.flags & wire::kFlagOrd) != 0;
  // [MR-6.4.1] [MR-2.5.7]: the packet at the cumulative number needs no space. [MR-6.2.2]
  if (ordered && spn != s.cum()) {
    const Outcome h = hold(conn, s, spn, from, k.payload_bytes, t);
    if (h.drop != DropReason::kNone) return h;
  } else if (k.payload_bytes != 0) {
    if (ordered)
      store_ordered(t.to, from, k.payload_bytes);
    else
      io_.place(t.to, from, k.payload_bytes);
    counters_.placed_bytes += k.payload_bytes;
  }
  if (t.slot != nullptr) t.slot->arrived += k.payload_bytes;
  if (t.slot != nullptr && t.last) {
    t.slot->has_last = true;
    t.slot->last_spn = spn;
  }
  return {};
}

template <typename Q, typename Io>
typename RxRole<Q, Io>::Outcome RxRole<Q, Io>::resolve_target(RecvStream& s, const RxPacket& p,
                                                              const wire::Checked& k, Target& t) {
  const auto& d = *reinterpret_cast<const wire::Data*>(p.data);
  const StreamSeq spn{d.spn};
  Outcome o;
  switch (d.code()) {
    case wire::Op::kWrite:
      o = resolve_write(s, p, k, t);
      break;
    case wire::Op::kSend:
    case wire::Op::kSendImm:
      o = resolve_send(s, p, k, t);
      break;
    // [MR-3.4.13]
    default:
      return refuse(s, spn, DropReason::kOperation, wire::NackReason::kOperation);
  }
  // [MR-4.5.5]
  if (o.drop != DropReason::kNone || k.payload_bytes == 0) return o;
  switch (memory_.translate(t.rkey, t.pd, t.access, t.va, k.payload_bytes, t.to)) {
    case AccessError::kNone:
      return {};
    case AccessError::kBadKey:
      return refuse(s, spn, DropReason::kBadKey, wire::NackReason::kBadKey);
    case AccessError::kAccess:
      return refuse(s, spn, DropReason::kAccess, wire::NackReason::kAccess);
    case AccessError::kBounds:
      return refuse(s, spn, DropReason::kBounds, wire::NackReason::kBounds);
  }
  return {};
}

template <typename Q, typename Io>
typename RxRole<Q, Io>::Outcome RxRole<Q, Io>::resolve_write(RecvStream& s, const RxPacket& p,
                                                             const wire::Checked& k, Target& t) {
  const auto& w = *reinterpret_cast<const wire::Write*>(p.data);
  const StreamSeq spn{w.d.spn};
  const std::uint32_t total = w.message_length;
  // A zero-length message is one FIRST|LAST packet; every other packet carries payload. [MR-3.4.8]
  // [MR-3.4.10] [MR-3.4.11] [MR-4.5.1]
  const bool single =
      (w.d.op & (wire::kOpFirst | wire::kOpLast)) == (wire::kOpFirst | wire::kOpLast);
  if (total > kMaxMessageBytes || k.payload_bytes > total ||
      (k.payload_bytes == 0) != (total == 0) || (total == 0 && !single) ||
      (single && k.payload_bytes != total)) {
    return refuse(s, spn, DropReason::kLength, wire::NackReason::kLength);
  }
  t.rkey = w.rkey;
  t.va = w.va;
  t.access = kAccessRemoteWrite;
  if ((w.d.op & wire::kOpImm) == 0) return {};
  const auto& wi = *reinterpret_cast<const wire::WriteImm*>(p.data);
  const RecvNumber rqn{wi.rqn};
  if (rqn >= s.credit_limit())
    return retry_later(DropReason::kNoReceive, wire::NackReason::kRnr, 100);
  t.slot = s.slot(rqn);
  if (t.slot == nullptr || t.slot->has_last) {
    return refuse(s, spn, DropReason::kOperation, wire::NackReason::kOperation);
  }
  t.slot->op = WorkOp::kRecvWriteImm;
  t.slot->message_length = total;
  t.slot->imm = wi.imm;
  t.slot->has_imm = true;
  s.note_consumed(rqn);
  return {};
}

template <typename Q, typename Io>
typename RxRole<Q, Io>::Outcome RxRole<Q, Io>::resolve_send(RecvStream& s, const RxPacket& p,
                                                            const wire::Checked& k, Target& t) {
  const auto& m = *reinterpret_cast<const wire::Send*>(p.data);
  const StreamSeq spn{m.d.spn};
  const RecvNumber rqn{m.rqn};
  if (rqn >= s.credit_limit())
    return retry_later(DropReason::kNoReceive, wire::NackReason::kRnr, 100);
  RecvSlot* slot = s.slot(rqn);
  const std::uint32_t total = m.message_length, offset = m.offset;
  if (slot == nullptr) return refuse(s, spn, DropReason::kOperation, wire::NackReason::kOperation);
  const bool ends = offset <= total && k.payload_bytes == total - offset;
  // [MR-4.5.1] [MR-4.5.2] [MR-3.4.8]
  if (total > slot->length || total > kMaxMessageBytes || offset > total ||
      k.payload_bytes > total - offset || ends != t.last ||
      (offset == 0) != ((m.d.op & wire::kOpFirst) != 0) || (k.payload_bytes == 0 && total != 0)) {
    return refuse(s, spn, DropReason::kLength, wire::NackReason::kLength);
  }
  t.rkey = slot->lkey;
  t.va = slot->va + offset;  // [MR-6.2.3]
  t.access = kAccessLocalWrite;
  t.slot = slot;
  slot->message_length = total;
  if (m.d.code() == wire::Op::kSendImm) {
    slot->imm = reinterpret_cast<const wire::SendImm*>(p.data)->imm;
    slot->has_imm = true;
  }
  s.note_consumed(rqn);
  return {};
}

// Space outside the receive buffers, with a quota per connection. [MR-6.4.5] [MR-2.5.6]
template <typename Q, typename Io>
typename RxRole<Q, Io>::Outcome RxRole<Q, Io>::hold(RxConn& conn, RecvStream& s, StreamSeq spn,
                                                    const std::uint8_t* from, std::uint32_t n,
                                                    const Target& t) {
  if (conn.held >= config_.ordered_hold_packets || hold_free_.empty() || n > config_.payload_mtu) {
    return retry_later(DropReason::kNoResource, wire::NackReason::kNoResource, 50);
  }
  const std::uint32_t space = hold_free_.back();
  hold_free_.pop_back();
  ++conn.held;
  ++counters_.held;
  std::memcpy(hold_space_.data() + std::size_t{space} * config_.payload_mtu, from, n);
  s.hold(HeldPacket{spn, space, static_cast<std::uint16_t>(n), static_cast<std::uint16_t>(t.access),
                    t.rkey, t.va});
  return {};
}

// A program that polls the last bytes must find everything before them. [MR-6.4.2]
template <typename Q, typename Io>
void RxRole<Q, Io>::store_ordered(std::uint8_t* to, const std::uint8_t* from, std::uint32_t n) {
  const std::uint32_t tail = std::min<std::uint32_t>(n, 8), head = n - tail;
  if (head != 0) io_.place(to, from, head);
  std::atomic_thread_fence(std::memory_order_release);
  if (tail == 8 && reinterpret_cast<std::uintptr_t>(to + head) % 8 == 0) {
    std::uint64_t v;
    std::memcpy(&v, from + head, 8);
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(to + head))
        .store(v, std::memory_order_release);
  } else {
    std::memcpy(to + head, from + head, tail);
  }
}

template <typename Q, typename Io>
void RxRole<Q, Io>::progress_stream(RxConn& conn, RecvStream& s) {
  s.advance();
  while (const HeldPacket* h = s.ripe()) {
    std::uint8_t* to = nullptr;
    // The region may have gone meanwhile: then the bytes have no place to go any more.
    // [MR-6.4.6]
    if (h->length != 0 && memory_.translate(h->rkey, s.params.pd, h->access, h->va, h->length,
                                            to) == AccessError::kNone) {
      store_ordered(to, hold_space_.data() + std::size_t{h->space} * config_.payload_mtu,
                    h->length);
      counters_.placed_bytes += h->length;
    }
    hold_free_.push_back(h->space);
    --conn.held;
    s.drop_front_held();
  }
  complete_receives(s);
}

template <typename Q, typename Io>
void RxRole<Q, Io>::complete_receives(RecvStream& s) {
  // [MR-6.2.4] [MR-6.2.5]
  while (const RecvSlot* r = s.completable()) {
    // Every spn arrived, yet not every byte: the sender lied about the message. [MR-6.6.1]
    const bool whole = r->op != WorkOp::kRecv || r->arrived == r->message_length;
    if (!whole) s.fail(s.cum(), wire::NackReason::kLength);
    cqs_.complete(s.params.recv_cq,
                  Completion{r->wr_id, s.params.handle, whole ? r->message_length : r->arrived,
                             r->imm, static_cast<std::uint8_t>(r->op),
                             static_cast<std::uint8_t>(whole ? WorkStatus::kSuccess
                                                             : WorkStatus::kLocalLength),
                             r->has_imm ? kCompletionImm : std::uint8_t{0}, 0, 0});
    s.complete_one();
  }
}

}  // namespace metaroce
