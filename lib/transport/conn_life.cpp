// An installed connection until its end (protocol.md 3 and 7).
//
// - CONN_RTU(nonce in `cookie`) / CONN_RTU_ACK(the same): each side sends one on every plane when
//   it opens. The asker's first one opens the asked side; an answered one proves that the peer
//   receives at that plane's address (peer_table.h). Planes without an answer stay unproven and
//   carry no control packets; when the asker gets no sign of life at all, the connection fails.
// - A packet on a connection must carry its dcid with generation, its epoch, the peer's dcid and
//   an address of the peer; the first such packet opens a half-open connection.
// - CONN_CLOSE(ok) ends an idle connection; busy while a stream is open or opening. The closed
//   record stays as long as a CLOSE may be repeated, to answer it. CONN_CLOSE(aborted) is sent
//   once, unanswered, by a side that lost the connection, so that the other need not time out.
// - Requests take ascending serials; at most kSpan / 2 beyond the oldest unanswered one.
// - Two open connections of one pair of (instance, group): if the asker of one asked after it had
//   answered the other, it has lost the other, which fails. Otherwise they crossed on different
//   planes: the lower instance's stays, the other retires (no new streams, closed when idle).
// - A new instance at a proven address fails the older instance's connections at once.
#include <algorithm>

#include "transport/control_role.h"

namespace metaroce {

using control::ConnState;
using control::CtrlStatus;
using control::StreamState;
using wire::CtrlType;

void ControlRole::enter_address(Conn& c, const IpAddress& a) {
  if (std::find(c.addresses.begin(), c.addresses.end(), a) != c.addresses.end()) return;
  c.addresses.push_back(a);
  peers_.add_address(a, c.params.index.v);
}

void ControlRole::enter_instance(Conn& c) {
  c.instance_entered = true;
  peers_.add_instance(c.peer.instance, c.params.index.v);
}

// ---- packets -------------------------------------------------------------------------------------

void ControlRole::on_conn_packet(Conn& c, const Message& m, const PacketSource& src) {
  if (m.scid != c.params.peer_dcid) return drop(DropReason::kCtrlUnexpected);
  bool known = false;
  for (std::uint32_t i = 0; i < c.params.n_planes; ++i) known |= c.params.planes[i].peer == src.src;
  if (!known) return drop(DropReason::kSourceAddress);
  if (c.params.crc && !m.crc) return drop(DropReason::kCrc);
  if (c.state == ConnState::kRemoving) {
    if (m.type == CtrlType::kConnClose && c.peer_closed) return on_conn_close(c, m, src);
    return drop(DropReason::kStaleConn);
  }
  if (c.state < ConnState::kHalfOpen) return drop(DropReason::kCtrlUnexpected);
  c.confirmed = true;
  if (m.type == CtrlType::kConnClose) return on_conn_close(c, m, src);  // never opens
  if (c.state == ConnState::kHalfOpen) open_conn(c);
  switch (m.type) {
    case CtrlType::kConnRtu: {
      Message r;
      r.type = CtrlType::kConnRtuAck;
      r.crc = c.params.crc;
      r.dcid = c.params.peer_dcid;
      r.scid = c.params.own_dcid;
      r.serial = m.serial;
      r.conn_epoch = c.epoch;
      r.cookie = m.cookie;
      return reply(src, c.params.peer_port, r);
    }
    case CtrlType::kConnRtuAck: return on_rtu_ack(c, m, src);
    case CtrlType::kConnCloseRsp: return on_conn_close_rsp(c, m);
    case CtrlType::kStreamOpen: return on_stream_open(c, m, src);
    case CtrlType::kStreamOpenRsp: return on_stream_open_rsp(c, m);
    case CtrlType::kStreamClose: return on_stream_close(c, m, src);
    case CtrlType::kStreamCloseRsp: return on_stream_close_rsp(c, m);
    default: return drop(DropReason::kCtrlMalformed);
  }
}

void ControlRole::send_on(Conn& c, Message& m, bool rotate) {
  if (rotate) {  // to the next plane whose address is proven
    for (std::uint32_t k = 1; k <= c.params.n_planes; ++k) {
      const std::uint32_t i = (c.control_plane + k) % c.params.n_planes;
      if (c.proofs[i].proven) { c.control_plane = i; break; }
    }
  }
  m.crc = c.params.crc;
  m.dcid = c.params.peer_dcid;
  m.scid = c.params.own_dcid;
  m.conn_epoch = c.epoch;
  control::CtrlBytes bytes;
  const std::uint32_t n = control::encode_ctrl(m, to_wire_time(now_), bytes);
  const PlanePair& p = c.params.planes[c.control_plane];
  if (!io_.send_to(p.plane, p.local, p.peer, entropy_port(), c.params.peer_port, {bytes.data(), n}))
    drop(DropReason::kNeighbourUnresolved);
}

// ---- opening -------------------------------------------------------------------------------------

void ControlRole::open_conn(Conn& c) {
  half_open_.erase({c.half_open_since, c.params.index.v});
  c.state = ConnState::kOpen;
  Command open;
  open.kind = CommandKind::kOpenConn;
  open.id = c.params.index.v;
  command(c.group, Side::kTx, open);
  enter_address(c, c.target);
  start_proofs(c);
  settle_duplicates(c);
  kick_queued(c);
  close_conn_if_idle(c);
  rearm(c);
}

// Ends what the newly open connection replaces.
void ControlRole::settle_duplicates(Conn& c) {
  for (const std::uint32_t i : peers_.at_address(c.target)) {
    Conn* o = conn_at(ConnIndex{i});
    if (o == nullptr || o == &c || !o->instance_entered || o->peer.instance == c.peer.instance) continue;
    fail_conn(*o, ControlStatus::kPeerLost, WorkStatus::kRetryExceeded,
              "the peer restarted: connect again", false, Queued::kRequeue);
  }
  const auto attempt_of_asker = [](const Conn& asked_by, const Conn& in) {
    return asked_by.initiator ? in.own.attempt : in.peer.attempt;
  };
  const auto newer = [&](const Conn& x, const Conn& y) {
    return static_cast<std::int32_t>(attempt_of_asker(x, x) - attempt_of_asker(x, y)) > 0;
  };
  for (const std::uint32_t i : peers_.of_instance(c.peer.instance)) {
    Conn* o = conn_at(ConnIndex{i});
    if (o == nullptr || o == &c || o->group != c.group) continue;
    if (o->state == ConnState::kConnecting) {  // an attempt of ours at another address of the peer
      join_other(*o, false);
      continue;
    }
    if (o->peer.group != c.peer.group || o->state != ConnState::kOpen) continue;
    if (newer(c, *o)) {
      fail_conn(*o, ControlStatus::kPeerLost, WorkStatus::kRetryExceeded,
                "the peer made a new connection: connect again", false, Queued::kRequeue);
    } else if (c.initiator == (host_.instance < c.peer.instance)) {
      retire(*o, c);
    } else {
      retire(c, *o);
    }
  }
}

// Both are alive and both ends agree on the loser: it takes no new streams and closes when the
// ones that it has are done.
void ControlRole::retire(Conn& loser, Conn& winner) {
  loser.retiring = true;
  move_queued(loser, winner);
  close_conn_if_idle(loser);
}

void ControlRole::move_queued(Conn& from, Conn& to) {
  std::vector<StreamHandle> moving;
  for (const auto& [number, handle] : from.by_own)
    if (stream_at(handle)->state == StreamState::kQueued) moving.push_back(handle);
  for (const StreamHandle h : moving) {
    Stream& s = *stream_at(h);
    from.by_own.erase(s.own_number);
    s.on_conn = false;
    if (put_on_conn(s, to)) continue;
    fail_connect(s, ControlStatus::kLimit, "max_streams_per_connection is reached with this peer");
    free_stream(s);
  }
  if (to.state == ConnState::kOpen) kick_queued(to);
}

void ControlRole::start_proofs(Conn& c) {
  for (std::uint32_t i = 0; i < c.params.n_planes; ++i) {
    if (c.proofs[i].proven && !c.initiator) continue;
    c.proofs[i].nonce = io_.secret_random();
    start(c.proofs[i].retry, 0);
    send_rtu(c, i);
  }
}

void ControlRole::send_rtu(Conn& c, std::uint32_t plane) {
  Message m;
  m.type = CtrlType::kConnRtu;
  m.cookie = c.proofs[plane].nonce;
  const std::uint32_t usual = c.control_plane;
  c.control_plane = plane;
  send_on(c, m, false);
  c.control_plane = usual;
}

void ControlRole::on_rtu_ack(Conn& c, const Message& m, const PacketSource& src) {
  for (std::uint32_t i = 0; i < c.params.n_planes; ++i) {
    control::PlaneProof& proof = c.proofs[i];
    if (!proof.retry.active || proof.nonce != m.cookie || c.params.planes[i].peer != src.src) continue;
    proof.retry.active = false;
    proof.proven = true;
    enter_address(c, src.src);
    return rearm(c);
  }
  drop(DropReason::kCtrlUnexpected);
}

// ---- serials -------------------------------------------------------------------------------------

bool ControlRole::take_serial(Conn& c, std::uint32_t& serial) {
  if (!c.unanswered.empty() &&
      c.next_serial - c.unanswered.front() >= control::SerialWindow::kSpan / 2) {
    c.serial_blocked = true;
    return false;
  }
  serial = c.next_serial++;
  c.unanswered.push_back(serial);
  return true;
}

void ControlRole::serial_answered(Conn& c, std::uint32_t serial) {
  const auto it = std::find(c.unanswered.begin(), c.unanswered.end(), serial);
  if (it == c.unanswered.end()) return;
  c.unanswered.erase(it);
  if (c.serial_blocked) kick_queued(c);
}

void ControlRole::kick_queued(Conn& c) {
  c.serial_blocked = false;
  std::vector<StreamHandle> waiting;
  for (const auto& [number, handle] : c.by_own) {
    const Stream* s = stream_at(handle);
    if (s->state == StreamState::kQueued || s->state == StreamState::kClosing) waiting.push_back(handle);
  }
  for (const StreamHandle h : waiting) {
    Stream* s = stream_at(h);
    if (s == nullptr) continue;
    if (s->state == StreamState::kQueued) try_open(*s);
    else if (s->waits == 0) advance_stream(*s);
  }
}

// ---- the end -------------------------------------------------------------------------------------

bool ControlRole::has_live_streams(const Conn& c) const {
  for (const auto& [number, handle] : c.by_own) {
    const Stream* s = const_cast<ControlRole*>(this)->stream_at(handle);
    if (s->state < StreamState::kLinger) return true;
  }
  return false;
}

void ControlRole::on_conn_close(Conn& c, const Message& m, const PacketSource& src) {
  if (m.status == CtrlStatus::kAborted) {
    if (c.state == ConnState::kRemoving) return;
    return fail_conn(c, ControlStatus::kPeerLost, WorkStatus::kRetryExceeded,
                     "the peer gave the connection up: connect again", false, Queued::kRequeue);
  }
  Message r;
  r.type = CtrlType::kConnCloseRsp;
  r.crc = c.params.crc;
  r.dcid = c.params.peer_dcid;
  r.scid = c.params.own_dcid;
  r.serial = m.serial;
  r.conn_epoch = c.epoch;
  if (c.state != ConnState::kRemoving && has_live_streams(c)) r.status = CtrlStatus::kBusy;
  reply(src, c.params.peer_port, r);
  if (r.status == CtrlStatus::kBusy || c.state == ConnState::kRemoving) return;
  c.peer_closed = true;
  c.linger_until = now_ + long_linger();
  fail_conn(c, ControlStatus::kPeerLost, WorkStatus::kFlushed, "the peer closed the connection", false,
            Queued::kRequeue);
}

void ControlRole::close_conn_if_idle(Conn& c) {
  if (c.state != ConnState::kOpen || !(shutting_down_ || c.retiring) || has_live_streams(c)) return;
  c.state = ConnState::kClosing;
  start(c.retry, c.next_serial);
  Message m;
  m.type = CtrlType::kConnClose;
  m.serial = c.retry.serial;
  send_on(c, m, false);
  rearm(c);
}

void ControlRole::on_conn_close_rsp(Conn& c, const Message& m) {
  if (c.state != ConnState::kClosing || !c.retry.active || m.serial != c.retry.serial)
    return drop(DropReason::kCtrlUnexpected);
  if (m.status == CtrlStatus::kBusy) {
    if (shutting_down_) return;  // the peer's streams are about to end; repeated
    c.state = ConnState::kOpen;  // retiring: the peer, too, closes when it is idle
    c.retry.active = false;
    return rearm(c);
  }
  fail_conn(c, ControlStatus::kPeerLost, WorkStatus::kFlushed, "this host shut down", false);
}

void ControlRole::fail_conn(Conn& c, ControlStatus status, WorkStatus work_status, const char* message,
                            bool tell_peer, Queued queued) {
  if (c.state >= ConnState::kRemoving) return;
  if (tell_peer && c.params.n_planes != 0) {
    Message m;
    m.type = CtrlType::kConnClose;
    m.status = CtrlStatus::kAborted;
    send_on(c, m, false);
  }
  half_open_.erase({c.half_open_since, c.params.index.v});
  c.state = ConnState::kRemoving;
  c.retry.active = false;
  for (auto& proof : c.proofs) proof.retry.active = false;
  c.unanswered.clear();
  for (const IpAddress& a : c.addresses) peers_.remove_address(a, c.params.index.v);
  c.addresses.clear();
  // The instance stays known until the roles have let go, so that a late CONN_REQ of this very
  // connection is still recognised.
  if (c.in_roles) {
    Command fail;
    fail.kind = CommandKind::kFailConn;
    fail.id = c.params.index.v;
    fail.status = static_cast<std::uint8_t>(work_status);
    command(c.group, Side::kTx, fail);
  }
  std::vector<StreamHandle> streams;
  for (const auto& [number, handle] : c.by_own) streams.push_back(handle);
  for (const StreamHandle h : streams) {
    Stream* s = stream_at(h);
    if (s == nullptr || s->state == StreamState::kFreed) continue;
    if (s->state == StreamState::kQueued && queued == Queued::kRequeue) {
      c.by_own.erase(s->own_number);
      s->on_conn = false;
      dispatch_connect(*s);
    } else {
      stream_conn_lost(*s, status, work_status, message);
    }
  }
  advance_conn(c);
}

void ControlRole::advance_conn(Conn& c) {
  if (c.state != ConnState::kRemoving || c.waits != 0) return;
  if (!c.by_own.empty()) return;  // the last stream comes back here
  if (c.in_roles) {
    c.in_roles = false;
    c.waits = 2;
    command(c.group, Side::kRx, CommandKind::kRemoveConn, Owner::kConn, c.params.index.v);
    command(c.group, Side::kTx, CommandKind::kRemoveConn, Owner::kConn, c.params.index.v);
    return;
  }
  if (c.instance_entered) {
    c.instance_entered = false;
    peers_.remove_instance(c.peer.instance, c.params.index.v);
  }
  if (c.linger_until > now_ && !shutting_down_) return rearm(c);
  free_conn(c);
}

void ControlRole::on_conn_timer(Conn& c) {
  if (c.state == ConnState::kRemoving) return advance_conn(c);
  if (c.state == ConnState::kHalfOpen && now_ >= c.half_open_since + host_.config.half_open_lifetime)
    return fail_conn(c, ControlStatus::kTimeout, WorkStatus::kRetryExceeded, "", true, Queued::kRequeue);
  if (c.retry.active && now_ >= c.retry.next) {
    if (c.state == ConnState::kConnecting) return repeat_conn_req(c);
    if (!repeat(c.retry))
      return fail_conn(c, ControlStatus::kPeerLost, WorkStatus::kFlushed, "this host shut down", false);
    Message m;
    m.type = CtrlType::kConnClose;
    m.serial = c.retry.serial;
    send_on(c, m, true);
  }
  bool proving = false;
  for (std::uint32_t i = 0; i < c.params.n_planes; ++i) {
    Retry& r = c.proofs[i].retry;
    if (r.active && now_ >= r.next && repeat(r)) send_rtu(c, i);
    proving |= r.active;
  }
  if (!proving && !c.confirmed && c.state == ConnState::kOpen)
    fail_conn(c, ControlStatus::kPeerLost, WorkStatus::kRetryExceeded,
              "the peer accepted the connection but never used it: check that packets pass both ways on "
              "every plane", true);
}

void ControlRole::shutdown(Nanos deadline) {
  if (shutting_down_) {
    shutdown_deadline_ = std::min(shutdown_deadline_, deadline);
    return;
  }
  shutting_down_ = true;
  shutdown_deadline_ = deadline;
  std::vector<std::uint32_t> services;
  for (const auto& [service, client] : listeners_) services.push_back(service);
  for (const std::uint32_t service : services) end_listener(service);
  for (StreamTable& t : streams_) {
    for (auto& slot : t.slots) {
      if (!slot) continue;
      Stream& s = *slot;
      if (s.state == StreamState::kQueued || s.state == StreamState::kOpening) {
        cancel_open(s, ControlStatus::kRefused, "this host is shutting down");
      } else if (s.state == StreamState::kOpen) {
        s.state = StreamState::kDraining;
        s.deadline = deadline;
        Command drain;
        drain.kind = CommandKind::kDrainStream;
        drain.id = s.handle;
        command(s.group, Side::kTx, drain);
        rearm(s);
      }
    }
  }
  for (auto& c : conns_) {
    if (!c) continue;
    if (c->state < ConnState::kOpen)
      fail_conn(*c, ControlStatus::kPeerLost, WorkStatus::kFlushed, "this host shut down", true);
    else if (c->state == ConnState::kRemoving)
      advance_conn(*c);
    else
      close_conn_if_idle(*c);
  }
}

void ControlRole::neighbour_changed(PlaneId plane, const IpAddress& peer) {
  for (const std::uint32_t i : peers_.at_address(peer)) {
    Conn* c = conn_at(ConnIndex{i});
    if (c == nullptr || !c->in_roles) continue;
    Command changed;
    changed.kind = CommandKind::kPeerAddress;
    changed.id = i;
    changed.path = plane.v;
    command(c->group, Side::kTx, changed);
  }
}

}  // namespace metaroce
