// Ports that go down and up: told to the TX roles, which drop or probe the plane at once, and to
// the peers, whose own links may stay up and show nothing. [MR-9.5.3] [MR-9.5.4]
//
// - PORT_STATUS names every common plane with its state, so that the newest one says all; a new
//   change replaces one that is still repeated. Serials are a count of their own per connection
//   and direction: only newer ones act, each is answered.
// - A plane that is down, here or there, carries no control packets while another one is proven.
// - A plane that comes up without proof of its address is proven now: it may have been down since
//   the connection opened.
#include <algorithm>

#include "transport/control_role.h"

namespace metaroce {

using control::ConnState;
using wire::CtrlType;

void ControlRole::port_state(PlaneId plane, bool up) {
  if (down_planes_.contains(plane.v) != up) return;  // known
  if (up)
    down_planes_.erase(plane.v);
  else
    down_planes_.insert(plane.v);
  for (const auto& c : conns_) {
    if (!c || !c->in_roles || c->state >= ConnState::kRemoving) continue;
    for (std::uint32_t i = 0; i < c->params.n_planes; ++i) {
      if (c->params.planes[i].plane != plane) continue;
      tell_tx_port(*c, i, up ? kPortUp : std::uint8_t{0});
      plane_changed(*c, i);
      if (c->state == ConnState::kOpen || c->state == ConnState::kClosing) tell_peer_ports(*c);
      rearm(*c);
    }
  }
}

void ControlRole::tell_tx_port(Conn& c, std::uint32_t plane, std::uint8_t bits) {
  Command cmd;
  cmd.kind = CommandKind::kPortState;
  cmd.id = c.params.index.v;
  cmd.path = c.params.planes[plane].plane.v;
  cmd.status = bits;
  command(c.group, Side::kTx, cmd);
}

bool ControlRole::plane_up(const Conn& c, std::uint32_t plane) const {
  return !down_planes_.contains(c.params.planes[plane].plane.v) &&
         ((c.peer_down_planes >> plane) & 1U) == 0;
}

// Control packets leave the plane, or it is proven again.
void ControlRole::plane_changed(Conn& c, std::uint32_t plane) {
  if (!plane_up(c, plane)) {
    if (c.control_plane == plane) next_control_plane(c);
    return;
  }
  control::PlaneProof& proof = c.proofs[plane];
  if (proof.proven || c.state != ConnState::kOpen) return;
  proof.nonce = io_.secret_random();
  start(proof.retry, 0);
  send_rtu(c, plane);
}

// To the next plane that is proven and up; proven alone will do when none is. [MR-5.5.7]
void ControlRole::next_control_plane(Conn& c) {
  for (const bool even_down : {false, true}) {
    for (std::uint32_t k = 1; k <= c.params.n_planes; ++k) {
      const std::uint32_t i = (c.control_plane + k) % c.params.n_planes;
      if (!c.proofs[i].proven || (!even_down && !plane_up(c, i))) continue;
      c.control_plane = i;
      return;
    }
  }
}

// A connection opens while a port is down.
void ControlRole::tell_down_ports(Conn& c) {
  bool any = false;
  for (std::uint32_t i = 0; i < c.params.n_planes; ++i) {
    if (!down_planes_.contains(c.params.planes[i].plane.v)) continue;
    any = true;
    tell_tx_port(c, i, 0);
    plane_changed(c, i);
  }
  if (any) tell_peer_ports(c);
}

void ControlRole::tell_peer_ports(Conn& c) {
  start(c.port_retry, ++c.port_serial);
  send_port_status(c, false);
}

void ControlRole::send_port_status(Conn& c, bool rotate) {
  Message m;
  m.type = CtrlType::kPortStatus;
  m.serial = c.port_serial;
  for (std::uint32_t i = 0; i < c.params.n_planes; ++i) {
    const PlaneId plane = c.params.planes[i].plane;
    m.ports.planes[m.ports.n++] = {plane, !down_planes_.contains(plane.v)};
  }
  send_on(c, m, rotate);
}

void ControlRole::on_port_status(Conn& c, const Message& m, const PacketSource& src) {
  Message r;
  r.type = CtrlType::kPortStatusRsp;
  r.crc = c.params.crc;
  r.dcid = c.params.peer_dcid;
  r.scid = c.params.own_dcid;
  r.serial = m.serial;
  r.conn_epoch = c.epoch;
  reply(src, c.params.peer_port, r);
  if (static_cast<std::int32_t>(m.serial - c.peer_port_serial) <= 0) return;  // late or repeated
  c.peer_port_serial = m.serial;
  for (std::uint32_t k = 0; k < m.ports.n; ++k) {
    for (std::uint32_t i = 0; i < c.params.n_planes; ++i) {
      const std::uint32_t bit = 1U << i;
      const bool up = m.ports.planes[k].up;
      if (c.params.planes[i].plane != m.ports.planes[k].plane) continue;
      if (((c.peer_down_planes & bit) == 0) == up) continue;
      c.peer_down_planes ^= bit;
      tell_tx_port(c, i, static_cast<std::uint8_t>(kPortOfPeer | (up ? kPortUp : 0)));
      plane_changed(c, i);
    }
  }
  rearm(c);
}

void ControlRole::on_port_status_rsp(Conn& c, const Message& m) {
  if (!c.port_retry.active || m.serial != c.port_retry.serial)
    return drop(DropReason::kCtrlUnexpected);
  c.port_retry.active = false;
  rearm(c);
}

}  // namespace metaroce
