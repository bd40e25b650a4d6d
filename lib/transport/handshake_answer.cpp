// The asked side of the handshake: cookie, half-open state, the same answer to each repetition.
// The exchange as a whole: handshake.cpp.
#include <algorithm>

#include "transport/control_role.h"

namespace metaroce {

using control::ConnState;
using control::CtrlStatus;
using wire::CtrlType;

namespace {

constexpr Nanos kMaxRtt = kSecond;

bool names(const control::ConnInfo& info, const IpAddress& a) {
  for (std::uint32_t i = 0; i < info.n_planes; ++i)
    if (info.planes[i].address == a) return true;
  return false;
}

}  // namespace

void ControlRole::on_conn_req(const Message& m, const PacketSource& src) {
  // [MR-5.2.22]
  if (m.conn.instance == host_.instance) return drop(DropReason::kCtrlUnexpected);  // looped
  if (m.scid == 0 || m.serial != m.conn.attempt) return drop(DropReason::kCtrlMalformed);
  if (!names(m.conn, src.src)) return drop(DropReason::kSourceAddress);  // [MR-5.2.21]

  const std::uint32_t group = m.conn.group % host_.groups;  // [MR-5.2.20]
  const control::CookieScope scope{src.src, m.conn.worker_port, m.conn.instance, m.conn_epoch};
  if (m.cookie != 0 && cookies_.check(now_, m.cookie, scope)) return accept_conn_req(m, src, group);
  if (m.cookie != 0) drop(DropReason::kCtrlCookie);  // [MR-5.2.5] [MR-5.2.19]

  Message r;
  r.type = CtrlType::kConnRsp;
  r.status = CtrlStatus::kRetry;  // [MR-5.2.2] [MR-5.2.3] [MR-10.2.2]
  r.crc = m.crc;                  // the request had room for a trailer
  r.dcid = m.scid;
  r.serial = m.serial;
  r.conn_epoch = m.conn_epoch;
  r.cookie = cookies_.make(now_, scope);
  r.conn.instance = host_.instance;
  r.conn.group = static_cast<std::uint8_t>(group);
  reply(src, m.conn.worker_port, r);
}

// A repetition of a known request (answered here), or a late one (dropped here).
bool ControlRole::conn_req_is_repeat(const Message& m, const PacketSource& src,
                                     std::uint32_t group) {
  for (const std::uint32_t i : peers_.of_instance(m.conn.instance)) {
    Conn& c = *conns_[i];
    if (c.state == ConnState::kConnecting || c.group != group || c.peer.group != m.conn.group)
      continue;
    if (!c.initiator && c.epoch == m.conn_epoch) {
      // [MR-5.2.6]
      if (c.state == ConnState::kHalfOpen || c.state == ConnState::kOpen) send_conn_rsp(c, src);
      return true;
    }
    // [MR-5.2.25]
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
    if (host_.instance < m.conn.instance) return drop(DropReason::kCtrlUnexpected);  // [MR-5.2.11]
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
    refusal.status = CtrlStatus::kIncompatible;  // [MR-5.2.14]
    return reply(src, m.conn.worker_port, refusal);
  }
  c->half_open_since = now_;
  half_open_.insert({now_, c->params.index.v});
  enter_instance(*c);
  enter_address(*c, src.src);
  install_conn(*c);
  rearm(*c);
  if (crossing != nullptr)
    fail_conn(*crossing, ControlStatus::kPeerLost, WorkStatus::kGeneral, "", false,
              Queued::kRequeue);
}

ControlRole::Conn* ControlRole::room_for_half_open(const Message& m, const PacketSource& src,
                                                   std::uint32_t group) {
  for (const std::uint32_t i : peers_.at_address(src.src)) {
    Conn& o = *conns_[i];
    if (o.group != group || o.peer.group != m.conn.group ||
        !half_open_.contains({o.half_open_since, i}))
      continue;
    // The address is proven to belong to the newest asker: the earlier one is gone. [MR-5.2.24]
    fail_conn(o, ControlStatus::kPeerLost, WorkStatus::kGeneral, "", false, Queued::kRequeue);
  }
  if (half_open_.size() >= std::max(host_.config.max_half_open, 1U) ||  // [MR-5.2.13] [MR-10.2.1]
      (free_conns_.empty() && !half_open_.empty())) {
    drop(DropReason::kCtrlLimit);
    fail_conn(*conns_[half_open_.begin()->second], ControlStatus::kPeerLost, WorkStatus::kGeneral,
              "", false, Queued::kRequeue);
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

}  // namespace metaroce
