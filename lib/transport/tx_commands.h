// TX role: commands of the control role.
#pragma once

#include <new>

#include "transport/tx_role.h"

namespace metaroce {

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::result(const Command& c, bool ok) {
  if (c.token == 0) return;
  TxToControl e;
  e.kind = TxToControlKind::kResult;
  e.result = CommandResult{c.token, ok, {}};
  q_.tx_to_control.push(e);  // room was checked before the command was taken
}

// State changes that control must learn: kept here while the ring is full. Bounded: one per
// connection and stream at most.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::tell_control(const TxToControl& e) {
  if (!outbox_.empty() || !q_.tx_to_control.push(e)) outbox_.push_back(e);
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::take_commands() {
  std::size_t told = 0;
  while (told < outbox_.size() && q_.tx_to_control.push(outbox_[told])) ++told;
  outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(told));
  if (!removals_.empty()) [[unlikely]]
    finish_removals();
  Command c, taken;
  while (q_.control_to_tx.peek(c) && q_.tx_to_control.room() != 0) {
    q_.control_to_tx.pop(taken);
    if (!run_command(c)) removals_.push_back(c);
  }
}

// Removals that wait for a port to let go of the last buffer, and what waits for the state of
// paths. They stand aside: a port that takes
// nothing (its peer sleeps) must not hold up the commands of everybody else.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::finish_removals() {
  if (now_ < removal_check_) return;
  removal_check_ = now_ + 50 * kMicrosecond;  // each look walks the pool of requests
  std::erase_if(removals_,
                [&](const Command& c) { return q_.tx_to_control.room() != 0 && run_command(c); });
}

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::run_command(const Command& c) {
  SendStream* s = find_stream(c.id);
  Conn* conn = c.id < conns_.size() && conns_[c.id].used ? &conns_[c.id] : nullptr;
  switch (c.kind) {
    case CommandKind::kAddClient: {
      const bool room = clients_.size() < config_.max_clients;
      if (room) clients_.push_back(*c.client);
      result(c, room);
      return true;
    }
    case CommandKind::kRemoveClient: {
      const ClientId id{static_cast<std::uint16_t>(c.id)};
      std::erase_if(clients_, [&](const ClientParams& p) { return p.client == id; });
      if (any_busy_of_client(id)) return false;  // a port still holds packets over its memory
      result(c, true);
      return true;
    }
    case CommandKind::kAddRegion:
      result(c, memory_.add(*c.region));
      return true;
    case CommandKind::kRemoveRegion:
      memory_.remove(c.id);
      if (any_busy_with_key(c.id)) return false;
      result(c, true);
      return true;
    case CommandKind::kAddCq:
      result(c, cqs_.add(*c.cq));
      return true;
    case CommandKind::kRemoveCq:
      result(c, cqs_.remove(c.id));
      return true;
    case CommandKind::kAddConn:
      result(c, add_conn(*c.conn));
      return true;
    case CommandKind::kOpenConn:
      if (conn != nullptr) {
        conn->open = true;
        conn->last_ack = now_;
        if (!unproven(*conn) || wake(*conn)) verify_active(*conn);
        list_conn(*conn);
      }
      result(c, conn != nullptr);
      return true;
    case CommandKind::kRemoveConn:
      if (conn != nullptr) remove_conn(c.id);
      result(c, conn != nullptr);
      return true;
    case CommandKind::kFailConn:
      if (conn != nullptr) fail_conn(*conn, static_cast<WorkStatus>(c.status));
      result(c, conn != nullptr);
      return true;
    case CommandKind::kAddStream:
      result(c, add_stream(*c.stream));
      return true;
    case CommandKind::kDrainStream:
      if (s != nullptr && !s->draining) {
        s->draining = true;
        draining_.push_back(s->params.handle);
      }
      result(c, s != nullptr);
      return true;
    case CommandKind::kStopStream:
      if (s != nullptr) stop_stream(*s, c);
      result(c, s != nullptr);
      return true;
    case CommandKind::kRemoveStream:
      if (s != nullptr) remove_stream(*s);
      result(c, s != nullptr);
      return true;
    case CommandKind::kChangePort: {
      const bool ok = conn != nullptr && c.path < conn->rest.size();
      if (ok && !wake(*conn)) return false;  // again when there is room
      if (ok) start_port_change(*conn, c.path, c.port);
      result(c, ok);
      return true;
    }
    case CommandKind::kPeerAddress:
      result(c, conn != nullptr && io_.install(conn->params));
      if (conn != nullptr) {  // what could not be asked for want of an address is asked again
        for (unsigned i = 0; i < conn->planes.size(); ++i) hurry_plane(*conn, i);
      }
      return true;
    case CommandKind::kPortState:
      if (conn != nullptr && !conn->failed) {
        if (!wake(*conn)) return false;  // again when there is room
        on_port_state(*conn, c);
      }
      result(c, conn != nullptr);
      return true;
  }
  return true;
}

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::add_conn(const ConnParams& p) {
  if (p.index.v >= conns_.size() || conns_[p.index.v].used || p.n_paths < p.n_planes ||
      p.n_planes == 0 || p.n_paths > (1U << path_shift_) || !io_.install(p)) {
    return false;
  }
  Conn& c = conns_[p.index.v];
  c = Conn{};
  c.used = true;
  c.params = p;
  c.rest.resize(p.n_paths);
  c.plane_slots = plane_slot_table(p.n_planes);
  c.planes.resize(p.n_planes);
  start_paths(c);
  start_pacing(c);
  for (unsigned i = 0; i < p.n_paths; ++i) {
    PathRest& path = c.rest[i];
    const auto id = static_cast<std::uint8_t>(i);
    path.state = static_cast<std::uint8_t>(p.verified ? PathState::kActive : PathState::kNew) & 7;
    // [MR-2.1.3] [MR-9.1.4]
    path.next = initial_pseq(p.own_pseq_seed, PathId{id});
    path.source_port = draw_port(c, id);
  }
  c.tokens_at = now_;
  live_conns_.push_back(p.index.v);
  return true;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::remove_conn(std::uint32_t index) {
  Conn& c = conns_[index];
  for (auto& p : c.paths)
    if (p.block != kNil) blocks_.give(p.block);
  if (!c.rests()) {
    std::erase_if(unarmed_, [&](std::uint32_t id) { return (id ^ c.timers) >> path_shift_ == 0; });
    owners_[c.timers >> path_shift_] = kNil;
    paths_.give(c.paths.data());
  }
  for (std::uint32_t n = c.resend_head; n != kNil;) {
    const std::uint32_t next = nodes_[n].next;
    nodes_.give(n);
    n = next;
  }
  if (c.listed) {  // unlink: rare, so a walk is fine
    std::uint32_t prev = kNil;
    for (std::uint32_t i = conn_head_; i != kNil; prev = i, i = conns_[i].next_in_list) {
      if (i != index) continue;
      (prev == kNil ? conn_head_ : conns_[prev].next_in_list) = c.next_in_list;
      if (conn_tail_ == index) conn_tail_ = prev;
      break;
    }
  }
  std::erase(live_conns_, index);
  io_.uninstall(ConnIndex{index});
  c = Conn{};
}

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::add_stream(const StreamParams& p) {
  const std::uint32_t slot = stream_slot(p.handle);
  if (slot >= streams_.size() || streams_[slot].used || p.conn.v >= conns_.size() ||
      !conns_[p.conn.v].used || !cqs_.valid(p.send_cq) ||
      p.own_number >= config_.max_streams_per_connection) {
    return false;
  }
  Conn& c = conns_[p.conn.v];
  if (p.own_number >= c.stream_slots.size()) c.stream_slots.resize(p.own_number + 1U, kNil);
  if (c.stream_slots[p.own_number] != kNil) return false;
  try {  // the one place where a role allocates: a command, not a packet
    streams_[slot].start(p, windows_);
  } catch (const std::bad_alloc&) {
    streams_[slot].release();
    return false;
  }
  c.stream_slots[p.own_number] = slot;
  ++c.streams;
  return true;
}

// What is below the peer's final cumulative spn completes as success, the rest is flushed.
// [MR-6.7.2]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::stop_stream(SendStream& s, const Command& c) {
  if (c.has_spn) s.on_stream_ack(c.spn, s.credit_limit());
  s.fail(s.cum(), c.status == 0 ? WorkStatus::kFlushed : static_cast<WorkStatus>(c.status));
  s.stopped = true;
  end_nack(conns_[s.params.conn.v], s);
  finish_work(s);
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::remove_stream(SendStream& s) {
  Command stop;
  stop_stream(s, stop);
  // Work whose buffers a port still holds leaves the stream without its slot being reused.
  while (!s.idle()) {
    const std::uint32_t w = s.oldest();
    complete(s, work_[w], WorkStatus::kFlushed);
    zombies_.push_back(w);
    s.pop_oldest();
  }
  const std::uint32_t slot = slot_of(s);
  Conn& c = conns_[s.params.conn.v];
  if (s.params.own_number < c.stream_slots.size()) c.stream_slots[s.params.own_number] = kNil;
  --c.streams;
  c.backlog -= s.backlog;
  if (s.listed) {
    std::uint32_t prev = kNil;
    for (std::uint32_t i = c.stream_head; i != kNil; prev = i, i = streams_[i].next_in_list) {
      if (i != slot) continue;
      (prev == kNil ? c.stream_head : streams_[prev].next_in_list) = s.next_in_list;
      if (c.stream_tail == slot) c.stream_tail = prev;
      break;
    }
  }
  std::erase(blocked_, slot);
  std::erase(retiring_, slot);
  std::erase(draining_, s.params.handle);
  s.release();
}

// Every outstanding work request completes in error: the oldest of each stream with `status`,
// the rest flushed. [MR-7.5.3] [MR-6.7.7]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::fail_conn(Conn& c, WorkStatus status) {
  c.failed = true;
  for (const std::uint32_t slot : c.stream_slots) {
    if (slot == kNil) continue;
    SendStream& s = streams_[slot];
    s.fail(s.cum(), status);
    end_nack(c, s);
    finish_work(s);
  }
  for (unsigned i = 0; i < c.paths.size(); ++i) {
    Path& p = c.paths[i];
    while (p.seq.span() != 0) {
      resolve(c, static_cast<std::uint8_t>(i), 0, Lost::kRejected);
      p.seq.settle();
    }
    settle(c, static_cast<std::uint8_t>(i));
  }
}

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::any_busy_with_key(std::uint32_t key) const {
  for (std::uint32_t i = 0; i < work_.touched(); ++i)
    if (work_[i].lkey == key && work_[i].length != 0 && io_.busy(i)) return true;
  return false;
}

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::any_busy_of_client(ClientId client) const {
  for (std::uint32_t i = 0; i < work_.touched(); ++i)
    if (work_[i].client == client && work_[i].length != 0 && io_.busy(i)) return true;
  return false;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::report_drained() {
  std::erase_if(draining_, [&](StreamHandle h) {
    SendStream* s = find_stream(h);
    if (s == nullptr) return true;
    if (!s->idle()) return false;
    // What the application posted before it asked to close may still be in its ring.
    for (auto& client : clients_)
      if (client.client == s->params.client && client.submissions.available() != 0) return false;
    TxToControl e;
    e.kind = TxToControlKind::kStreamDrained;
    e.id = h;
    tell_control(e);
    return true;
  });
}

}  // namespace metaroce
