// An installed connection [MR-5.2] [MR-5.5]. Its end: conn_end.cpp.
//
// - CONN_RTU(nonce in `cookie`) / CONN_RTU_ACK(the same): each side sends one on every plane when
//   it opens. The asker's first one opens the asked side; an answered one proves that the peer
//   receives at that plane's address (peer_table.h). Planes without an answer stay unproven and
//   carry no control packets; when the asker gets no sign of life at all, the connection fails.
// - A packet on a connection must carry its dcid with generation, its epoch, the peer's dcid and
//   an address of the peer; the first such packet opens a half-open connection.
// - Requests take ascending serials; at most kSpan / 2 beyond the oldest unanswered one.
// - Two open connections of one pair of (instance, group): if the asker of one asked after it had
//   answered the other, it has lost the other, which fails. Otherwise they crossed on different
//   planes: the lower instance's stays, the other retires (no new streams, closed when idle).
// - A new instance at a proven address fails the older instance's connections at once. A peer
//   that leaves STREAM_OPENs unanswered is asked who it is by a CONN_REQ (probe_instance): the
//   RETRY of the same instance ends the question, that of another begins its connection.
#include <algorithm>

#include "transport/control_role.h"

namespace metaroce {

using control::ConnState;
using control::StreamState;
using wire::CtrlType;

// ---- packets --------------------------------------------------------------------------------

void ControlRole::on_conn_packet(Conn& c, const Message& m, const PacketSource& src) {
  if (m.scid != c.params.peer_dcid) return drop(DropReason::kCtrlUnexpected);
  bool known = false;
  for (std::uint32_t i = 0; i < c.params.n_planes; ++i) known |= c.params.planes[i].peer == src.src;
  if (!known) return drop(DropReason::kSourceAddress);        // [MR-5.5.6]
  if (c.params.crc && !m.crc) return drop(DropReason::kCrc);  // [MR-3.2.3]
  if (c.state == ConnState::kRemoving) {
    if (m.type == CtrlType::kConnClose && c.peer_closed) return on_conn_close(c, m, src);
    return drop(DropReason::kStaleConn);  // [MR-5.6.3]
  }
  if (c.state < ConnState::kHalfOpen) return drop(DropReason::kCtrlUnexpected);
  c.confirmed = true;
  if (m.type == CtrlType::kConnClose) return on_conn_close(c, m, src);  // never opens
  if (c.state == ConnState::kHalfOpen) open_conn(c);                    // [MR-5.2.8]
  // Requests are answered, replies are not. [MR-10.2.4]
  switch (m.type) {
    case CtrlType::kConnRtu: {  // [MR-5.2.10] [MR-10.2.3]
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
    case CtrlType::kConnRtuAck:
      return on_rtu_ack(c, m, src);
    case CtrlType::kConnCloseRsp:
      return on_conn_close_rsp(c, m);
    case CtrlType::kStreamOpen:
      return on_stream_open(c, m, src);
    case CtrlType::kStreamOpenRsp:
      return on_stream_open_rsp(c, m);
    case CtrlType::kStreamClose:
      return on_stream_close(c, m, src);
    case CtrlType::kStreamCloseRsp:
      return on_stream_close_rsp(c, m);
    case CtrlType::kPortStatus:
      return on_port_status(c, m, src);
    case CtrlType::kPortStatusRsp:
      return on_port_status_rsp(c, m);
    default:
      return drop(DropReason::kCtrlMalformed);  // [MR-1.2.1] [MR-3.9.2]
  }
}

void ControlRole::send_on(Conn& c, Message& m, bool rotate) {
  if (rotate) next_control_plane(c);
  m.crc = c.params.crc;  // [MR-3.2.1]
  m.dcid = c.params.peer_dcid;
  m.scid = c.params.own_dcid;
  m.conn_epoch = c.epoch;
  control::CtrlBytes bytes;
  const std::uint32_t n = control::encode_ctrl(m, to_wire_time(now_), bytes);
  const PlanePair& p = c.params.planes[c.control_plane];
  if (!io_.send_to(p.plane, p.local, p.peer, entropy_port(), c.params.peer_port, {bytes.data(), n}))
    drop(DropReason::kNeighbourUnresolved);
}

// ---- opening --------------------------------------------------------------------------------

void ControlRole::open_conn(Conn& c) {
  half_open_.erase({c.half_open_since, c.params.index.v});
  c.state = ConnState::kOpen;
  Command open;
  open.kind = CommandKind::kOpenConn;  // [MR-5.2.9]
  open.id = c.params.index.v;
  command(c.group, Side::kTx, open);
  enter_address(c, c.target);
  start_proofs(c);
  tell_down_ports(c);
  settle_duplicates(c);
  kick_queued(c);
  close_conn_if_idle(c);
  rearm(c);
}

// Ends what the newly open connection replaces. [MR-5.2.12]
void ControlRole::settle_duplicates(Conn& c) {
  for (const std::uint32_t i : peers_.at_address(c.target)) {
    Conn* o = conn_at(ConnIndex{i});
    if (o == nullptr || o == &c || !o->instance_entered || o->peer.instance == c.peer.instance)
      continue;
    fail_conn(*o, ControlStatus::kPeerLost, WorkStatus::kRetryExceeded,
              "the peer restarted: connect again", false, Queued::kRequeueOpening);
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
    // [MR-5.1.2]
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

void ControlRole::probe_instance(Conn& c) {
  for (const std::uint32_t i : peers_.at_address(c.target))
    if (conns_[i]->state == ConnState::kConnecting) return;
  start_connecting(c.target, c.group);
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
    c.proofs[i].nonce = io_.secret_random();  // [MR-10.1.1]
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
    if (!proof.retry.active || proof.nonce != m.cookie || c.params.planes[i].peer != src.src)
      continue;
    proof.retry.active = false;
    proof.proven = true;  // [MR-5.2.26]
    enter_address(c, src.src);
    return rearm(c);
  }
  drop(DropReason::kCtrlUnexpected);
}

// ---- serials --------------------------------------------------------------------------------

bool ControlRole::take_serial(Conn& c, std::uint32_t& serial) {
  if (!c.unanswered.empty() &&
      // [MR-5.5.8]
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
    if (s->state == StreamState::kQueued || s->state == StreamState::kClosing)
      waiting.push_back(handle);
  }
  for (const StreamHandle h : waiting) {
    Stream* s = stream_at(h);
    if (s == nullptr) continue;
    if (s->state == StreamState::kQueued)
      try_open(*s);
    else if (s->waits == 0)
      advance_stream(*s);
  }
}

}  // namespace metaroce
