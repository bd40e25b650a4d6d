// TX role: work requests from applications. An entry is copied once, then checked; the ring's
// memory is the application's. What does not fit stays in its ring: back-pressure, not loss.
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::take_submissions() {
  constexpr std::uint32_t kClientsPerPass = 8, kPerClient = 32;
  const auto n = static_cast<std::uint32_t>(clients_.size());
  for (std::uint32_t k = 0; k < std::min(n, kClientsPerPass); ++k) {
    if (next_client_ >= n) next_client_ = 0;
    ClientParams& client = clients_[next_client_++];
    WorkRequest w;
    for (std::uint32_t i = 0; i < kPerClient && client.submissions.peek(w); ++i) {
      bool consumed = false;
      if (!take_one(w, client.client, consumed)) ++counters_.bad_submissions;
      if (!consumed) break;
      client.submissions.drop();
    }
  }
}

// False: the entry names a stream that is not the client's, or is gone (dropped, counted).
// `consumed` false: no room now.
template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::take_one(const WorkRequest& w, ClientId client, bool& consumed) {
  SendStream* s = find_stream(w.stream);
  consumed = true;
  if (s == nullptr || s->params.client != client) return false;
  if (s->stopped && !cqs_.valid(s->params.send_cq))
    return false;  // closed: nobody listens any more
  if (!s->has_room()) {
    consumed = false;
    return true;
  }
  if (!s->make_room()) {
    ++counters_.no_window;
    consumed = false;
    return true;
  }
  // Half of the pool is common, the other half a share of each client: requests that wait for
  // ever, for a peer's receives say, do not keep other clients from working.
  const bool common = work_.used() < work_.size() / 2;
  if (!common && (work_held_[client.v] >= work_share_ || work_.used() == work_.size())) {
    ++counters_.no_work;
    consumed = false;
    return true;
  }
  if (!cqs_.reserve(s->params.send_cq)) {
    consumed = false;
    return true;
  }
  std::uint8_t* local = nullptr;
  WorkStatus bad = WorkStatus::kSuccess;
  if (w.op > static_cast<std::uint8_t>(WorkOp::kSendImm))
    bad = WorkStatus::kLocalOperation;
  else if (w.length > kMaxMessageBytes)
    bad = WorkStatus::kLocalLength;
  else if (w.length != 0 && memory_.translate(w.lkey, s->params.pd, 0, w.local_addr, w.length,
                                              local) != AccessError::kNone)
    bad = WorkStatus::kLocalProtection;

  const std::uint32_t slot = work_.take();
  ++work_held_[client.v];
  WorkState& state = work_[slot];
  state = WorkState{};
  state.wr_id = w.wr_id;
  state.local = w.local_addr;
  state.remote = w.remote_addr;
  state.length = bad == WorkStatus::kSuccess ? w.length : 0;
  state.lkey = w.lkey;
  state.rkey = w.rkey;
  state.imm = w.imm;
  state.op = bad == WorkStatus::kLocalOperation ? WorkOp::kWrite : static_cast<WorkOp>(w.op);
  state.flags = w.flags;
  state.client = client;
  Conn& c = conns_[s->params.conn.v];
  s->push(slot, state, c.params.payload_mtu);
  c.backlog += state.length;
  // A bad request fails the stream at its place in the order: what precedes it completes.
  if (bad != WorkStatus::kSuccess) s->fail(state.first, bad);
  if (s->failing)
    finish_work(*s);
  else
    list_stream(*s);
  return true;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::list_stream(SendStream& s) {
  Conn& c = conns_[s.params.conn.v];
  if (!s.listed) {
    s.listed = true;
    s.next_in_list = kNil;
    const std::uint32_t slot = slot_of(s);
    if (c.stream_head == kNil)
      c.stream_head = slot;
    else
      streams_[c.stream_tail].next_in_list = slot;
    c.stream_tail = slot;
  }
  list_conn(c);
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::list_conn(Conn& c) {
  if (c.listed || !c.open) return;
  c.listed = true;
  c.next_in_list = kNil;
  const std::uint32_t index = c.params.index.v;
  if (conn_head_ == kNil)
    conn_head_ = index;
  else
    conns_[conn_tail_].next_in_list = index;
  conn_tail_ = index;
}

}  // namespace metaroce
