// Streams from connect() or STREAM_OPEN to open [MR-6.1]: the initiator, and what both
// sides share. The acceptor: stream_accept.cpp.
//
//   initiator                                         acceptor
//   STREAM_OPEN(service, number, spn, window)  ->     kConnectRequest to the listener's client
//                                              <-     STREAM_OPEN_RSP(pending), at once
//                                                     accept(): installs in RX and TX
//                                              <-     STREAM_OPEN_RSP(ok, number, spn, window)
//   installs in RX and TX, kConnected                 kDone
//
// - After `pending` the initiator asks again every 100 ms to 1 s until its deadline: this
//   carries a lost final answer, and does not use up the tries.
// - A repeated OPEN finds the stream's record, or else the answer that SerialWindow kept; one
//   too old for the window is answered `unknown`, which an initiator that waits takes for a
//   refusal and any other ignores.
// - A connect that is given up (deadline, client removed) is cancelled by STREAM_CLOSE with the
//   OPEN's serial and no number of the peer: see stream_close.cpp.
// - Streams wait in kQueued for their connection, or for a serial. A connection that fails
//   before a queued stream's OPEN left may hand the stream to another (fail_conn, kRequeue).
// - Credits in OPEN are 0: no receive can be posted to a stream that does not exist yet; the
//   first ACK or probe reply raises them.
#include <algorithm>

#include "transport/control_role.h"

namespace metaroce {

using control::ConnState;
using control::CtrlStatus;
using control::kNoNumber;
using control::StreamState;
using wire::CtrlType;

namespace {

constexpr Nanos kPendingPollMin = 100 * kMillisecond, kPendingPollMax = kSecond;

}  // namespace

// ---- initiator ------------------------------------------------------------------------------

void ControlRole::connect(std::uint64_t token, ClientId id, const IpAddress& peer,
                          std::uint32_t service, const StreamAttr& attr, Nanos deadline) {
  const auto fail = [&](ControlStatus status, const char* message) {
    emit(ControlEventKind::kConnected, token, id, status, message).peer = peer;
  };
  Client* client = client_at(id);
  if (client == nullptr || client->state != control::ObjectState::kReady)
    return fail(ControlStatus::kNoSuchObject, "no such client");
  if (const char* problem = attr_problem(*client, attr))
    return fail(ControlStatus::kInvalid, problem);
  if (shutting_down_) return fail(ControlStatus::kRefused, "this host is shutting down");
  bool same_family = false;
  for (const HostPlane& p : host_.planes) {
    same_family |= p.address.v6 == peer.v6;
    if (p.address == peer)
      return fail(ControlStatus::kUnreachable,
                  "that is an address of this host: connect to another one");
  }
  if (!same_family)
    return fail(
        ControlStatus::kUnreachable,
        peer.v6 ? "no plane of this host has an IPv6 address: connect by the peer's IPv4 address"
                : "no plane of this host has an IPv4 address: connect by the peer's IPv6 address");
  Stream* s = new_stream(next_group_++ % host_.groups);  // [MR-6.1.10]
  if (s == nullptr) return fail(ControlStatus::kLimit, "max_streams is reached");
  s->initiator = true;
  s->client = id;
  s->service = service;
  s->attr = attr;
  s->target = peer;
  s->token = token;
  s->deadline = deadline;
  client->streams.insert(s->handle);
  use_cqs(*s);
  dispatch_connect(*s);
}

// Finds or starts the connection for a stream that has none.
void ControlRole::dispatch_connect(Stream& s) {
  s.state = StreamState::kQueued;
  Conn* c = shutting_down_ ? nullptr : find_conn(s.target, s.group);
  if (c == nullptr && !shutting_down_) c = start_connecting(s.target, s.group);
  if (c == nullptr) {
    fail_connect(s, ControlStatus::kLimit, "max_connections is reached");
    return free_stream(s);
  }
  if (!put_on_conn(s, *c)) {
    fail_connect(s, ControlStatus::kLimit, "max_streams_per_connection is reached with this peer");
    return free_stream(s);
  }
  rearm(s);
  if (c->state == ConnState::kOpen) try_open(s);
}

// [MR-6.1.3]
bool ControlRole::put_on_conn(Stream& s, Conn& c) {
  if (c.by_own.size() >= host_.config.max_streams_per_connection) return false;
  // Below max_streams_per_connection: the roles index a table with it. In rotation: a number rests
  // as long as possible before a new stream gets it.
  std::uint16_t number = c.next_number;
  const auto after = [&](std::uint16_t n) {
    return static_cast<std::uint16_t>(n + 1U < host_.config.max_streams_per_connection ? n + 1U
                                                                                       : 0);
  };
  while (c.by_own.contains(number)) number = after(number);
  c.next_number = after(number);
  c.by_own[number] = s.handle;
  s.on_conn = true;
  s.conn = c.params.index;
  s.own_number = number;
  return true;
}

void ControlRole::fail_connect(Stream& s, ControlStatus status, const char* message) {
  if (s.token) emit_stream(ControlEventKind::kConnected, s.token, s, status, message);
  s.token.reset();
}

void ControlRole::try_open(Stream& s) {
  Conn& c = *conn_at(s.conn);
  if (!take_serial(c, s.open_serial)) return;
  s.state = StreamState::kOpening;
  start(s.retry, s.open_serial);
  send_open(s, false);
  rearm(s);
}

// [MR-6.1.1]
void ControlRole::send_open(Stream& s, bool rotate) {
  Message m;
  m.type = CtrlType::kStreamOpen;
  m.serial = s.open_serial;
  m.stream.service = s.service;
  m.stream.from = s.own_number;
  m.stream.open_serial = s.open_serial;
  m.stream.window = host_.config.spn_window;
  m.stream.initial_spn = s.params.own_initial_spn;
  m.stream.flags = s.attr.ordered_last ? control::kStreamOrdered : std::uint8_t{0};
  m.stream.private_data = s.attr.private_data;
  send_on(*conn_at(s.conn), m, rotate);
}

void ControlRole::on_stream_open_rsp(Conn& c, const Message& m) {
  const auto it = c.by_own.find(m.stream.to);
  Stream* s = it == c.by_own.end() ? nullptr : stream_at(it->second);
  // [MR-5.5.4]
  if (s == nullptr || s->state != StreamState::kOpening || s->open_serial != m.serial)
    return drop(DropReason::kCtrlUnexpected);
  serial_answered(c, m.serial);
  switch (m.status) {
    case CtrlStatus::kPending:
      s->pending = true;  // [MR-6.1.7]
      s->retry.tries = 0;
      s->retry.interval = std::clamp(s->retry.interval, kPendingPollMin, kPendingPollMax);
      s->retry.next = now_ + s->retry.interval;
      return rearm(*s);
    case CtrlStatus::kOk: {
      s->retry.active = false;
      s->peer = m.stream;
      const auto taken = c.by_peer.find(m.stream.from);
      if (m.stream.from == kNoNumber ||
          (taken != c.by_peer.end() && stream_at(taken->second)->state < StreamState::kLinger)) {
        drop(DropReason::kCtrlMalformed);
        return cancel_open(*s, ControlStatus::kRefused,
                           "the peer answered with a stream number in use");
      }
      release_peer_number(c, m.stream.from);
      s->peer_number = m.stream.from;
      c.by_peer[s->peer_number] = s->handle;
      return install_stream(*s);  // [MR-6.1.4]
    }
    case CtrlStatus::kLimit:
      fail_connect(*s, ControlStatus::kLimit,
                   "the peer has no room for another stream: raise its max_streams");
      break;
    default:
      fail_connect(*s, ControlStatus::kRefused,
                   "nobody listens on that service of the peer, or it rejected");
      break;
  }
  free_stream(*s);
}

// The peer gives a number of an earlier stream, which lingers here only, to a new one.
void ControlRole::release_peer_number(Conn& c, std::uint16_t number) {
  const auto it = c.by_peer.find(number);
  if (it == c.by_peer.end()) return;
  stream_at(it->second)->peer_number = kNoNumber;
  c.by_peer.erase(it);
}

void ControlRole::cancel_open(Stream& s, ControlStatus status, const char* message) {
  fail_connect(s, status, message);
  if (s.state == StreamState::kQueued) return free_stream(s);
  s.retry.active = false;
  serial_answered(*conn_at(s.conn), s.open_serial);
  detach_client(s);
  s.state = StreamState::kClosing;
  advance_stream(s);
  rearm(s);
}

// ---- both -----------------------------------------------------------------------------------

void ControlRole::install_stream(Stream& s) {
  StreamParams& p = s.params;
  p.conn = s.conn;
  p.own_number = s.own_number;
  p.peer_number = s.peer_number;
  p.handle = s.handle;
  p.client = s.client;
  p.pd = s.client.v;  // one protection domain per client [MR-10.1.2]
  p.peer_initial_spn = s.peer.initial_spn;
  p.send_window = s.peer.window;
  p.recv_window = host_.config.spn_window;
  p.peer_rqn_limit = RecvNumber{s.peer.credits};
  p.send_depth = s.attr.send_depth;
  p.recv_depth = s.attr.recv_depth;
  p.send_cq = s.attr.send_cq;
  p.recv_cq = s.attr.recv_cq;
  p.ordered_last = s.attr.ordered_last;
  s.state = StreamState::kInstalling;
  s.in_roles = true;
  s.waits = 2;
  command(s.group, Side::kRx, CommandKind::kAddStream, Owner::kStream, s.handle, &p);
  command(s.group, Side::kTx, CommandKind::kAddStream, Owner::kStream, s.handle, &p);
  rearm(s);
}

void ControlRole::on_stream_installed(Stream& s) {
  Conn& c = *conn_at(s.conn);
  const ControlEventKind kind =
      s.initiator ? ControlEventKind::kConnected : ControlEventKind::kDone;
  if (s.install_failed) {
    s.down_status = ControlStatus::kLimit;
    s.down_message = "the worker group has no room for another stream: raise max_streams";
    if (!s.initiator && !s.conn_dead) {
      s.close_done = true;  // the peer has no stream to close
      if (c.seen.look(s.open_serial) != control::SerialWindow::Verdict::kOutside)
        c.seen.mark(s.open_serial, static_cast<std::uint8_t>(CtrlStatus::kLimit));
      Message r = open_answer(c, s.open_serial, s.peer_number, CtrlStatus::kLimit, nullptr);
      send_on(c, r, false);
    }
    s.state = StreamState::kClosing;
    return advance_stream(s);
  }
  s.rx_running = s.tx_running = true;
  s.state = StreamState::kOpen;
  if (s.conn_dead || s.detach) return begin_close(s);
  if (!s.initiator) {
    Message r = open_answer(c, s.open_serial, s.peer_number, CtrlStatus::kOk, &s);
    send_on(c, r, false);
  }
  emit_stream(kind, s.token, s);
  s.token.reset();
  if (s.peer_closed || shutting_down_) begin_close(s);
}

}  // namespace metaroce
