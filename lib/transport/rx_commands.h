// RX role: commands of the control role, and receives that applications post.
#pragma once

#include <new>

#include "transport/rx_role.h"

namespace metaroce {

template <typename Q, typename Io>
void RxRole<Q, Io>::result(const Command& c, bool ok, StreamSeq cum) {
  if (c.token == 0) return;
  RxToControl e;
  e.kind = RxToControlKind::kResult;
  e.result = CommandResult{c.token, ok, cum};
  q_.rx_to_control.push(e);  // room was checked before the command was taken
}

template <typename Q, typename Io>
void RxRole<Q, Io>::take_commands() {
  Command c;
  // A command is taken only when its result has room: results are never lost.
  while (q_.control_to_rx.peek(c) && q_.rx_to_control.room() != 0) {
    Command taken;
    q_.control_to_rx.pop(taken);
    RecvStream* s = nullptr;
    if (c.kind == CommandKind::kStopStream || c.kind == CommandKind::kRemoveStream) {
      const std::uint32_t i = stream_slot(c.id);
      if (i < streams_.size() && streams_[i].used && streams_[i].params.handle == c.id)
        s = &streams_[i];
    }
    switch (c.kind) {
      case CommandKind::kAddClient:
        if (clients_.size() >= config_.max_clients) {
          result(c, false);
          break;
        }
        clients_.push_back(*c.client);
        result(c, true);
        break;
      case CommandKind::kRemoveClient: {
        const ClientId id{static_cast<std::uint16_t>(c.id)};
        std::erase_if(clients_, [&](const ClientParams& p) { return p.client == id; });
        result(c, true);
        break;
      }
      case CommandKind::kAddRegion:
        result(c, memory_.add(*c.region));
        break;
      case CommandKind::kRemoveRegion:
        result(c, memory_.remove(c.id));
        break;
      case CommandKind::kAddCq:
        result(c, cqs_.add(*c.cq));
        break;
      case CommandKind::kRemoveCq:
        result(c, cqs_.remove(c.id));
        break;
      case CommandKind::kAddConn:
        if (c.conn->index.v >= conns_.size() || conns_[c.conn->index.v].used) {
          result(c, false);
          break;
        }
        conns_[c.conn->index.v].start(*c.conn);
        add_hints(conns_[c.conn->index.v]);
        result(c, true);
        break;
      case CommandKind::kRemoveConn:
        if (c.id >= conns_.size()) {
          result(c, false);
          break;
        }
        remove_hints(conns_[c.id]);
        std::erase(ack_list_, c.id);
        std::erase(mail_list_, c.id);
        give_pools(conns_[c.id]);
        conns_[c.id] = RxConn{};
        result(c, true);
        break;
      case CommandKind::kAddStream:
        result(c, add_stream(*c.stream));
        break;
      case CommandKind::kStopStream:
        if (s == nullptr) {
          result(c, false);
          break;
        }
        stop_stream(*s);
        result(c, true, s->cum());
        break;
      case CommandKind::kRemoveStream:
        if (s == nullptr) {
          result(c, false);
          break;
        }
        remove_stream(*s);
        result(c, true);
        break;
      default:
        result(c, true);  // TX only
    }
  }
}

template <typename Q, typename Io>
void RxRole<Q, Io>::give_pools(RxConn& conn) {
  for (unsigned i = 0; i < conn.paths.size(); ++i) {
    conn.paths[i].forget(rings_);
    if (((conn.mail_paths[i / 64] >> (i % 64)) & 1U) != 0) mail_.give(conn.mail[i]);
  }
}

template <typename Q, typename Io>
bool RxRole<Q, Io>::add_stream(const StreamParams& p) {
  const std::uint32_t slot = stream_slot(p.handle);
  if (slot >= streams_.size() || streams_[slot].used) return false;
  if (p.conn.v >= conns_.size() || !conns_[p.conn.v].used || !cqs_.valid(p.recv_cq)) return false;
  if (p.own_number >= config_.max_streams_per_connection) return false;
  RxConn& conn = conns_[p.conn.v];
  if (p.own_number >= conn.stream_slots.size()) {
    conn.stream_slots.resize(p.own_number + 1U, RxConn::kNoSlot);
  }
  if (conn.stream_slots[p.own_number] != RxConn::kNoSlot) return false;
  try {  // the one place where a role allocates: a command, not a packet
    streams_[slot].start(p, windows_);
  } catch (const std::bad_alloc&) {
    streams_[slot].release();
    return false;
  }
  conn.stream_slots[p.own_number] = slot;
  ++conn.streams;
  if (conn.ack_streams.capacity() < conn.streams)
    conn.ack_streams.reserve(std::size_t{2} * conn.streams);
  return true;
}

// Flushes posted receives; the final cumulative spn is fixed from here on. [MR-6.7.5] [MR-6.7.3]
template <typename Q, typename Io>
void RxRole<Q, Io>::stop_stream(RecvStream& s) {
  if (s.stopped()) return;
  complete_receives(s);
  s.stop();
  while (const RecvSlot* r = s.oldest()) {
    cqs_.complete(
        s.params.recv_cq,
        Completion{r->wr_id, s.params.handle, 0, 0, static_cast<std::uint8_t>(WorkOp::kRecv),
                   static_cast<std::uint8_t>(WorkStatus::kFlushed), 0, 0, 0});
    s.complete_one();
  }
  free_held(conns_[s.params.conn.v], s);
}

template <typename Q, typename Io>
void RxRole<Q, Io>::remove_stream(RecvStream& s) {
  stop_stream(s);
  const std::uint32_t slot = stream_slot(s.params.handle);
  RxConn& conn = conns_[s.params.conn.v];
  if (s.params.own_number < conn.stream_slots.size()) {
    conn.stream_slots[s.params.own_number] = RxConn::kNoSlot;
  }
  --conn.streams;
  std::erase(conn.ack_streams, slot);
  std::erase(stream_mail_, slot);
  s.ack_dirty = s.mail_dirty = false;
  s.release();
}

template <typename Q, typename Io>
void RxRole<Q, Io>::free_held(RxConn& conn, RecvStream& s) {
  for (const HeldPacket& h : s.held()) {
    hold_free_.push_back(h.space);
    --conn.held;
  }
  s.clear_held();
}

template <typename Q, typename Io>
void RxRole<Q, Io>::take_receives() {
  constexpr std::uint32_t kClientsPerPass = 8, kPerClient = 32;
  const auto n = static_cast<std::uint32_t>(clients_.size());
  for (std::uint32_t k = 0; k < std::min(n, kClientsPerPass); ++k) {
    if (next_client_ >= n) next_client_ = 0;
    ClientParams& client = clients_[next_client_++];
    WorkRequest w;
    for (std::uint32_t i = 0; i < kPerClient && client.submissions.peek(w); ++i) {
      const std::uint32_t slot = stream_slot(w.stream);
      RecvStream* s = slot < streams_.size() ? &streams_[slot] : nullptr;
      if (s == nullptr || !s->used || s->params.handle != w.stream ||
          s->params.client != client.client || (s->stopped() && !cqs_.valid(s->params.recv_cq))) {
        ++counters_.bad_submissions;
        client.submissions.drop();
        continue;
      }
      // [MR-4.6.2] No room for the completion, or for the receive: it stays in the client's ring.
      if (!s->receive_room() || !cqs_.reserve(s->params.recv_cq)) break;
      client.submissions.drop();
      std::uint8_t* to = nullptr;
      WorkStatus bad = WorkStatus::kSuccess;
      if (s->stopped())
        bad = WorkStatus::kFlushed;
      else if (w.length != 0 && memory_.translate(w.lkey, s->params.pd, kAccessLocalWrite,
                                                  w.local_addr, w.length, to) != AccessError::kNone)
        bad = WorkStatus::kLocalProtection;
      if (bad != WorkStatus::kSuccess) {
        cqs_.complete(s->params.recv_cq,
                      Completion{w.wr_id, w.stream, 0, 0, static_cast<std::uint8_t>(WorkOp::kRecv),
                                 static_cast<std::uint8_t>(bad), 0, 0, 0});
        continue;
      }
      s->post(w);
      if (s->credit_push_due()) {
        RxConn& conn = conns_[s->params.conn.v];
        owe_stream_block(conn, *s);
        conn.urgent = true;
        owe_ack(conn);
      }
    }
  }
}

}  // namespace metaroce
