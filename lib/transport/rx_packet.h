// RX role: the checks that every packet passes before its type matters, in the order of the
// specification, chapter 4. Each failure is a named counter; nothing is answered.
// [MR-4.1.2] [MR-4.1.3] [MR-4.1.6] [MR-7.1.8]
#pragma once

#include "transport/rx_role.h"

namespace metaroce {

template <typename Q, typename Io>
void RxRole<Q, Io>::on_packet(const RxPacket& p) {
  ++counters_.packets;
  hints_[p.port.v % kMaxPlanes].count(frame_bytes(p));
  wire::Checked k = wire::check_packet(p.data, p.length);
  if (k.drop != DropReason::kNone) return drop(k.drop);
  const auto& c = *reinterpret_cast<const wire::Common*>(p.data);
  if (c.type() == wire::Type::kCtrl) return on_ctrl(p);
  RxConn* conn = find_conn(p, c, k);
  if (conn == nullptr) return drop(k.drop);
  if (!crc_ok(*conn, p, c.flags)) return drop(*conn, DropReason::kCrc);

  if (!conn->alive) [[unlikely]] {
    RxToControl e;
    e.kind = RxToControlKind::kConnAlive;
    e.conn = conn->params.index;
    e.received_at = now_;
    conn->alive = q_.rx_to_control.push(e);  // full: the next packet says it again
  }
  io_.learn(conn->params.index, conn->plane_slot(c.path), p);
  conn->peer_source_ports[c.path] = p.src_port;
  // A PROBE is answered on its own; where it came by may not carry anything else yet.
  if (c.type() != wire::Type::kProbe) conn->reply_path = c.path;
  ++conn->counters.packets;
  switch (c.type()) {
    case wire::Type::kData:
      return on_data(*conn, p, k);
    case wire::Type::kFlush:
      return on_flush(*conn, p);
    case wire::Type::kAck:
      return on_ack(*conn, p);
    case wire::Type::kNack:
      return on_nack(*conn, p);
    case wire::Type::kProbe:
      return on_probe(*conn, p);
    case wire::Type::kProbeReply:
      return on_probe_reply(*conn, p);
    case wire::Type::kCtrl:
      return;  // above
  }
}

// Identifier, generation, path number, source address: checks 6 to 9. [MR-4.1.1] [MR-4.2.4]
template <typename Q, typename Io>
RxConn* RxRole<Q, Io>::find_conn(const RxPacket& p, const wire::Common& c, wire::Checked& k) {
  const std::uint32_t dcid = c.dcid, index = dcid >> 8;
  if (index >= conns_.size() || !conns_[index].used) {
    k.drop = DropReason::kUnknownConn;
    return nullptr;
  }
  RxConn& conn = conns_[index];
  if (conn.params.own_dcid != dcid) {
    k.drop = DropReason::kStaleConn;
    return nullptr;
  }
  if (c.path >= conn.params.n_paths) {
    k.drop = DropReason::kPath;
    ++conn.counters.drops;
    return nullptr;
  }
  const IpAddress& peer = conn.params.planes[conn.plane_slot(c.path)].peer;
  if (peer.v6 != p.v6 || std::memcmp(peer.b.data(), p.src_ip, p.v6 ? 16 : 4) != 0) {
    k.drop = DropReason::kSourceAddress;
    ++conn.counters.drops;
    return nullptr;
  }
  return &conn;
}

template <typename Q, typename Io>
bool RxRole<Q, Io>::crc_ok(const RxConn& conn, const RxPacket& p, std::uint8_t flags) const {
  // [MR-3.2.2] [MR-3.2.3]
  if ((flags & wire::kFlagCrc) == 0) return !conn.params.crc;
  const std::uint32_t n = p.length - wire::kCrcBytes;
  wire::Be32 crc;
  std::memcpy(&crc, p.data + n, sizeof crc);
  return crc == crc32c(0, p.data, n);
}

template <typename Q, typename Io>
void RxRole<Q, Io>::on_ctrl(const RxPacket& p) {
  // [MR-3.9.3]
  if (p.length > wire::kMaxCtrlBytes) return drop(DropReason::kOversize);
  RxToControl e;
  e.kind = RxToControlKind::kCtrlPacket;
  e.length = static_cast<std::uint16_t>(p.length);
  e.received_at = now_;
  e.source.plane = p.port;
  e.source.src.v6 = e.source.dst.v6 = p.v6;
  std::memcpy(e.source.src.b.data(), p.src_ip, p.v6 ? 16 : 4);
  std::memcpy(e.source.dst.b.data(), p.dst_ip, p.v6 ? 16 : 4);
  std::memcpy(e.source.src_mac.b.data(), p.src_mac, 6);
  e.source.src_port = p.src_port;
  e.source.dst_port = p.dst_port;
  std::memcpy(e.bytes.data(), p.data, p.length);
  // Half of the queue stays free for command results and liveness.
  if (q_.rx_to_control.room(kControlReserve) < kControlReserve || !q_.rx_to_control.push(e)) {
    drop(DropReason::kCtrlQueueFull);
  }
}

}  // namespace metaroce
