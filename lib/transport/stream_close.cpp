// Streams from open to freed [MR-6.7].
//
//   close(): drain TX until the deadline, stop RX (its final cumulative spn), then
//   STREAM_CLOSE(final)                        ->     stops RX and TX with that spn: what lies
//   below
//                                                     completes as success, the rest is flushed
//                                              <-     STREAM_CLOSE_RSP(final)
//   stops TX with that spn, kDone                     kStreamDown
//
// - Both sides then linger, still in the roles, so that late packets are acknowledged again: the
//   closer stream_linger, the other as long as a CLOSE may be repeated, from the last one.
// - A STREAM_CLOSE names both numbers and the serial of the OPEN, which tells the lives of a
//   reused number apart. Without the receiver's number it cancels an OPEN; when it overtakes the
//   OPEN, the OPEN's serial is marked as processed.
// - Crossing CLOSEs: each answers the other, and takes it as the reply to its own.
// - The roles' part of closing (stop_roles) runs in this order whatever the reason: RX stops; TX
//   stops once the peer's final spn is known or will never be; a removed client's stream leaves
//   the roles at once. Then the peer is answered, the application told.
// - A peer that answers none of the repeated CLOSEs is gone: the connection fails.
#include <algorithm>

#include "transport/control_role.h"

namespace metaroce {

using control::CtrlStatus;
using control::kNoNumber;
using control::StreamState;
using wire::CtrlType;

namespace {
constexpr Nanos kPendingPollMax = kSecond;
constexpr std::uint32_t kProbeAfterTries = 3;  // 70 ms with the default first repetition
}  // namespace

// ---- the application's side -----------------------------------------------------------------

void ControlRole::close(std::uint64_t token, ClientId id, StreamHandle handle,
                        Nanos drain_deadline) {
  if (ready_client(token, id) == nullptr) return;
  Stream* s = own_stream(id, handle);
  if (s == nullptr) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kNoSuchObject,
         "not a stream of this client");
    return;
  }
  if (s->state >= StreamState::kLinger) return emit_stream(ControlEventKind::kDone, token, *s);
  if (s->close_token) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kInvalid,
         "the stream is being closed already");
    return;
  }
  s->close_token = token;
  if (s->state == StreamState::kClosing) return;  // failed or closed by the peer: ends there
  if (drain_deadline <= now_) return begin_close(*s);
  s->deadline =
      s->state == StreamState::kDraining ? std::min(s->deadline, drain_deadline) : drain_deadline;
  s->state = StreamState::kDraining;
  Command drain;
  drain.kind = CommandKind::kDrainStream;
  drain.id = handle;
  command(s->group, Side::kTx, drain);
  rearm(*s);
}

// [MR-6.6.5]
void ControlRole::on_stream_failed(Stream& s, WorkStatus status) {
  if (s.state != StreamState::kOpen && s.state != StreamState::kDraining) return;
  s.failure = status;
  s.down_status = ControlStatus::kPeerLost;
  s.down_message = "the stream failed: the work status of its first completion in error says why";
  if (s.attached && !s.close_token) {
    emit_stream(ControlEventKind::kStreamDown, std::nullopt, s, s.down_status, s.down_message);
    s.down_sent = true;
  }
  begin_close(s);
}

void ControlRole::detach_client(Stream& s) {
  if (!s.attached) return;
  s.attached = false;
  release_cqs(s);
  const char* const why = "the client was removed";
  if (s.token)
    emit_stream(s.initiator ? ControlEventKind::kConnected : ControlEventKind::kDone, s.token, s,
                ControlStatus::kNoSuchObject, why);
  if (s.close_token)
    emit_stream(ControlEventKind::kDone, s.close_token, s, ControlStatus::kNoSuchObject, why);
  s.token.reset();
  s.close_token.reset();
  Client* client = client_at(s.client);
  client->streams.erase(s.handle);
  advance_client_removal(*client);
}

// ---- the roles' side ------------------------------------------------------------------------

void ControlRole::begin_close(Stream& s) {
  s.state = StreamState::kClosing;
  s.deadline = kNever;
  advance_stream(s);
  rearm(s);
}

void ControlRole::stop_stream(Stream& s, Side side) {
  Command stop;
  stop.kind = CommandKind::kStopStream;
  stop.id = s.handle;
  if (side == Side::kTx) {
    stop.has_spn = s.has_peer_final;
    stop.spn = s.peer_final;
  }
  (side == Side::kRx ? s.rx_running : s.tx_running) = false;
  ++s.waits;
  command(s.group, side, stop, Owner::kStream, s.handle);
}

void ControlRole::remove_stream(Stream& s) {
  s.in_roles = false;
  s.waits += 2;
  command(s.group, Side::kRx, CommandKind::kRemoveStream, Owner::kStream, s.handle);
  command(s.group, Side::kTx, CommandKind::kRemoveStream, Owner::kStream, s.handle);
}

// Next step of taking the stream out of the roles; true when there is none for now.
bool ControlRole::stop_roles(Stream& s) {
  const bool final_known = s.peer_closed || s.close_done || s.conn_dead;
  if (s.rx_running || (s.tx_running && (final_known || s.detach))) {
    if (s.rx_running) stop_stream(s, Side::kRx);
    if (s.tx_running && (final_known || s.detach)) stop_stream(s, Side::kTx);
    return false;
  }
  if (s.detach && s.in_roles) {
    remove_stream(s);
    return false;
  }
  return true;
}

// Runs whatever the stream's state allows; called after each change and each last result.
void ControlRole::advance_stream(Stream& s) {
  if (s.waits != 0) return;
  switch (s.state) {
    case StreamState::kClosing:
      if (!stop_roles(s)) return;
      if (s.detach) detach_client(s);
      if (s.peer_closed || s.close_done || s.conn_dead) return finish_stream(s);
      if (!s.retry.active) start_close_request(s);
      return;
    case StreamState::kLinger:
      if (s.detach && s.in_roles) return remove_stream(s);
      if (s.detach) detach_client(s);
      if (s.linger_until > now_ && !s.conn_dead) return rearm(s);
      if (!s.in_roles) return free_stream(s);
      s.state = StreamState::kRemoving;
      return remove_stream(s);
    case StreamState::kRemoving:
      return free_stream(s);
    default:
      return;
  }
}

void ControlRole::finish_stream(Stream& s) {
  if (s.peer_closed && !s.peer_close_answered) answer_close(s, s.peer_close_source);
  if (s.attached) {
    const bool failed = s.down_status != ControlStatus::kOk;
    if (s.token) {  // never became open
      emit_stream(s.initiator ? ControlEventKind::kConnected : ControlEventKind::kDone, s.token, s,
                  failed ? s.down_status : ControlStatus::kPeerLost, s.down_message);
    } else if (s.close_token) {
      const ControlStatus status = s.close_timed_out ? ControlStatus::kTimeout : s.down_status;
      emit_stream(ControlEventKind::kDone, s.close_token, s, status,
                  s.close_timed_out ? "the peer did not answer the close" : s.down_message);
    } else if (!s.down_sent) {
      emit_stream(ControlEventKind::kStreamDown, std::nullopt, s, s.down_status, s.down_message);
    }
    s.down_sent = true;
    s.token.reset();
    s.close_token.reset();
    release_cqs(s);  // stopped on both sides: nothing is written to them any more
  }
  s.state = StreamState::kLinger;
  // [MR-6.7.4]
  s.linger_until = now_ + (s.peer_closed ? long_linger() : host_.config.stream_linger);
  if (s.conn_dead) return advance_stream(s);
  rearm(s);
  close_conn_if_idle(*conn_at(s.conn));
}

void ControlRole::stream_conn_lost(Stream& s, ControlStatus status, WorkStatus work_status,
                                   const char* message) {
  s.conn_dead = true;  // [MR-6.7.7]
  s.retry.active = false;
  if (s.down_status == ControlStatus::kOk) {
    s.down_status = status;
    s.down_message = message;
    s.failure = work_status;
  }
  switch (s.state) {
    case StreamState::kQueued:
    case StreamState::kOpening:
      fail_connect(s, status, message);
      return free_stream(s);
    case StreamState::kRequested:
      return free_stream(s);
    case StreamState::kOpen:
    case StreamState::kDraining:
      return begin_close(s);
    default:
      advance_stream(s);
      return rearm(s);
  }
}

void ControlRole::on_stream_timer(Stream& s) {
  Conn& c = *conn_at(s.conn);
  switch (s.state) {
    case StreamState::kQueued:
    case StreamState::kOpening:
      if (now_ >= s.deadline)
        return cancel_open(s, ControlStatus::kTimeout,
                           s.pending ? "the peer's application did not accept in time"
                                     : "the peer did not answer before the deadline");
      if (!s.retry.active || now_ < s.retry.next) return;
      if (repeat(s.retry)) {
        if (s.pending) {
          s.retry.interval = std::min(s.retry.interval, kPendingPollMax);
          s.retry.next = now_ + s.retry.interval;
        } else if (s.retry.tries == kProbeAfterTries) {
          probe_instance(c);
        }
        return send_open(s, true);
      }
      fail_connect(s, ControlStatus::kTimeout,
                   "the peer does not answer on the existing connection, it may have restarted: "
                   "connect again");
      free_stream(s);
      return fail_conn(c, ControlStatus::kPeerLost, WorkStatus::kRetryExceeded,
                       "the peer answers no control request: connect again", true);
    case StreamState::kDraining:
      if (now_ >= s.deadline) begin_close(s);
      return;
    case StreamState::kClosing:
      if (!s.retry.active || now_ < s.retry.next) return;
      if (repeat(s.retry)) return send_close(s, true);
      s.close_timed_out = true;
      serial_answered(c, s.retry.serial);
      return fail_conn(c, ControlStatus::kPeerLost, WorkStatus::kRetryExceeded,
                       "the peer answers no control request: connect again", true);
    default:
      return advance_stream(s);
  }
}

// ---- the peer's side ------------------------------------------------------------------------

void ControlRole::start_close_request(Stream& s) {
  std::uint32_t serial = 0;
  if (!take_serial(*conn_at(s.conn), serial)) return;  // kick_queued() comes back
  start(s.retry, serial);
  send_close(s, false);
  rearm(s);
}

void ControlRole::send_close(Stream& s, bool rotate) {
  Message m;
  m.type = CtrlType::kStreamClose;
  m.serial = s.retry.serial;
  m.stream.to = s.peer_number;
  m.stream.from = s.own_number;
  m.stream.open_serial = s.open_serial;
  m.stream.has_final = s.has_own_final;  // [MR-6.7.1]
  m.stream.final_spn = s.own_final;
  send_on(*conn_at(s.conn), m, rotate);
}

void ControlRole::answer_close(Stream& s, const PacketSource& src) {
  const Conn& c = *conn_at(s.conn);
  Message r;
  r.type = CtrlType::kStreamCloseRsp;
  r.crc = c.params.crc;
  r.dcid = c.params.peer_dcid;
  r.scid = c.params.own_dcid;
  r.serial = s.peer_close_serial;
  r.conn_epoch = c.epoch;
  r.stream.to = s.peer_number;
  r.stream.from = s.own_number;
  r.stream.open_serial = s.open_serial;
  r.stream.has_final = s.has_own_final;  // [MR-6.7.1]
  r.stream.final_spn = s.own_final;
  s.peer_close_answered = true;
  reply(src, c.params.peer_port, r);
}

// The stream that a STREAM_CLOSE means, if it lives (or lingers).
ControlRole::Stream* ControlRole::named_by_close(Conn& c, const Message& m) {
  const bool cancel = m.stream.to == kNoNumber;
  const auto& numbers = cancel ? c.by_peer : c.by_own;
  const auto it = numbers.find(cancel ? m.stream.from : m.stream.to);
  if (it == numbers.end()) return nullptr;
  Stream* s = stream_at(it->second);
  if (s->open_serial != m.stream.open_serial) return nullptr;
  if (cancel) return s->initiator ? nullptr : s;
  const bool answer_lost = s->initiator && s->state == StreamState::kOpening;
  return s->peer_number == m.stream.from || answer_lost ? s : nullptr;
}

void ControlRole::refuse_close(Conn& c, const Message& m, const PacketSource& src) {
  constexpr auto kUnknown = static_cast<std::uint8_t>(CtrlStatus::kUnknown);
  using Verdict = control::SerialWindow::Verdict;
  if (m.stream.to == kNoNumber && c.seen.look(m.stream.open_serial) == Verdict::kNew)
    c.seen.mark(m.stream.open_serial, kUnknown);
  if (c.seen.look(m.serial) == Verdict::kNew) c.seen.mark(m.serial, kUnknown);
  Message r;
  r.type = CtrlType::kStreamCloseRsp;
  r.status = CtrlStatus::kUnknown;
  r.crc = c.params.crc;
  r.dcid = c.params.peer_dcid;
  r.scid = c.params.own_dcid;
  r.serial = m.serial;
  r.conn_epoch = c.epoch;
  r.stream.to = m.stream.from;
  r.stream.from = m.stream.to;
  r.stream.open_serial = m.stream.open_serial;
  reply(src, c.params.peer_port, r);
}

void ControlRole::on_stream_close(Conn& c, const Message& m, const PacketSource& src) {
  if (m.stream.from == kNoNumber) return drop(DropReason::kCtrlMalformed);
  Stream* s = named_by_close(c, m);
  if (s == nullptr) return refuse_close(c, m, src);
  if (s->peer_closed) {
    if (m.serial != s->peer_close_serial) return drop(DropReason::kCtrlUnexpected);  // [MR-5.5.3]
    if (!s->peer_close_answered) return;  // the roles are still stopping it
    answer_close(*s, src);
    if (s->state == StreamState::kLinger) s->linger_until = now_ + long_linger();
    return rearm(*s);
  }
  if (c.seen.look(m.serial) != control::SerialWindow::Verdict::kNew)
    return drop(DropReason::kCtrlUnexpected);
  c.seen.mark(m.serial, static_cast<std::uint8_t>(CtrlStatus::kUnknown));
  s->peer_closed = true;
  if (s->state == StreamState::kOpening) s->peer_number = m.stream.from;
  s->peer_close_serial = m.serial;
  s->peer_close_source = src;
  if (!s->has_peer_final && m.stream.has_final) {
    s->has_peer_final = true;
    s->peer_final = m.stream.final_spn;
  }
  peer_closed(*s, src);
}

void ControlRole::peer_closed(Stream& s, const PacketSource& src) {
  switch (s.state) {
    case StreamState::kOpening:
      serial_answered(*conn_at(s.conn), s.open_serial);
      fail_connect(s, ControlStatus::kRefused,
                   "the peer closed the stream before it was open here");
      answer_close(s, src);
      return free_stream(s);
    case StreamState::kRequested:
      answer_close(s, src);
      return free_stream(s);
    case StreamState::kOpen:
    case StreamState::kDraining:
      return begin_close(s);
    case StreamState::kClosing:
      if (s.retry.active) serial_answered(*conn_at(s.conn), s.retry.serial);
      s.retry.active = false;
      advance_stream(s);
      return rearm(s);
    case StreamState::kLinger:
      answer_close(s, src);
      s.linger_until = now_ + long_linger();
      return rearm(s);
    case StreamState::kRemoving:
      return answer_close(s, src);
    default:
      return;  // kInstalling: on_stream_installed() sees it
  }
}

void ControlRole::on_stream_close_rsp(Conn& c, const Message& m) {
  const auto it = c.by_own.find(m.stream.to);
  Stream* s = it == c.by_own.end() ? nullptr : stream_at(it->second);
  // [MR-5.5.4] [MR-10.1.4]
  if (s == nullptr || s->state != StreamState::kClosing || !s->retry.active ||
      s->retry.serial != m.serial)
    return drop(DropReason::kCtrlUnexpected);
  s->retry.active = false;
  serial_answered(c, m.serial);
  s->close_done = true;
  if (m.stream.has_final) {
    s->has_peer_final = true;
    s->peer_final = m.stream.final_spn;
  }
  advance_stream(*s);
  rearm(*s);
}

}  // namespace metaroce
