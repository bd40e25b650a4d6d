// RX role: what the peer says about our transmissions, parsed and handed to TX. State coalesces:
// per path and per stream only the newest acknowledgment is kept while the ring to TX is full,
// in a bounded pool, so a slow TX role costs no memory and loses nothing that is not said again. A
// NACK may be lost: it comes again.
#pragma once

#include "transport/rx_role.h"

namespace metaroce {

// The whole packet is believed or dropped: counts, lengths and path numbers first. [MR-3.6.7]
template <typename Q, typename Io>
bool RxRole<Q, Io>::ack_well_formed(const RxConn& conn, const std::uint8_t* at,
                                    const std::uint8_t* end, const wire::Ack& a) {
  for (unsigned i = 0; i < a.n_paths; ++i) {
    if (end - at < static_cast<std::ptrdiff_t>(sizeof(wire::AckPath))) return false;
    const auto& b = *reinterpret_cast<const wire::AckPath*>(at);
    at += sizeof b + ((b.flags & wire::kAckSack) != 0 ? sizeof(wire::AckSack) : 0);
    if (at > end || b.path >= conn.params.n_paths) return false;
  }
  return end - at >= static_cast<std::ptrdiff_t>(a.n_streams * sizeof(wire::AckStream));
}

template <typename Q, typename Io>
void RxRole<Q, Io>::on_ack(RxConn& conn, const RxPacket& p) {
  const auto& a = *reinterpret_cast<const wire::Ack*>(p.data);
  const std::uint8_t* at = p.data + sizeof(wire::Ack);
  const std::uint8_t* end =
      p.data + p.length - ((a.c.flags & wire::kFlagCrc) != 0 ? wire::kCrcBytes : 0);
  if (!ack_well_formed(conn, at, end, a)) return drop(conn, DropReason::kAckMalformed);
  PathAck whole;
  whole.receive_load = a.receive_load;
  whole.host_pressure = a.host_pressure;
  whole.hint_epoch = a.hint_epoch;
  whole.rate_hint = a.rate_hint;
  whole.sent = WireTime{a.c.timestamp};
  whole.hint_path = a.c.path;
  if (!conn.mail_queued) {
    conn.mail_queued = true;
    mail_list_.push_back(conn.params.index.v);
  }

  for (unsigned i = 0; i < a.n_paths; ++i) {
    const auto& b = *reinterpret_cast<const wire::AckPath*>(at);
    at += sizeof b;
    PathAck n = whole;
    if ((b.flags & wire::kAckSack) != 0) {
      for (unsigned w = 0; w < 4; ++w) {
        std::uint64_t v = 0;
        for (unsigned j = 0; j < 8; ++j) v |= std::uint64_t{at[w * 8 + j]} << (8 * j);
        n.sack.words()[w] = v;
      }
      at += 32;
    }
    n.epoch = b.epoch;
    n.cum = PathSeq{b.cum};
    n.highest = PathSeq{b.highest};
    n.timestamp_echo = WireTime{b.timestamp_echo};
    n.ack_delay_64ns = b.ack_delay;
    n.late = b.late;
    n.rejects = b.rejects;
    n.ce_packets = b.ce_packets;
    n.received_packets = b.received_packets;
    const bool waiting = (conn.mail_paths[b.path / 64] >> (b.path % 64)) & 1U;
    if (!waiting) {
      const std::uint32_t slot = mail_.take();
      if (slot == kNil) {  // as if the network had lost it: the next ACK says it again
        drop(conn, DropReason::kTxQueueFull);
        continue;
      }
      conn.mail[b.path] = static_cast<std::uint16_t>(slot);
      RxConn::mark(conn.mail_paths, b.path);
    }
    PathAck& mail = mail_[conn.mail[b.path]];
    // Among ACKs that wait, the one that saw more packets is the newer, whatever order they came
    // in.
    if (waiting && static_cast<std::int32_t>(n.received_packets - mail.received_packets) < 0)
      continue;
    mail = n;
  }
  for (unsigned i = 0; i < a.n_streams; ++i) {
    on_stream_block(conn, *reinterpret_cast<const wire::AckStream*>(at));
    at += sizeof(wire::AckStream);
  }
}

template <typename Q, typename Io>
void RxRole<Q, Io>::on_stream_block(RxConn& conn, const wire::AckStream& b) {
  const std::uint32_t slot = conn.slot_of(b.stream);
  // Closed meanwhile, or of the response space, which this version does not open: nothing to tell.
  if (slot == RxConn::kNoSlot || (b.flags & wire::kAckStreamResponse) != 0) return;
  RecvStream& s = streams_[slot];
  const StreamSeq cum{b.cum_spn};
  const RecvNumber limit{b.rqn_limit};
  if (!s.mail_dirty) {
    s.mail_dirty = true;
    s.mail = StreamAck{b.stream, false, cum, limit};
    stream_mail_.push_back(slot);
  } else {  // the serial maximum wins
    s.mail.cum_spn = serial_max(s.mail.cum_spn, cum);
    s.mail.rqn_limit = serial_max(s.mail.rqn_limit, limit);
  }
}

template <typename Q, typename Io>
void RxRole<Q, Io>::on_nack(RxConn& conn, const RxPacket& p) {
  const auto& n = *reinterpret_cast<const wire::Nack*>(p.data);
  RxToTx e;
  e.kind = RxToTxKind::kNack;
  e.path = n.c.path;
  name(e, conn);
  e.nack =
      NackInfo{static_cast<wire::NackReason>(n.reason), n.wait, StreamSeq{n.spn}, PathSeq{n.pseq}};
  // It must act before any ACK that shows its hole: mail leaves at the end of the burst.
  if (!q_.rx_to_tx.push(e)) drop(conn, DropReason::kTxQueueFull);
}

template <typename Q, typename Io>
void RxRole<Q, Io>::on_probe(RxConn& conn, const RxPacket& p) {
  // [MR-9.6.1] [MR-9.6.2] [MR-3.8.2] [MR-3.8.3] [MR-9.3.6] [MR-10.2.3]
  const auto& q = *reinterpret_cast<const wire::Probe*>(p.data);
  std::uint8_t* out = io_.begin_reply(conn.params.index, conn.plane_slot(q.c.path));
  if (out == nullptr) return drop(conn, DropReason::kNoBuffer);
  wire::Probe r{};
  fill_common(r.c, wire::Type::kProbeReply, conn, q.c.path);
  r.c.epoch = q.c.epoch;
  r.nonce = q.nonce;
  r.timestamp_echo = q.c.timestamp;
  r.delay = 0;
  r.kind = q.kind;
  r.stream = q.stream;
  std::uint32_t n = sizeof r;
  const std::uint32_t slot = conn.slot_of(q.stream);
  if (slot != RxConn::kNoSlot)
    n += write_stream_block(out + n, streams_[slot]);
  else
    r.stream = 0xffff;
  std::memcpy(out, &r, sizeof r);
  finish_reply(conn, out, n, q.c.path);
}

template <typename Q, typename Io>
void RxRole<Q, Io>::on_probe_reply(RxConn& conn, const RxPacket& p) {
  const auto& r = *reinterpret_cast<const wire::Probe*>(p.data);
  const std::uint32_t trailer = (r.c.flags & wire::kFlagCrc) != 0 ? wire::kCrcBytes : 0;
  if (r.stream != 0xffff && p.length >= sizeof r + sizeof(wire::AckStream) + trailer) {
    on_stream_block(conn, *reinterpret_cast<const wire::AckStream*>(p.data + sizeof r));
  }
  RxToTx e;
  e.kind = RxToTxKind::kProbeReply;
  e.path = r.c.path;
  name(e, conn);
  e.probe = ProbeReplyInfo{r.nonce, WireTime{r.timestamp_echo}, r.delay, r.kind, r.c.epoch};
  if (!q_.rx_to_tx.push(e)) drop(conn, DropReason::kTxQueueFull);
}

template <typename Q, typename Io>
void RxRole<Q, Io>::deliver_mail() {
  std::size_t kept = 0;
  for (const std::uint32_t index : mail_list_) {
    RxConn& conn = conns_[index];
    bool left = false;
    for (unsigned w = 0; w < 4; ++w) {
      while (conn.mail_paths[w] != 0) {
        const auto path = static_cast<std::uint8_t>(
            w * 64 + static_cast<unsigned>(std::countr_zero(conn.mail_paths[w])));
        RxToTx e;
        e.kind = RxToTxKind::kPathAck;
        e.path = path;
        name(e, conn);
        e.ack = mail_[conn.mail[path]];
        if (!q_.rx_to_tx.push(e)) {
          left = true;
          break;
        }
        mail_.give(conn.mail[path]);
        conn.mail_paths[w] &= conn.mail_paths[w] - 1;
      }
    }
    if (left)
      mail_list_[kept++] = index;
    else
      conn.mail_queued = false;
  }
  mail_list_.resize(kept);

  kept = 0;
  for (const std::uint32_t slot : stream_mail_) {
    RecvStream& s = streams_[slot];
    RxToTx e;
    e.kind = RxToTxKind::kStreamAck;
    name(e, conns_[s.params.conn.v]);
    e.stream = s.mail;
    if (q_.rx_to_tx.push(e))
      s.mail_dirty = false;
    else
      stream_mail_[kept++] = slot;
  }
  stream_mail_.resize(kept);
}

}  // namespace metaroce
