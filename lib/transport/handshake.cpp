// From nothing to an installed connection [MR-5.2]: the asker, and what both sides share.
// The asked side: handshake_answer.cpp.
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
//   for two repetitions, the local plane changes (and the cookie, bound to the address, is
//   dropped).
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

using control::ConnState;
using control::CtrlStatus;
using wire::CtrlType;

namespace {

constexpr std::uint32_t kMaxCookieSends = 4;  // CONN_REQs answered to RETRYs, per attempt
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

}  // namespace

// ---- the asker ------------------------------------------------------------------------------

ControlRole::Conn* ControlRole::start_connecting(const IpAddress& peer, std::uint32_t group) {
  Conn* c = new_conn(group, true);
  if (c == nullptr) return nullptr;
  c->target = peer;
  c->epoch = io_.secret_random();  // [MR-5.1.4]
  unsigned best = 0;
  bool found = false;
  for (std::uint32_t i = 0; i < host_.planes.size(); ++i) {
    if (host_.planes[i].address.v6 != peer.v6) continue;
    const unsigned bits = common_prefix_bits(host_.planes[i].address, peer);
    if (!found || bits > best) {
      best = bits;
      c->local_plane = i;
      found = true;
    }
  }
  enter_address(*c, peer);
  start(c->retry, c->own.attempt);
  send_conn_req(*c);
  rearm(*c);
  return c;
}

// [MR-5.2.1]
bool ControlRole::send_conn_req(Conn& c) {
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
  const bool sent = io_.send_to(plane.number, plane.address, c.target, entropy_port(),
                                host_.config.base_udp_port, {bytes.data(), n});
  c.ever_sent |= sent;
  if (!sent) drop(DropReason::kNeighbourUnresolved);
  return sent;
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
      return fail_conn(
          c, ControlStatus::kTimeout, WorkStatus::kRetryExceeded,
          "no answer to connection requests: is a MetaRoCE daemon running on that address, "
          "with the same udp base port?",
          false);
    return fail_conn(
        c, ControlStatus::kUnreachable, WorkStatus::kRetryExceeded,
        "no link-layer address for the peer: check the address, the cable and the gateway", false);
  }
  if (c.requests_unanswered >= 2) next_local_plane(c);
  // A plane that has no way to the peer, or not yet, costs no repetition: intervals double.
  for (std::size_t left = host_.planes.size(); !send_conn_req(c) && --left != 0;)
    next_local_plane(c);
}

void ControlRole::sample_rtt(Conn& c, Nanos received_at) {
  // After a repetition it is not known which request was answered; such a sample is used only
  // [MR-5.2.17]
  // while there is none.
  const Nanos sample = std::clamp(received_at - c.request_sent_at, Nanos{1}, kMaxRtt);
  if (c.rtt == 0 || (c.requests_unanswered == 1 && sample < c.rtt)) c.rtt = sample;
  c.requests_unanswered = 0;
}

void ControlRole::on_conn_rsp(Conn& c, const Message& m, const PacketSource& src,
                              Nanos received_at) {
  if (c.state != ConnState::kConnecting) return drop(DropReason::kCtrlUnexpected);  // [MR-5.5.4]
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
        return fail_conn(
            c, ControlStatus::kIncompatible, WorkStatus::kGeneral,
            "the peer offers no plane number, payload MTU or version in common: compare "
            "the `planes` and `payload_mtu` of both hosts",
            true);
      c.retry.active = false;
      enter_instance(c);
      if (join_other(c, true)) return;
      install_conn(c);
      break;
    case CtrlStatus::kIncompatible:
      return fail_conn(
          c, ControlStatus::kIncompatible, WorkStatus::kGeneral,
          "the peer found no plane number, payload MTU or version in common: compare the "
          "`planes` and `payload_mtu` of both hosts",
          false);
    case CtrlStatus::kRefused:
      return fail_conn(c, ControlStatus::kRefused, WorkStatus::kGeneral,
                       "the peer is shutting down", false);
    case CtrlStatus::kLimit:
      return fail_conn(c, ControlStatus::kLimit, WorkStatus::kGeneral,
                       "the peer has no room for another connection: raise its max_connections",
                       false);
    default:
      return drop(DropReason::kCtrlUnexpected);
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
  if (join_other(c, false)) return false;  // [MR-5.2.23]
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
// [MR-5.1.2]
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

// ---- both -----------------------------------------------------------------------------------

// Takes the peer's offer; false when there is nothing in common. [MR-5.2.15]
bool ControlRole::negotiate(Conn& c, const Message& m, const IpAddress& local) {
  const control::ConnInfo& peer = m.conn;
  ConnParams& p = c.params;
  c.peer = peer;
  if (peer.version_min > wire::kVersion || peer.version_max < wire::kVersion) return false;
  p.payload_mtu = std::min(peer.payload_mtu, host_.config.payload_mtu);
  if (p.payload_mtu < control::kMinPayloadMtu) return false;

  // A plane joins equal numbers of the family that the handshake used, once per number.
  // [MR-9.1.2] [MR-9.1.3]
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
  const std::uint32_t paths =
      std::min<std::uint32_t>({peer.paths_per_plane, c.own.paths_per_plane, 256U / p.n_planes});
  p.n_paths = static_cast<std::uint16_t>(paths * p.n_planes);  // [MR-9.1.1]
  p.peer_port = peer.worker_port;                              // [MR-5.2.16]
  p.peer_pseq_seed = peer.pseq_seed;
  p.line_rate = std::min(c.own.line_rate, peer.line_rate);
  p.handshake_rtt = c.rtt;                                                     // [MR-5.2.17]
  p.crc = ((peer.capabilities | c.own.capabilities) & control::kCapCrc) != 0;  // [MR-3.2.1]
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
                     "the worker group has no room for another connection: raise max_connections",
                     true);
  if (c.initiator) return open_conn(c);
  c.state = ConnState::kHalfOpen;
  send_conn_rsp(c, c.request_source);
  rearm(c);
}

}  // namespace metaroce
