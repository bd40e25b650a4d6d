// The acceptor's side of opening streams: listeners, requests, answers and their repetition.
// The exchange as a whole: stream_open.cpp.
#include <algorithm>

#include "transport/control_role.h"

namespace metaroce {

using control::ConnState;
using control::CtrlStatus;
using control::kNoNumber;
using control::StreamState;
using wire::CtrlType;

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
    emit(ControlEventKind::kDone, token, id, ControlStatus::kNoSuchObject,
         "not a service of this client");
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
    if (s->state == StreamState::kRequested && s->service == service)
      reject_request(*s, CtrlStatus::kRefused);
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
    return refuse_open(c, m, src, CtrlStatus::kRefused);  // [MR-6.1.8]
  Stream* s =
      c.by_own.size() < host_.config.max_streams_per_connection ? new_stream(c.group) : nullptr;
  if (s == nullptr) {
    drop(DropReason::kCtrlLimit);
    return refuse_open(c, m, src, CtrlStatus::kLimit);  // [MR-6.1.9]
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
  reply(src, c.params.peer_port,
        open_answer(c, m.serial, m.stream.from, CtrlStatus::kPending, nullptr));  // [MR-6.1.6]
  emit_stream(ControlEventKind::kConnectRequest, std::nullopt, *s);
}

// Answers what was answered before; false for a new request. [MR-5.5.3] [MR-6.1.5]
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

void ControlRole::refuse_open(Conn& c, const Message& m, const PacketSource& src,
                              CtrlStatus status) {
  c.seen.mark(m.serial, static_cast<std::uint8_t>(status));
  reply(src, c.params.peer_port, open_answer(c, m.serial, m.stream.from, status, nullptr));
}

void ControlRole::accept(std::uint64_t token, ClientId id, std::uint64_t request,
                         const StreamAttr& attr) {
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

}  // namespace metaroce
