// The end of a connection: closed in order, failed, or replaced; and of all of them, shutdown.
//
// - CONN_CLOSE(ok) ends an idle connection; busy while a stream is open or opening. The closed
//   record stays as long as a CLOSE may be repeated, to answer it. CONN_CLOSE(aborted) is sent
//   once, unanswered, by a side that lost the connection, so that the other need not time out.
// - Order towards the roles: TX fails what is outstanding (kFailConn), the streams stop and leave,
//   then the connection leaves both roles, then the record is freed and its dcid's generation
//   never repeats at once.
#include <algorithm>

#include "transport/control_role.h"

namespace metaroce {

using control::ConnState;
using control::CtrlStatus;
using control::StreamState;
using wire::CtrlType;

bool ControlRole::has_live_streams(const Conn& c) const {
  for (const auto& [number, handle] : c.by_own) {
    const Stream* s = const_cast<ControlRole*>(this)->stream_at(handle);
    if (s->state < StreamState::kLinger) return true;
  }
  return false;
}

// [MR-5.6.2]
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
  // [MR-6.7.6]
  if (c.state != ConnState::kRemoving && has_live_streams(c)) r.status = CtrlStatus::kBusy;
  reply(src, c.params.peer_port, r);
  if (r.status == CtrlStatus::kBusy || c.state == ConnState::kRemoving) return;
  c.peer_closed = true;
  c.linger_until = now_ + long_linger();
  fail_conn(c, ControlStatus::kPeerLost, WorkStatus::kFlushed, "the peer closed the connection",
            false, Queued::kRequeue);
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
  // [MR-5.5.4] [MR-10.1.4]
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

void ControlRole::fail_conn(Conn& c, ControlStatus status, WorkStatus work_status,
                            const char* message, bool tell_peer, Queued queued) {
  if (c.state >= ConnState::kRemoving) return;
  if (tell_peer && c.params.n_planes != 0) {
    Message m;
    m.type = CtrlType::kConnClose;
    m.status = CtrlStatus::kAborted;
    send_on(c, m, false);
  }
  half_open_.erase({c.half_open_since, c.params.index.v});
  c.state = ConnState::kRemoving;
  c.retry.active = c.port_retry.active = false;
  for (auto& proof : c.proofs) proof.retry.active = false;
  c.unanswered.clear();
  for (const IpAddress& a : c.addresses) peers_.remove_address(a, c.params.index.v);
  c.addresses.clear();
  // The instance stays known until the roles have let go, so that a late CONN_REQ of this very
  // connection is still recognised.
  if (c.in_roles) {
    Command fail;
    fail.kind = CommandKind::kFailConn;  // [MR-6.7.7]
    fail.id = c.params.index.v;
    fail.status = static_cast<std::uint8_t>(work_status);
    command(c.group, Side::kTx, fail);
  }
  std::vector<StreamHandle> streams;
  for (const auto& [number, handle] : c.by_own) streams.push_back(handle);
  for (const StreamHandle h : streams) {
    Stream* s = stream_at(h);
    if (s == nullptr || s->state == StreamState::kFreed) continue;
    const bool unanswered = s->state == StreamState::kOpening && !s->pending;
    if ((s->state == StreamState::kQueued && queued != Queued::kFail) ||
        (unanswered && queued == Queued::kRequeueOpening)) {
      c.by_own.erase(s->own_number);
      s->on_conn = false;
      s->retry.active = false;
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
  if (c.state == ConnState::kHalfOpen &&
      now_ >= c.half_open_since + host_.config.half_open_lifetime)  // [MR-5.2.7]
    return fail_conn(c, ControlStatus::kTimeout, WorkStatus::kRetryExceeded, "", true,
                     Queued::kRequeue);
  if (c.retry.active && now_ >= c.retry.next) {
    if (c.state == ConnState::kConnecting) return repeat_conn_req(c);
    if (!repeat(c.retry))
      return fail_conn(c, ControlStatus::kPeerLost, WorkStatus::kFlushed, "this host shut down",
                       false);
    Message m;
    m.type = CtrlType::kConnClose;
    m.serial = c.retry.serial;
    send_on(c, m, true);
  }
  if (c.port_retry.active && now_ >= c.port_retry.next && repeat(c.port_retry))
    send_port_status(c, true);
  bool proving = false;
  for (std::uint32_t i = 0; i < c.params.n_planes; ++i) {
    Retry& r = c.proofs[i].retry;
    if (r.active && now_ >= r.next && repeat(r)) send_rtu(c, i);
    proving |= r.active;
  }
  if (!proving && !c.confirmed && c.state == ConnState::kOpen)
    fail_conn(
        c, ControlStatus::kPeerLost, WorkStatus::kRetryExceeded,
        "the peer accepted the connection but never used it: check that packets pass both ways on "
        "every plane",
        true);
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

// By the planes that a connection uses, not by the addresses that it has proven: a plane without a
// neighbour has proven nothing yet.
void ControlRole::neighbour_changed(PlaneId plane, const IpAddress& peer) {
  for (const auto& c : conns_) {
    if (!c || !c->in_roles) continue;
    const PlanePair* planes = c->params.planes.data();
    const bool uses = std::any_of(planes, planes + c->params.n_planes, [&](const PlanePair& p) {
      return p.plane == plane && p.peer == peer;
    });
    if (!uses) continue;
    Command changed;
    changed.kind = CommandKind::kPeerAddress;
    changed.id = c->params.index.v;
    changed.path = plane.v;
    command(c->group, Side::kTx, changed);
  }
}

}  // namespace metaroce
