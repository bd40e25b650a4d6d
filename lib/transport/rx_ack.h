// RX role: builds ACK and NACK packets. [MR-3.6.1] [MR-3.7.1] [MR-7.1.1]
#pragma once

#include "transport/rx_role.h"

namespace metaroce {

template <typename Q, typename Io>
void RxRole<Q, Io>::send_acks(bool leaving) {
  std::size_t kept = 0;
  ack_wake_ = kNever;
  for (const std::uint32_t index : ack_list_) {
    RxConn& conn = conns_[index];
    // Before the first packet nobody knows where an answer would go.
    const Nanos latest = conn.owed_since + config_.max_ack_delay;
    const bool due = conn.alive && (leaving || conn.urgent || now_ >= latest ||
                                    conn.pending >= config_.ack_every_packets);
    if (!due) {
      if (conn.alive) ack_wake_ = std::min(ack_wake_, latest);
      ack_list_[kept++] = index;
      continue;
    }
    bool sent = true;
    do {
      sent = send_one_ack(conn, conn.ack_paths);
    } while (sent && (!conn.ack_streams.empty() || (conn.ack_paths[0] | conn.ack_paths[1] |
                                                    conn.ack_paths[2] | conn.ack_paths[3]) != 0));
    if (!sent) {
      ack_list_[kept++] = index;
      continue;
    }  // no buffer: said again next time
    conn.ack_queued = conn.urgent = false;
    conn.pending = 0;
  }
  ack_list_.resize(kept);
}

// One packet with up to kMaxAckPaths of `paths` and kMaxAckStreams of the stream blocks that are
// due; the rest waits for the next one. Clears what it says. On the plane and with the source
// port of the last packet. [MR-7.1.3] [MR-7.1.5] [MR-7.1.6]
template <typename Q, typename Io>
bool RxRole<Q, Io>::send_one_ack(RxConn& conn, std::array<std::uint64_t, 4>& paths) {
  std::uint8_t* out = io_.begin_reply(conn.params.index, conn.plane_slot(conn.reply_path));
  if (out == nullptr) {
    drop(conn, DropReason::kNoBuffer);
    return false;
  }  // [MR-7.1.9]
  wire::Ack a{};
  fill_common(a.c, wire::Type::kAck, conn, conn.reply_path);
  fill_load(a, conn);
  std::uint32_t n = sizeof a;
  for (unsigned w = 0; w < 4; ++w) {
    while (paths[w] != 0 && a.n_paths < kMaxAckPaths) {
      const auto id =
          static_cast<std::uint8_t>(w * 64 + static_cast<unsigned>(std::countr_zero(paths[w])));
      paths[w] &= paths[w] - 1;
      n += conn.paths[id].write_block(out + n, PathId{id}, now_);
      ++a.n_paths;
    }
  }
  while (!conn.ack_streams.empty() && a.n_streams < RxConn::kMaxAckStreams) {
    RecvStream& s = streams_[conn.ack_streams.back()];
    conn.ack_streams.pop_back();
    n += write_stream_block(out + n, s);
    s.ack_dirty = false;
    ++a.n_streams;
  }
  std::memcpy(out, &a, sizeof a);
  finish_reply(conn, out, n, conn.reply_path);
  ++counters_.acks_sent;
  return true;
}

// The answer to FLUSH and ACK_REQ names its path only: a reverse route must be testable alone.
// [MR-7.1.4] [MR-7.6.3]
template <typename Q, typename Io>
void RxRole<Q, Io>::ack_alone(RxConn& conn, std::uint8_t path) {
  std::array<std::uint64_t, 4> one{};
  RxConn::mark(one, path);
  if (send_one_ack(conn, one)) {
    conn.ack_paths[path / 64] &= ~(std::uint64_t{1} << (path % 64));
    if (!conn.ack_streams.empty()) owe_ack(conn);
    return;
  }
  RxConn::mark(conn.ack_paths, path);
  conn.urgent = true;
  owe_ack(conn);
}

template <typename Q, typename Io>
std::uint32_t RxRole<Q, Io>::write_stream_block(std::uint8_t* out, RecvStream& s) {
  wire::AckStream b{};  // [MR-3.6.6]
  b.stream = s.params.peer_number;
  b.cum_spn = s.cum().v;
  b.rqn_limit = s.credit_limit().v;
  s.advertised(s.credit_limit());
  std::memcpy(out, &b, sizeof b);
  return sizeof b;
}

template <typename Q, typename Io>
void RxRole<Q, Io>::send_nack(RxConn& conn, std::uint8_t path, RecvStream* s, const Outcome& o,
                              StreamSeq spn, PathSeq pseq) {
  if (!wire::is_final(o.nack) && s != nullptr) {
    if (s->nack_round == round_) return;  // at most one per stream and burst [MR-6.5.2] [MR-6.5.1]
    s->nack_round = round_;
  }
  std::uint8_t* out = io_.begin_reply(conn.params.index, conn.plane_slot(path));
  if (out == nullptr) return drop(conn, DropReason::kNoBuffer);
  wire::Nack n{};
  fill_common(n.c, wire::Type::kNack, conn, path);
  n.reason = static_cast<std::uint8_t>(o.nack);
  n.wait = o.wait_us;
  n.stream = s != nullptr ? s->params.peer_number : std::uint16_t{0xffff};
  n.spn = wire::is_final(o.nack) && s != nullptr ? s->fail_spn().v : spn.v;
  n.pseq = pseq.v;
  std::memcpy(out, &n, sizeof n);
  finish_reply(conn, out, sizeof n, path);
  ++counters_.nacks_sent;
}

}  // namespace metaroce
