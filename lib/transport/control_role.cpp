#include "transport/control_role.h"

#include <algorithm>
#include <bit>

namespace metaroce {

using control::ConnState;
using control::StreamState;

namespace {

// Messages taken from one ring in one poll: the rest waits, so that timers are never starved.
constexpr int kBurst = 256;

constexpr std::uint64_t make_token(unsigned owner, CommandKind kind, unsigned side,
                                   std::uint32_t id) {
  return (std::uint64_t{owner} << 56) | (std::uint64_t{static_cast<unsigned>(kind)} << 48) |
         (std::uint64_t{side} << 40) | id;
}

}  // namespace

ControlRole::ControlRole(HostInfo host, ControlIo& io, std::vector<GroupPort*> ports,
                         StatsSource* stats)
    : host_(std::move(host)), io_(io), stats_(stats), rng_(io.secret_random()) {
  host_.groups =
      std::clamp(host_.groups, 1U, std::min(kMaxGroups, static_cast<std::uint32_t>(ports.size())));
  for (std::uint32_t g = 0; g < host_.groups; ++g) ports_.push_back({ports[g], {}});
  TransportConfig& c = host_.config;
  c.max_regions = std::clamp(c.max_regions, 1U, 1U << 20);
  c.max_streams = std::clamp(c.max_streams, 1U, 1U << kStreamSlotBits);
  c.max_connections = std::clamp(c.max_connections, 1U, 1U << 24);
  c.max_streams_per_connection = std::clamp(c.max_streams_per_connection, 1U, 65000U);
  conns_.resize(c.max_connections);
  conn_generation_.resize(c.max_connections);
  for (std::uint32_t i = 0; i < c.max_connections; ++i) free_conns_.push_back(i);
  for (std::uint32_t i = 0; i < c.max_cqs; ++i) free_cqs_.push_back(i);
  streams_ = std::vector<StreamTable>(host_.groups);
  for (std::uint32_t g = 0; g < host_.groups; ++g) {
    streams_[g].slots.resize(c.max_streams);
    streams_[g].generation.assign(c.max_streams, static_cast<std::uint16_t>(g));
    for (std::uint32_t i = 0; i < c.max_streams; ++i) streams_[g].free.push_back(i);
  }
  attempt_ = static_cast<std::uint32_t>(io_.secret_random());
}

void ControlRole::poll(Nanos now) {
  now_ = std::max(now, now_);
  freed_conns_.clear();
  freed_streams_.clear();
  if (cookies_.key_due(now_)) cookies_.set_key(now_, io_.secret_random(), io_.secret_random());
  flush_commands();
  for (std::uint32_t g = 0; g < host_.groups; ++g) {
    TxToControl tx;
    for (int i = 0; i < kBurst && ports_[g].port->from_tx(tx); ++i) on_tx(g, tx);
    RxToControl rx;
    for (int i = 0; i < kBurst && ports_[g].port->from_rx(rx); ++i) on_rx(g, rx);
  }
  run_timers();
  flush_commands();
}

Nanos ControlRole::next_deadline() const {
  for (const RolePort& p : ports_)
    if (!p.waiting[0].empty() || !p.waiting[1].empty()) return now_;
  const Nanos t = timers_.empty() ? kNever : std::get<0>(*timers_.begin());
  return shutting_down_ && !drained() ? std::min(t, shutdown_deadline_) : t;
}

// ---- commands and results -------------------------------------------------------------------

void ControlRole::command(std::uint32_t group, Side side, const Command& cmd) {
  std::deque<Command>& waiting = ports_[group].waiting[static_cast<int>(side)];
  GroupPort& port = *ports_[group].port;
  if (waiting.empty() && (side == Side::kRx ? port.to_rx(cmd) : port.to_tx(cmd))) return;
  waiting.push_back(cmd);
}

void ControlRole::command(std::uint32_t group, Side side, Command cmd, Owner owner,
                          std::uint32_t id) {
  cmd.token = make_token(static_cast<unsigned>(owner), cmd.kind, static_cast<unsigned>(side), id);
  command(group, side, cmd);
}

void ControlRole::command(std::uint32_t group, Side side, CommandKind kind, Owner owner,
                          std::uint32_t id, const void* params) {
  Command cmd;
  cmd.kind = kind;
  cmd.id = id;
  cmd.any = params;
  command(group, side, cmd, owner, id);
}

void ControlRole::flush_commands() {
  for (RolePort& p : ports_) {
    auto& rx = p.waiting[static_cast<int>(Side::kRx)];
    while (!rx.empty() && p.port->to_rx(rx.front())) rx.pop_front();
    auto& tx = p.waiting[static_cast<int>(Side::kTx)];
    while (!tx.empty() && p.port->to_tx(tx.front())) tx.pop_front();
  }
}

void ControlRole::on_result(const CommandResult& r) {
  const auto owner = static_cast<Owner>(r.token >> 56);
  const auto kind = static_cast<CommandKind>((r.token >> 48) & 0xff);
  const auto side = static_cast<Side>((r.token >> 40) & 0xff);
  const auto id = static_cast<std::uint32_t>(r.token);
  switch (owner) {
    case Owner::kConn:
      if (Conn* c = conn_at(ConnIndex{id}); c != nullptr && c->waits != 0) {
        if (kind == CommandKind::kAddConn && !r.ok) c->install_failed = true;
        if (--c->waits != 0) return;
        if (c->state == ConnState::kInstalling)
          on_conn_installed(*c);
        else
          advance_conn(*c);
      }
      return;
    case Owner::kStream:
      if (Stream* s = stream_at(id); s != nullptr && s->waits != 0) {
        if (kind == CommandKind::kAddStream && !r.ok) s->install_failed = true;
        if (kind == CommandKind::kStopStream && side == Side::kRx && r.ok) {
          s->own_final = r.cum_spn;
          s->has_own_final = true;
        }
        if (--s->waits != 0) return;
        if (s->state == StreamState::kInstalling)
          on_stream_installed(*s);
        else
          advance_stream(*s);
      }
      return;
    case Owner::kRegion:
      if (const auto it = regions_.find(id); it != regions_.end() && it->second->waits != 0) {
        it->second->failed |= !r.ok;
        if (--it->second->waits == 0) on_region_result(*it->second);
      }
      return;
    case Owner::kCq:
      if (const auto it = cqs_.find(id); it != cqs_.end() && it->second->waits != 0) {
        it->second->failed |= !r.ok;
        if (--it->second->waits == 0) on_cq_result(*it->second);
      }
      return;
    case Owner::kClient:
      if (Client* c = client_at(ClientId{static_cast<std::uint16_t>(id)});
          c != nullptr && c->waits != 0) {
        c->failed |= !r.ok;
        if (--c->waits == 0) on_client_result(*c);
      }
      return;
  }
}

// ---- inputs from the roles ------------------------------------------------------------------

void ControlRole::on_tx(std::uint32_t group, const TxToControl& m) {
  switch (m.kind) {
    case TxToControlKind::kResult:
      on_result(m.result);
      return;
    case TxToControlKind::kConnFailed: {
      Conn* c = conn_at(ConnIndex{m.id});
      if (c == nullptr || c->group != group) return;
      // [MR-7.5.5]
      fail_conn(*c, m.never_answered ? ControlStatus::kUnreachable : ControlStatus::kPeerLost,
                static_cast<WorkStatus>(m.status),
                m.never_answered
                    ? "the peer's control role answers, but none of the data packets was "
                      "acknowledged: check that UDP ports and MTU pass on every plane"
                    : "the peer stopped acknowledging on every path: check its host and the "
                      "links, then connect again",
                true);
      return;
    }
    case TxToControlKind::kStreamFailed:
      if (Stream* s = stream_at(m.id)) on_stream_failed(*s, static_cast<WorkStatus>(m.status));
      return;
    case TxToControlKind::kStreamDrained:
      if (Stream* s = stream_at(m.id); s != nullptr && s->state == StreamState::kDraining)
        begin_close(*s);
      return;
  }
}

void ControlRole::on_rx(std::uint32_t group, const RxToControl& m) {
  switch (m.kind) {
    case RxToControlKind::kResult:
      on_result(m.result);
      return;
    case RxToControlKind::kConnAlive:
      if (Conn* c = conn_at(m.conn); c != nullptr && c->group == group) {
        c->confirmed = true;
        if (c->state == ConnState::kHalfOpen) open_conn(*c);  // [MR-5.2.8]
      }
      return;
    case RxToControlKind::kFrame:
      io_.on_frame(m.source, {m.bytes.data(), std::min<std::size_t>(m.length, m.bytes.size())});
      return;
    case RxToControlKind::kCtrlPacket:
      on_ctrl_packet(m);
      return;
  }
}

void ControlRole::on_ctrl_packet(const RxToControl& p) {
  Message m;
  if (p.length > p.bytes.size()) return drop(DropReason::kOversize);
  const DropReason bad = control::decode_ctrl({p.bytes.data(), p.length}, m);
  if (bad != DropReason::kNone) return drop(bad);
  if (m.type == wire::CtrlType::kConnReq) return on_conn_req(m, p.source);

  // Everything else names a connection of ours; what does not is never answered. [MR-4.1.6]
  Conn* c = conn_at(ConnIndex{m.dcid >> 8});
  if (c == nullptr) return drop(DropReason::kUnknownConn);
  if (c->params.own_dcid != m.dcid) return drop(DropReason::kStaleConn);  // [MR-5.6.3]
  if (c->epoch != m.conn_epoch) return drop(DropReason::kCtrlEpoch);      // [MR-5.1.4] [MR-10.1.4]
  if (m.type == wire::CtrlType::kConnRsp) return on_conn_rsp(*c, m, p.source, p.received_at);
  on_conn_packet(*c, m, p.source);
}

// ---- timers ---------------------------------------------------------------------------------

void ControlRole::run_timers() {
  if (shutting_down_ && now_ >= shutdown_deadline_) {
    shutdown_deadline_ = kNever;
    for (auto& c : conns_)
      if (c)
        fail_conn(*c, ControlStatus::kPeerLost, WorkStatus::kFlushed, "this host shut down", true);
  }
  while (!timers_.empty() && std::get<0>(*timers_.begin()) <= now_) {
    const auto [when, owner, id] = *timers_.begin();
    timers_.erase(timers_.begin());
    if (owner == Owner::kConn) {
      Conn& c = *conns_[id];
      c.wake = kNever;
      on_conn_timer(c);
      rearm(c);
    } else {
      Stream& s = *stream_at(id);
      s.wake = kNever;
      on_stream_timer(s);
      rearm(s);
    }
  }
}

void ControlRole::rearm(Conn& c) {
  Nanos t = kNever;
  if (c.state != ConnState::kFreed) {
    if (c.retry.active) t = c.retry.next;
    if (c.port_retry.active) t = std::min(t, c.port_retry.next);
    if (c.state == ConnState::kHalfOpen)
      t = std::min(t, c.half_open_since + host_.config.half_open_lifetime);
    if (c.state == ConnState::kRemoving && c.waits == 0 && !c.in_roles && c.by_own.empty())
      t = std::min(t, c.linger_until);
    for (std::uint32_t i = 0; i < c.params.n_planes; ++i)
      if (c.proofs[i].retry.active) t = std::min(t, c.proofs[i].retry.next);
  }
  if (t == c.wake) return;
  if (c.wake != kNever) timers_.erase({c.wake, Owner::kConn, c.params.index.v});
  c.wake = t;
  if (t != kNever) timers_.insert({t, Owner::kConn, c.params.index.v});
}

void ControlRole::rearm(Stream& s) {
  Nanos t = kNever;
  if (s.state == StreamState::kQueued || s.state == StreamState::kOpening ||
      s.state == StreamState::kDraining)
    t = s.deadline;
  if (s.state != StreamState::kFreed && s.retry.active) t = std::min(t, s.retry.next);
  if (s.state == StreamState::kLinger && s.waits == 0) t = std::min(t, s.linger_until);
  if (t == s.wake) return;
  if (s.wake != kNever) timers_.erase({s.wake, Owner::kStream, s.handle});
  s.wake = t;
  if (t != kNever) timers_.insert({t, Owner::kStream, s.handle});
}

// [MR-5.5.2]
void ControlRole::start(Retry& r, std::uint32_t serial) {
  r = {true, serial, 0, host_.config.ctrl_retry_first, now_ + host_.config.ctrl_retry_first};
}

bool ControlRole::repeat(Retry& r) {
  if (r.tries >= host_.config.ctrl_retries) {
    r.active = false;
    return false;
  }
  ++r.tries;
  r.interval *= 2;
  r.next = now_ + r.interval;
  return true;
}

// Longer than any request is repeated: whoever answered must still know the answer.
Nanos ControlRole::long_linger() const {
  const unsigned doublings = std::min(host_.config.ctrl_retries, 20U);
  return std::max(host_.config.stream_linger, host_.config.ctrl_retry_first << doublings);
}

// ---- output ---------------------------------------------------------------------------------

std::uint16_t ControlRole::entropy_port() {
  const std::uint32_t low = host_.config.source_port_min;
  const std::uint32_t high = std::max<std::uint32_t>(low, host_.config.source_port_max);
  return static_cast<std::uint16_t>(low + rng_.below(high - low + 1));
}

// [MR-5.5.5]
void ControlRole::reply(const PacketSource& to, std::uint16_t dst_port, const Message& m) {
  control::CtrlBytes bytes;
  const std::uint32_t n = control::encode_ctrl(m, to_wire_time(now_), bytes);
  PacketSource answer = to;
  answer.src_port = dst_port;
  if (!io_.send(answer, {bytes.data(), n})) drop(DropReason::kNoBuffer);
}

ControlEvent& ControlRole::emit(ControlEventKind kind, std::optional<std::uint64_t> token,
                                ClientId client, ControlStatus status, const char* message) {
  ControlEvent& e = events_.emplace_back();
  e.kind = kind;
  e.token = token.value_or(0);
  e.client = client;
  e.status = status;
  e.message = message;
  return e;
}

void ControlRole::emit_stream(ControlEventKind kind, std::optional<std::uint64_t> token,
                              const Stream& s, ControlStatus status, const char* message) {
  ControlEvent& e = emit(kind, token, s.client, status, message);
  e.stream = s.handle;
  e.group = s.group;
  e.service = s.service;
  e.work_status = s.failure;
  e.peer = s.target;
  if (kind == ControlEventKind::kConnectRequest) {
    e.stream = 0;
    e.request = s.handle;
  }
  const bool opening =
      kind == ControlEventKind::kConnected || kind == ControlEventKind::kConnectRequest;
  if (opening && status == ControlStatus::kOk) e.private_data = s.peer.private_data;
}

bool ControlRole::next_event(ControlEvent& out) {
  if (events_.empty()) return false;
  out = std::move(events_.front());
  events_.pop_front();
  return true;
}

bool ControlRole::conn_stats(ClientId client, StreamHandle handle, ConnStats& out) {
  const Stream* s = own_stream(client, handle);
  if (s == nullptr || !s->on_conn || stats_ == nullptr) return false;
  const Conn* c = conn_at(s->conn);
  if (c == nullptr || !stats_->conn_stats(c->group, c->params.index, out)) return false;
  out.peer = c->target;
  out.streams = static_cast<std::uint32_t>(c->by_own.size());
  return true;
}

ControlStatus ControlRole::move_path(ClientId client, StreamHandle handle, std::uint8_t path,
                                     std::uint16_t port) {
  const Stream* s = own_stream(client, handle);
  const Conn* c = s != nullptr && s->on_conn ? conn_at(s->conn) : nullptr;
  if (c == nullptr || path >= c->params.n_paths) return ControlStatus::kNoSuchObject;
  Command cmd;
  cmd.kind = CommandKind::kChangePort;  // [MR-9.3.1]
  cmd.id = c->params.index.v;
  cmd.path = path;
  cmd.port = port;
  command(c->group, Side::kTx, cmd);
  return ControlStatus::kOk;
}

// ---- for tests and telemetry ----------------------------------------------------------------

ControlCounts ControlRole::counts() const {
  ControlCounts n = counts_;
  n.half_open = static_cast<std::uint32_t>(half_open_.size());
  n.listeners = static_cast<std::uint32_t>(listeners_.size());
  n.clients = static_cast<std::uint32_t>(clients_.size());
  n.cqs = static_cast<std::uint32_t>(cqs_.size());
  n.regions = static_cast<std::uint32_t>(regions_.size());
  n.queued_commands = 0;
  for (const RolePort& p : ports_)
    n.queued_commands += static_cast<std::uint32_t>(p.waiting[0].size() + p.waiting[1].size());
  return n;
}

bool ControlRole::validate() const {
  std::uint32_t conns = 0, streams = 0;
  std::size_t on_conns = 0, timed = 0, half_open = 0, answered_too_late = 0;
  for (const auto& c : conns_) {
    if (!c) continue;
    ++conns;
    on_conns += c->by_own.size();
    timed += c->wake != kNever ? 1 : 0;
    half_open += half_open_.contains({c->half_open_since, c->params.index.v}) ? 1 : 0;
    answered_too_late += c->unanswered.size() > control::SerialWindow::kSpan / 2 ? 1 : 0;
    if (c->state == ConnState::kFreed || c->waits > 2) return false;
    for (const auto& [number, handle] : c->by_peer) {
      const Stream* s = const_cast<ControlRole*>(this)->stream_at(handle);
      if (s == nullptr || s->peer_number != number || s->conn != c->params.index) return false;
    }
  }
  std::size_t attached = 0;
  for (const StreamTable& t : streams_) {
    for (const auto& s : t.slots) {
      if (!s) continue;
      ++streams;
      on_conns -= s->on_conn ? 1 : 0;
      timed += s->wake != kNever ? 1 : 0;
      attached += s->attached ? 1 : 0;
      if (s->state == StreamState::kFreed || s->waits > 2) return false;
      if ((s->rx_running || s->tx_running) && !s->in_roles) return false;
    }
  }
  for (const auto& [id, c] : clients_) attached -= c->streams.size();
  return conns == counts_.connections && streams == counts_.streams && on_conns == 0 &&
         attached == 0 && timed == timers_.size() && half_open == half_open_.size() &&
         half_open <= std::max(host_.config.max_half_open, 1U) && answered_too_late == 0;
}

}  // namespace metaroce
