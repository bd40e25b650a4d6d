// Streams from connect() or STREAM_OPEN to open (protocol.md 3).
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

constexpr std::uint32_t kMaxDepth = 1U << 16;
constexpr std::uint32_t kGenerations = 1U << (32 - kStreamSlotBits);
constexpr Nanos kPendingPollMin = 100 * kMillisecond, kPendingPollMax = kSecond;

}  // namespace

// ---- table ---------------------------------------------------------------------------------------

ControlRole::Stream* ControlRole::new_stream(std::uint32_t group) {
  StreamTable& t = streams_[group];
  if (t.free.empty()) return nullptr;
  const std::uint32_t slot = t.free.front();
  t.free.pop_front();
  std::uint32_t generation = t.generation[slot] + host_.groups;
  if (generation >= kGenerations) generation = group + host_.groups;
  t.generation[slot] = static_cast<std::uint16_t>(generation);
  t.slots[slot] = std::make_unique<Stream>();
  ++counts_.streams;
  Stream& s = *t.slots[slot];
  s.group = group;
  s.handle = slot | (generation << kStreamSlotBits);
  s.params.own_initial_spn = StreamSeq{static_cast<std::uint32_t>(io_.secret_random())};
  return &s;
}

ControlRole::Stream* ControlRole::stream_at(StreamHandle h) {
  StreamTable& t = streams_[(h >> kStreamSlotBits) % host_.groups];
  const std::uint32_t slot = stream_slot(h);
  if (slot >= t.slots.size() || !t.slots[slot] || t.slots[slot]->handle != h) return nullptr;
  return t.slots[slot].get();
}

// A stream that the client knows of: open or later.
ControlRole::Stream* ControlRole::own_stream(ClientId client, StreamHandle h) {
  Stream* s = stream_at(h);
  if (s == nullptr || !s->attached || s->client != client) return nullptr;
  return s->state < StreamState::kOpen ? nullptr : s;
}

void ControlRole::free_stream(Stream& s) {
  if (s.state == StreamState::kFreed) return;
  detach_client(s);
  s.state = StreamState::kFreed;
  rearm(s);
  StreamTable& t = streams_[s.group];
  const std::uint32_t slot = stream_slot(s.handle);
  freed_streams_.push_back(std::move(t.slots[slot]));
  t.free.push_back(slot);
  --counts_.streams;
  if (!s.on_conn) return;
  Conn& c = *conn_at(s.conn);
  c.by_own.erase(s.own_number);
  const auto peer = c.by_peer.find(s.peer_number);
  if (peer != c.by_peer.end() && peer->second == s.handle) c.by_peer.erase(peer);
  if (s.retry.active) serial_answered(c, s.retry.serial);
  advance_conn(c);
  close_conn_if_idle(c);
}

void ControlRole::use_cqs(Stream& s) {
  s.uses_cqs = true;
  ++cqs_.at(s.attr.send_cq)->users;
  ++cqs_.at(s.attr.recv_cq)->users;
}

void ControlRole::release_cqs(Stream& s) {
  if (!s.uses_cqs) return;
  s.uses_cqs = false;
  --cqs_.at(s.attr.send_cq)->users;
  --cqs_.at(s.attr.recv_cq)->users;
}

// What is wrong with the attributes that a client gives; nullptr when nothing is.
const char* ControlRole::attr_problem(const Client& client, const StreamAttr& a) const {
  for (const std::uint32_t id : {a.send_cq, a.recv_cq}) {
    const auto it = cqs_.find(id);
    if (it == cqs_.end() || it->second->client != client.id ||
        it->second->state != control::ObjectState::kReady)
      return "send_cq and recv_cq must be completion queues of this client";
  }
  if (a.send_depth == 0 || a.recv_depth == 0 || a.send_depth > kMaxDepth || a.recv_depth > kMaxDepth)
    return "send_depth and recv_depth must be 1 to 65536";
  if (a.private_data.length > kMaxPrivateData) return "private data is limited to 128 bytes";
  return nullptr;
}

// ---- initiator -----------------------------------------------------------------------------------

void ControlRole::connect(std::uint64_t token, ClientId id, const IpAddress& peer, std::uint32_t service,
                          const StreamAttr& attr, Nanos deadline) {
  const auto fail = [&](ControlStatus status, const char* message) {
    emit(ControlEventKind::kConnected, token, id, status, message).peer = peer;
  };
  Client* client = client_at(id);
  if (client == nullptr || client->state != control::ObjectState::kReady)
    return fail(ControlStatus::kNoSuchObject, "no such client");
  if (const char* problem = attr_problem(*client, attr)) return fail(ControlStatus::kInvalid, problem);
  if (shutting_down_) return fail(ControlStatus::kRefused, "this host is shutting down");
  bool same_family = false;
  for (const HostPlane& p : host_.planes) {
    same_family |= p.address.v6 == peer.v6;
    if (p.address == peer)
      return fail(ControlStatus::kUnreachable, "that is an address of this host: connect to another one");
  }
  if (!same_family)
    return fail(ControlStatus::kUnreachable,
                peer.v6 ? "no plane of this host has an IPv6 address: connect by the peer's IPv4 address"
                        : "no plane of this host has an IPv4 address: connect by the peer's IPv6 address");
  Stream* s = new_stream(next_group_++ % host_.groups);
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

bool ControlRole::put_on_conn(Stream& s, Conn& c) {
  if (c.by_own.size() >= host_.config.max_streams_per_connection) return false;
  // Below max_streams_per_connection: the roles index a table with it. In rotation: a number rests
  // as long as possible before a new stream gets it.
  std::uint16_t number = c.next_number;
  const auto after = [&](std::uint16_t n) {
    return static_cast<std::uint16_t>(n + 1U < host_.config.max_streams_per_connection ? n + 1U : 0);
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
  if (s == nullptr || s->state != StreamState::kOpening || s->open_serial != m.serial)
    return drop(DropReason::kCtrlUnexpected);
  serial_answered(c, m.serial);
  switch (m.status) {
    case CtrlStatus::kPending:
      s->pending = true;
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
        return cancel_open(*s, ControlStatus::kRefused, "the peer answered with a stream number in use");
      }
      release_peer_number(c, m.stream.from);
      s->peer_number = m.stream.from;
      c.by_peer[s->peer_number] = s->handle;
      return install_stream(*s);
    }
    case CtrlStatus::kLimit:
      fail_connect(*s, ControlStatus::kLimit, "the peer has no room for another stream: raise its max_streams");
      break;
    default:
      fail_connect(*s, ControlStatus::kRefused, "nobody listens on that service of the peer, or it rejected");
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

// ---- acceptor ------------------------------------------------------------------------------------

void ControlRole::listen(std::uint64_t token, ClientId id, std::uint32_t service) {
  Client* client = ready_client(token, id);
  if (client == nullptr) return;
  if (shutting_down_) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kRefused, "this host is shutting down");
    return;
  }
  if (!listeners_.emplace(service, id).second) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kInUse,
         "that service has a listener already: choose another number");
    return;
  }
  client->services.insert(service);
  emit(ControlEventKind::kDone, token, id).service = service;
}

void ControlRole::unlisten(std::uint64_t token, ClientId id, std::uint32_t service) {
  Client* client = ready_client(token, id);
  if (client == nullptr) return;
  if (!client->services.contains(service)) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kNoSuchObject, "not a service of this client");
    return;
  }
  end_listener(service);
  emit(ControlEventKind::kDone, token, id).service = service;
}

// Ends the listener and rejects what it had not answered.
void ControlRole::end_listener(std::uint32_t service) {
  const auto it = listeners_.find(service);
  Client& client = *client_at(it->second);
  listeners_.erase(it);
  client.services.erase(service);
  const std::vector<StreamHandle> streams(client.streams.begin(), client.streams.end());
  for (const StreamHandle h : streams) {
    Stream* s = stream_at(h);
    if (s->state == StreamState::kRequested && s->service == service) reject_request(*s, CtrlStatus::kRefused);
  }
}

void ControlRole::on_stream_open(Conn& c, const Message& m, const PacketSource& src) {
  if (m.stream.from == kNoNumber || m.stream.open_serial != m.serial)
    return drop(DropReason::kCtrlMalformed);
  if (answer_repeated_open(c, m, src)) return;
  const auto taken = c.by_peer.find(m.stream.from);
  if (taken != c.by_peer.end() && stream_at(taken->second)->state < StreamState::kLinger)
    return drop(DropReason::kCtrlUnexpected);
  const auto listener = listeners_.find(m.stream.service);
  if (listener == listeners_.end() || shutting_down_ || c.state != ConnState::kOpen)
    return refuse_open(c, m, src, CtrlStatus::kRefused);
  Stream* s = c.by_own.size() < host_.config.max_streams_per_connection ? new_stream(c.group) : nullptr;
  if (s == nullptr) {
    drop(DropReason::kCtrlLimit);
    return refuse_open(c, m, src, CtrlStatus::kLimit);
  }
  put_on_conn(*s, c);
  release_peer_number(c, m.stream.from);
  c.seen.mark(m.serial, static_cast<std::uint8_t>(CtrlStatus::kUnknown));
  s->state = StreamState::kRequested;
  s->client = listener->second;
  s->service = m.stream.service;
  s->peer = m.stream;
  s->target = c.target;
  s->peer_number = m.stream.from;
  s->open_serial = m.serial;
  c.by_peer[s->peer_number] = s->handle;
  client_at(s->client)->streams.insert(s->handle);
  reply(src, c.params.peer_port, open_answer(c, m.serial, m.stream.from, CtrlStatus::kPending, nullptr));
  emit_stream(ControlEventKind::kConnectRequest, std::nullopt, *s);
}

// Answers what was answered before; false for a new request.
bool ControlRole::answer_repeated_open(Conn& c, const Message& m, const PacketSource& src) {
  const auto it = c.by_peer.find(m.stream.from);
  const Stream* s = it == c.by_peer.end() ? nullptr : stream_at(it->second);
  CtrlStatus status = CtrlStatus::kUnknown;
  const Stream* accepted = nullptr;
  if (s != nullptr && !s->initiator && s->open_serial == m.serial) {
    if (s->state < StreamState::kOpen) {
      status = CtrlStatus::kPending;
    } else if (s->state <= StreamState::kDraining) {
      status = CtrlStatus::kOk;
      accepted = s;
    }
  } else {
    const control::SerialWindow::Verdict v = c.seen.look(m.serial);
    if (v == control::SerialWindow::Verdict::kNew) return false;
    if (v == control::SerialWindow::Verdict::kSeen)
      status = static_cast<CtrlStatus>(c.seen.answer(m.serial));
  }
  reply(src, c.params.peer_port, open_answer(c, m.serial, m.stream.from, status, accepted));
  return true;
}

ControlRole::Message ControlRole::open_answer(const Conn& c, std::uint32_t serial, std::uint16_t to,
                                              CtrlStatus status, const Stream* accepted) {
  Message r;
  r.type = CtrlType::kStreamOpenRsp;
  r.status = status;
  r.crc = c.params.crc;
  r.dcid = c.params.peer_dcid;
  r.scid = c.params.own_dcid;
  r.serial = serial;
  r.conn_epoch = c.epoch;
  r.stream.to = to;
  r.stream.open_serial = serial;
  if (accepted != nullptr) {
    r.stream.from = accepted->own_number;
    r.stream.window = host_.config.spn_window;
    r.stream.initial_spn = accepted->params.own_initial_spn;
    r.stream.flags = accepted->attr.ordered_last ? control::kStreamOrdered : std::uint8_t{0};
    r.stream.private_data = accepted->attr.private_data;
  }
  return r;
}

void ControlRole::refuse_open(Conn& c, const Message& m, const PacketSource& src, CtrlStatus status) {
  c.seen.mark(m.serial, static_cast<std::uint8_t>(status));
  reply(src, c.params.peer_port, open_answer(c, m.serial, m.stream.from, status, nullptr));
}

void ControlRole::accept(std::uint64_t token, ClientId id, std::uint64_t request, const StreamAttr& attr) {
  Client* client = ready_client(token, id);
  if (client == nullptr) return;
  Stream* s = request <= UINT32_MAX ? stream_at(static_cast<StreamHandle>(request)) : nullptr;
  if (s == nullptr || s->client != id || s->state != StreamState::kRequested) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kNoSuchObject,
         "no such request: the peer has given up, or it was answered before");
    return;
  }
  if (const char* problem = attr_problem(*client, attr)) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kInvalid, problem);
    return;
  }
  s->attr = attr;
  s->token = token;
  use_cqs(*s);
  install_stream(*s);
}

void ControlRole::reject(ClientId id, std::uint64_t request) {
  Stream* s = request <= UINT32_MAX ? stream_at(static_cast<StreamHandle>(request)) : nullptr;
  if (s == nullptr || s->client != id || s->state != StreamState::kRequested) return;
  reject_request(*s, CtrlStatus::kRefused);
}

void ControlRole::reject_request(Stream& s, CtrlStatus status) {
  Conn& c = *conn_at(s.conn);
  if (c.seen.look(s.open_serial) != control::SerialWindow::Verdict::kOutside)
    c.seen.mark(s.open_serial, static_cast<std::uint8_t>(status));
  Message r = open_answer(c, s.open_serial, s.peer_number, status, nullptr);
  send_on(c, r, false);
  free_stream(s);
}

// ---- both ----------------------------------------------------------------------------------------

void ControlRole::install_stream(Stream& s) {
  StreamParams& p = s.params;
  p.conn = s.conn;
  p.own_number = s.own_number;
  p.peer_number = s.peer_number;
  p.handle = s.handle;
  p.client = s.client;
  p.pd = s.client.v;  // one protection domain per client
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
  const ControlEventKind kind = s.initiator ? ControlEventKind::kConnected : ControlEventKind::kDone;
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
