// RX role: rate hints of the ports, and how the host itself fares, for the peer's eyes. [MR-8.4]
//
// `receive_load` is the port's arrivals against its capacity. `host_pressure` is the share of
// recent bursts that left packets in the receive queue or mail for TX undelivered (moving average,
// gain 1/16): the host, not the port, is what cannot keep up.
#pragma once

#include "transport/rx_role.h"

namespace metaroce {

template <typename Q, typename Io>
void RxRole<Q, Io>::add_hints(RxConn& conn) {
  const ConnParams& p = conn.params;
  for (unsigned i = 0; i < p.n_planes; ++i) {
    conn.plane_ports[i] = port_of_plane_[p.planes[i].plane.v % kMaxPlanes];
    hinted_ports_ |= 1U << conn.plane_ports[i];
    hints_[conn.plane_ports[i]].add(
        p.index.v,
        PortHints::Peer{p.planes[i].peer, p.handshake_rtt, p.line_rate / p.n_planes, p.n_planes});
  }
}

template <typename Q, typename Io>
void RxRole<Q, Io>::remove_hints(const RxConn& conn) {
  if (!conn.used) return;
  for (unsigned i = 0; i < conn.params.n_planes; ++i)
    hints_[conn.plane_ports[i]].remove(conn.params.index.v);
}

// Who must know at once gets an ACK on the plane whose hint changed. Of two planes at one time the
// second wins; the first is due again at the next computation. [MR-8.4.5]
template <typename Q, typename Io>
void RxRole<Q, Io>::refresh_hints() {
  hint_wake_ = kNever;
  for (std::uint32_t left = hinted_ports_; left != 0; left &= left - 1) {
    PortHints& port = hints_[static_cast<unsigned>(std::countr_zero(left))];
    port.poll(now_, pressed(), [this](std::uint32_t index, std::uint8_t path) {
      RxConn& conn = conns_[index];
      conn.reply_path = path;
      RxConn::mark(conn.ack_paths, path);  // a hint travels with the block of a path
      conn.urgent = true;
      owe_ack(conn);
    });
    hint_wake_ = std::min(hint_wake_, port.answer_due());
  }
}

// [MR-8.4.12] [MR-8.4.14]
template <typename Q, typename Io>
void RxRole<Q, Io>::fill_load(wire::Ack& a, const RxConn& conn) {
  PortHints& port = hints_of(conn, conn.reply_path);
  a.rate_hint = port.tell(conn.params.index.v);
  a.hint_epoch = port.epoch(conn.params.index.v);
  a.receive_load = port.load();
  a.host_pressure = static_cast<std::uint8_t>(pressure_ >> 8);
}

// [MR-8.4.16]
template <typename Q, typename Io>
void RxRole<Q, Io>::note_pressure(bool queue_empty) {
  const std::uint32_t now = queue_empty && mail_list_.empty() ? 0 : 255U << 8;
  pressure_ = now > pressure_ ? pressure_ + (now - pressure_ + 15) / 16
                              : pressure_ - (pressure_ - now + 15) / 16;
}

}  // namespace metaroce
