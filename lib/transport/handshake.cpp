// From nothing to an installed connection (protocol.md 3).
//
//   asker                                             asked
//   CONN_REQ(epoch, no cookie, attempt)        ->
//                                              <-     CONN_RSP(retry, cookie, instance): no state,
//                                                     never longer than the request
//   CONN_REQ(epoch, cookie, attempt, rtt)      ->     installs in RX and TX, then half-open for 1 s
//                                              <-     CONN_RSP(ok, dcid, worker port, TLVs), the
//                                                     same for each repetition
//   installs in RX and TX, opens                      opens at the first valid packet
//
// - CONN_REQ goes to base port + 0 and names the asker's group g; the asked side takes group
//   g mod (its number of groups). Every repetition draws a new source port; without an answer
//   for two repetitions, the local plane changes (and the cookie, bound to the address, is dropped).
// - `attempt` numbers the CONN_REQs of an instance. A request that is not newer than what the
//   peer had sent when an existing connection of the same pair was made is late and dropped.
// - Crossing requests: the lower instance id keeps its own, the higher drops its own, accepts,
//   and moves its waiting streams. Crossing is seen by the proven source address; when two
//   planes cross unseen, settle_duplicates() decides once both are open.
// - A RETRY or RSP of an instance that already has a connection of this group, or an attempt that
//   knows the instance, moves the streams there: two addresses of one peer make one connection.
// - Half-open: at most one per source address and peer group (the newest), max_half_open in all;
//   when full, the oldest makes room: under a flood of F per second from proven addresses a
//   half-open connection lives max_half_open / F, and an honest asker needs one round trip of it.
//   (A minimum age was tried: it left the table to the flood and the honest asker to luck.)
// - The asker measures the round trip (first RETRY or RSP that answers a single request) and
//   tells it in the CONN_REQ with cookie: the asked side has no sample of its own before data.
#include <algorithm>
#include <bit>

#include "transport/control_role.h"

namespace metaroce {

using control::CtrlStatus;
using control::ConnState;
using wire::CtrlType;

namespace {

constexpr std::uint32_t kMaxCookieSends = 4;       // CONN_REQs answered to RETRYs, per attempt
constexpr Nanos kMaxRtt = kSecond;

unsigned common_prefix_bits(const IpAddress& a, const IpAddress& b) {
  unsigned n = 0;
  for (std::size_t i = 0; i < a.b.size(); ++i) {
    const auto x = static_cast<std::uint8_t>(a.b[i] ^ b.b[i]);
    if (x != 0) return n + static_cast<unsigned>(std::countl_zero(x));
    n += 8;
  }
  return n;
}

bool names(const control::ConnInfo& info, const IpAddress& a) {
  for (std::uint32_t i = 0; i < info.n_planes; ++i)
    if (info.planes[i].address == a) return true;
  return false;
}

}  // namespace

// ---- table ---------------------------------------------------------------------------------------

ControlRole::Conn* ControlRole::conn_at(ConnIndex i) {
  return i.v < conns_.size() ? conns_[i.v].get() : nullptr;
}

ControlRole::Conn* ControlRole::new_conn(std::uint32_t group, bool initiator) {
  if (free_conns_.empty()) return nullptr;
  const std::uint32_t index = free_conns_.front();
  free_conns_.pop_front();
  std::uint8_t generation = conn_generation_[index];
  // Never 0, so that no connection has dcid 0, and never the previous one.
  while (generation == 0 || generation == conn_generation_[index])
    generation = static_cast<std::uint8_t>(io_.secret_random());
  conn_generation_[index] = generation;

  conns_[index] = std::make_unique<Conn>();
  ++counts_.connections;
  Conn& c = *conns_[index];
  c.group = group;
  c.initiator = initiator;
  ConnParams& p = c.params;
  p.index = ConnIndex{index};
  p.own_dcid = (index << 8) | generation;
  p.own_port = static_cast<std::uint16_t>(host_.config.base_udp_port + group);
  p.own_pseq_seed = io_.secret_random();
  p.entropy_seed = io_.secret_random();
  c.next_serial = static_cast<std::uint32_t>(io_.secret_random());

  control::ConnInfo& own = c.own;
  own.payload_mtu = host_.config.payload_mtu;
  for (const HostPlane& plane : host_.planes)
    if (own.n_planes < kMaxPlanes) own.planes[own.n_planes++] = {plane.number, plane.address};
  own.pseq_seed = p.own_pseq_seed;
  own.max_streams = host_.config.max_streams_per_connection;
  own.spn_window = host_.config.spn_window;
  own.paths_per_plane = static_cast<std::uint16_t>(std::clamp(host_.config.paths_per_plane, 1U, 256U));
  own.line_rate = std::max<Mbps>(host_.line_rate, 1);
  own.worker_port = p.own_port;
  own.capabilities = host_.config.crc ? control::kCapCrc : 0;
  own.instance = host_.instance;
  own.group = static_cast<std::uint8_t>(group);
  own.attempt = initiator ? ++attempt_ : attempt_;
  own.first_serial = c.next_serial;
  return &c;
}

void ControlRole::free_conn(Conn& c) {
  const std::uint32_t index = c.params.index.v;
  c.state = ConnState::kFreed;
  rearm(c);
  freed_conns_.push_back(std::move(conns_[index]));
  free_conns_.push_back(index);
  --counts_.connections;
}

ControlRole::Conn* ControlRole::find_conn(const IpAddress& peer, std::uint32_t group) {
  for (const std::uint32_t i : peers_.at_address(peer)) {
    Conn& c = *conns_[i];
    if (c.group == group && c.state < ConnState::kClosing && !c.retiring) return &c;
  }
  return nullptr;
}

// ---- the asker -----------------------------------------------------------------------------------

ControlRole::Conn* ControlRole::start_connecting(const IpAddress& peer, std::uint32_t group) {
  Conn* c = new_conn(group, true);
  if (c == nullptr) return nullptr;
  c->target = peer;
  c->epoch = io_.secret_random();
  unsigned best = 0;
  bool found = false;
  for (std::uint32_t i = 0; i < host_.planes.size(); ++i) {
    if (host_.planes[i].address.v6 != peer.v6) continue;
    const unsigned bits = common_prefix_bits(host_.planes[i].address, peer);
    if (!found || bits > best) { best = bits; c->local_plane = i; found = true; }
  }
  enter_address(*c, peer);
  start(c->retry, c->own.attempt);
  send_conn_req(*c);
  rearm(*c);
  return c;
}

void ControlRole::send_conn_req(Conn& c) {
  Message m;
  m.type = CtrlType::kConnReq;
  m.crc = host_.config.crc;
  m.scid = c.params.own_dcid;
  m.serial = c.own.attempt;
  m.conn_epoch = c.epoch;
  m.cookie = c.cookie;
  m.conn = c.own;
  m.conn.rtt_us = static_cast<std::uint32_t>((c.rtt + kMicrosecond - 1) / kMicrosecond);
  control::CtrlBytes bytes;
  const std::uint32_t n = control::encode_ctrl(m, to_wire_time(now_), bytes);
  const HostPlane& plane = host_.planes[c.local_plane];
  c.request_sent_at = now_;
  ++c.requests_unanswered;
  if (io_.send_to(plane.number, plane.address, c.target, entropy_port(), host_.config.base_udp_port,
                  {bytes.data(), n}))
    c.ever_sent = true;
  else
    drop(DropReason::kNeighbourUnresolved);
}

void ControlRole::next_local_plane(Conn& c) {
  for (std::size_t k = 1; k < host_.planes.size(); ++k) {
    const auto i = static_cast<std::uint32_t>((c.local_plane + k) % host_.planes.size());
    if (host_.planes[i].address.v6 != c.target.v6) continue;
    c.local_plane = i;
    c.cookie = 0;
    c.requests_unanswered = 0;
    return;
  }
}

void ControlRole::repeat_conn_req(Conn& c) {
  if (!repeat(c.retry)) {
    if (c.ever_sent)
      return fail_conn(c, ControlStatus::kTimeout, WorkStatus::kRetryExceeded,
                       "no answer to connection requests: is a MetaRoCE daemon running on that address, "
                       "with the same udp base port?", false);
    return fail_conn(c, ControlStatus::kUnreachable, WorkStatus::kRetryExceeded,
                     "no link-layer address for the peer: check the address, the cable and the gateway",
                     false);
  }
  if (c.requests_unanswered >= 2) next_local_plane(c);
  send_conn_req(c);
}

void ControlRole::sample_rtt(Conn& c, Nanos received_at) {
  // After a repetition it is not known which request was answered; such a sample is used only
  // while there is none.
  const Nanos sample = std::clamp(received_at - c.request_sent_at, Nanos{1}, kMaxRtt);
  if (c.rtt == 0 || (c.requests_unanswered == 1 && sample < c.rtt)) c.rtt = sample;
  c.requests_unanswered = 0;
}

void ControlRole::on_conn_rsp(Conn& c, const Message& m, const PacketSource& src, Nanos received_at) {
  if (c.state != ConnState::kConnecting) return drop(DropReason::kCtrlUnexpected);
  if (src.src != c.target) return drop(DropReason::kSourceAddress);
  if (m.serial != c.own.attempt) return drop(DropReason::kCtrlUnexpected);
  switch (m.status) {
    case CtrlStatus::kRetry:
      sample_rtt(c, received_at);
      if (!on_conn_retry(c, m)) return;
      break;
    case CtrlStatus::kOk:
      sample_rtt(c, received_at);
      if (c.instance_entered) peers_.remove_instance(c.peer.instance, c.params.index.v);
      c.params.peer_dcid = m.scid;
      if (!negotiate(c, m, src.dst))
        return fail_conn(c, ControlStatus::kIncompatible, WorkStatus::kGeneral,
                         "the peer offers no plane number, payload MTU or version in common: compare "
                         "the `planes` and `payload_mtu` of both hosts", true);
      c.retry.active = false;
      enter_instance(c);
      if (join_other(c, true)) return;
      install_conn(c);
      break;
    case CtrlStatus::kIncompatible:
      return fail_conn(c, ControlStatus::kIncompatible, WorkStatus::kGeneral,
                       "the peer found no plane number, payload MTU or version in common: compare the "
                       "`planes` and `payload_mtu` of both hosts", false);
    case CtrlStatus::kRefused:
      return fail_conn(c, ControlStatus::kRefused, WorkStatus::kGeneral, "the peer is shutting down", false);
    case CtrlStatus::kLimit:
      return fail_conn(c, ControlStatus::kLimit, WorkStatus::kGeneral,
                       "the peer has no room for another connection: raise its max_connections", false);
    default: return drop(DropReason::kCtrlUnexpected);
  }
  rearm(c);
}

// False when the connection attempt ended here.
bool ControlRole::on_conn_retry(Conn& c, const Message& m) {
  if (m.conn.instance == host_.instance || m.cookie == 0) {
    drop(DropReason::kCtrlUnexpected);
    return false;
  }
  if (c.instance_entered) peers_.remove_instance(c.peer.instance, c.params.index.v);
  c.peer.instance = m.conn.instance;
  enter_instance(c);
  if (join_other(c, false)) return false;
  c.cookie = m.cookie;
  if (c.cookie_sends < kMaxCookieSends) {
    ++c.cookie_sends;
    send_conn_req(c);
  }
  return true;
}

// Another address of a peer that has, or is getting, a connection of this group: the streams
// move there and this attempt ends. An attempt of the peer counts before it is open only when
// the peer's instance is the lower one, or both sides would give up their own for the other's.
bool ControlRole::join_other(Conn& c, bool tell_peer) {
  Conn* to = nullptr;
  for (const std::uint32_t i : peers_.of_instance(c.peer.instance)) {
    Conn& o = *conns_[i];
    if (&o == &c || o.group != c.group || o.state >= ConnState::kClosing || o.retiring) continue;
    if (!o.initiator && o.state != ConnState::kOpen && host_.instance < c.peer.instance) continue;
    if (to == nullptr || o.state == ConnState::kOpen) to = &o;
  }
  if (to == nullptr) return false;
  move_queued(c, *to);
  fail_conn(c, ControlStatus::kPeerLost, WorkStatus::kGeneral, "", tell_peer);
  return true;
}

// ---- the asked -----------------------------------------------------------------------------------

void ControlRole::on_conn_req(const Message& m, const PacketSource& src) {
  if (m.conn.instance == host_.instance) return drop(DropReason::kCtrlUnexpected);  // looped
  if (m.scid == 0 || m.serial != m.conn.attempt) return drop(DropReason::kCtrlMalformed);
  if (!names(m.conn, src.src)) return drop(DropReason::kSourceAddress);

  const std::uint32_t group = m.conn.group % host_.groups;
  const control::CookieScope scope{src.src, m.conn.worker_port, m.conn.instance, m.conn_epoch};
  if (m.cookie != 0 && cookies_.check(now_, m.cookie, scope)) return accept_conn_req(m, src, group);
  if (m.cookie != 0) drop(DropReason::kCtrlCookie);

  Message r;
  r.type = CtrlType::kConnRsp;
  r.status = CtrlStatus::kRetry;
  r.crc = m.crc;  // the request had room for a trailer
  r.dcid = m.scid;
  r.serial = m.serial;
  r.conn_epoch = m.conn_epoch;
  r.cookie = cookies_.make(now_, scope);
  r.conn.instance = host_.instance;
  r.conn.group = static_cast<std::uint8_t>(group);
  reply(src, m.conn.worker_port, r);
}

// A repetition of a known request (answered here), or a late one (dropped here).
bool ControlRole::conn_req_is_repeat(const Message& m, const PacketSource& src, std::uint32_t group) {
  for (const std::uint32_t i : peers_.of_instance(m.conn.instance)) {
    Conn& c = *conns_[i];
    if (c.state == ConnState::kConnecting || c.group != group || c.peer.group != m.conn.group) continue;
    if (!c.initiator && c.epoch == m.conn_epoch) {
      if (c.state == ConnState::kHalfOpen || c.state == ConnState::kOpen) send_conn_rsp(c, src);
      return true;
    }
    if (static_cast<std::int32_t>(m.conn.attempt - c.peer.attempt) <= 0) {
      drop(DropReason::kCtrlEpoch);
      return true;
    }
  }
  return false;
}

void ControlRole::accept_conn_req(const Message& m, const PacketSource& src, std::uint32_t group) {
  if (conn_req_is_repeat(m, src, group)) return;
  Conn* crossing = nullptr;
  for (const std::uint32_t i : peers_.at_address(src.src)) {
    Conn& o = *conns_[i];
    if (o.group != group || o.state != ConnState::kConnecting) continue;
    if (host_.instance < m.conn.instance) return drop(DropReason::kCtrlUnexpected);
    crossing = &o;
  }
  Message refusal;
  refusal.type = CtrlType::kConnRsp;
  refusal.crc = m.crc;
  refusal.dcid = m.scid;
  refusal.serial = m.serial;
  refusal.conn_epoch = m.conn_epoch;
  if (shutting_down_) {
    refusal.status = CtrlStatus::kRefused;
    return reply(src, m.conn.worker_port, refusal);
  }
  Conn* c = room_for_half_open(m, src, group);
  if (c == nullptr) return drop(DropReason::kCtrlLimit);  // the asker repeats
  c->epoch = m.conn_epoch;
  c->target = src.src;
  c->request_source = src;
  c->params.peer_dcid = m.scid;
  c->rtt = std::min<Nanos>(Nanos{m.conn.rtt_us} * kMicrosecond, kMaxRtt);
  if (!negotiate(*c, m, src.dst)) {
    free_conn(*c);
    refusal.status = CtrlStatus::kIncompatible;
    return reply(src, m.conn.worker_port, refusal);
  }
  c->half_open_since = now_;
  half_open_.insert({now_, c->params.index.v});
  enter_instance(*c);
  enter_address(*c, src.src);
  install_conn(*c);
  rearm(*c);
  if (crossing != nullptr)
    fail_conn(*crossing, ControlStatus::kPeerLost, WorkStatus::kGeneral, "", false, Queued::kRequeue);
}

ControlRole::Conn* ControlRole::room_for_half_open(const Message& m, const PacketSource& src,
                                                   std::uint32_t group) {
  for (const std::uint32_t i : peers_.at_address(src.src)) {
    Conn& o = *conns_[i];
    if (o.group != group || o.peer.group != m.conn.group || !half_open_.contains({o.half_open_since, i}))
      continue;
    // The address is proven to belong to the newest asker: the earlier one is gone.
    fail_conn(o, ControlStatus::kPeerLost, WorkStatus::kGeneral, "", false, Queued::kRequeue);
  }
  if (half_open_.size() >= std::max(host_.config.max_half_open, 1U) || (free_conns_.empty() && !half_open_.empty())) {
    drop(DropReason::kCtrlLimit);
    fail_conn(*conns_[half_open_.begin()->second], ControlStatus::kPeerLost, WorkStatus::kGeneral, "", false,
              Queued::kRequeue);
  }
  return new_conn(group, false);
}

void ControlRole::send_conn_rsp(Conn& c, const PacketSource& src) {
  Message r;
  r.type = CtrlType::kConnRsp;
  r.crc = host_.config.crc;
  r.dcid = c.params.peer_dcid;
  r.scid = c.params.own_dcid;
  r.serial = c.peer.attempt;
  r.conn_epoch = c.epoch;
  r.conn = c.own;
  reply(src, c.peer.worker_port, r);
}

// ---- both ----------------------------------------------------------------------------------------

// Takes the peer's offer; false when there is nothing in common.
bool ControlRole::negotiate(Conn& c, const Message& m, const IpAddress& local) {
  const control::ConnInfo& peer = m.conn;
  ConnParams& p = c.params;
  c.peer = peer;
  if (peer.version_min > wire::kVersion || peer.version_max < wire::kVersion) return false;
  p.payload_mtu = std::min(peer.payload_mtu, host_.config.payload_mtu);
  if (p.payload_mtu < control::kMinPayloadMtu) return false;

  // A plane joins equal numbers of the family that the handshake used, once per number.
  p.n_planes = 0;
  for (const HostPlane& own : host_.planes) {
    if (own.address.v6 != local.v6 || p.n_planes == kMaxPlanes) continue;
    bool taken = false;
    for (std::uint32_t i = 0; i < p.n_planes; ++i) taken |= p.planes[i].plane == own.number;
    for (std::uint32_t i = 0; i < peer.n_planes && !taken; ++i) {
      const control::PlaneAddress& other = peer.planes[i];
      if (other.number != own.number || other.address.v6 != local.v6) continue;
      p.planes[p.n_planes++] = {own.number, own.address, other.address};
      taken = true;
    }
  }
  if (p.n_planes == 0) return false;
  c.control_plane = 0;
  for (std::uint32_t i = 0; i < p.n_planes; ++i) {
    c.proofs[i].proven = p.planes[i].peer == c.target;
    if (c.proofs[i].proven) c.control_plane = i;
  }
  const std::uint32_t paths = std::min<std::uint32_t>({peer.paths_per_plane, c.own.paths_per_plane,
                                                       256U / p.n_planes});
  p.n_paths = static_cast<std::uint16_t>(paths * p.n_planes);
  p.peer_port = peer.worker_port;
  p.peer_pseq_seed = peer.pseq_seed;
  p.line_rate = std::min(c.own.line_rate, peer.line_rate);
  p.handshake_rtt = c.rtt;
  p.crc = ((peer.capabilities | c.own.capabilities) & control::kCapCrc) != 0;
  c.seen.start(peer.first_serial);
  return true;
}

void ControlRole::install_conn(Conn& c) {
  c.state = ConnState::kInstalling;
  c.in_roles = true;
  c.waits = 2;
  command(c.group, Side::kRx, CommandKind::kAddConn, Owner::kConn, c.params.index.v, &c.params);
  command(c.group, Side::kTx, CommandKind::kAddConn, Owner::kConn, c.params.index.v, &c.params);
}

void ControlRole::on_conn_installed(Conn& c) {
  if (c.install_failed)
    return fail_conn(c, ControlStatus::kLimit, WorkStatus::kGeneral,
                     "the worker group has no room for another connection: raise max_connections", true);
  if (c.initiator) return open_conn(c);
  c.state = ConnState::kHalfOpen;
  send_conn_rsp(c, c.request_source);
  rearm(c);
}

}  // namespace metaroce
