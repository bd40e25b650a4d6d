// TX role: planes that are lost as a whole, are asked, and return. [MR-9.5] plane_health.h decides
// when. The probe timer of a plane is that of its first path.
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

// An acknowledgment resolved something on the path: also the moment to see who else is silent.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::plane_progress(Conn& c, std::uint8_t path) {
  if (c.planes.size() < 2) return;
  c.planes[c.plane_slots[path]].progress(now_);
  c.pulse.beat(now_, std::max(config_.probe_timeout_floor, c.paths[path].rtt.srtt()));
  if (now_ >= c.plane_check_at) check_planes(c);
}

// [MR-9.5.1] The receiver acknowledges all planes from one loop, so the delay that it may take
// shows in the pulse and needs no allowance; half an RTT is for queues that grow.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::check_planes(Conn& c) {
  const Nanos floor = config_.probe_timeout_floor;
  c.plane_check_at = now_ + floor / 4;
  for (unsigned slot = 0; slot < c.planes.size(); ++slot) {
    PlaneHealth& h = c.planes[slot];
    const Nanos silence = h.silence(now_, c.pulse);
    if (silence < floor || !plane_is_at_work(c, slot)) continue;
    Nanos limit = floor;
    for (std::size_t i = slot; i < c.paths.size(); i += c.planes.size()) {
      const Path& p = c.paths[i];
      if (p.data_unresolved != 0)
        limit =
            std::max(limit, p.rtt.probe_timeout(floor, p.rtt.srtt() / 2,
                                                c.params.handshake_rtt + config_.max_ack_delay));
    }
    if (silence < limit) continue;
    if (h.doubted_before(now_))
      lose_plane(c, slot);
    else
      c.plane_check_at = now_;  // the second look at the next opportunity
  }
}

// Enough is outstanding on it that loss alone is a poor explanation for silence: one path's last
// packet may be lost with its FLUSH, and is that path's own matter.
template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::plane_is_at_work(const Conn& c, unsigned slot) const {
  constexpr std::uint32_t kPackets = 4;
  if (c.planes[slot].unresolved >= kPackets) return true;
  unsigned busy = 0;
  for (std::size_t i = slot; i < c.paths.size() && busy < 2; i += c.planes.size())
    busy += c.paths[i].data_unresolved != 0 ? c.paths[i].health.carries() ? 1U : 2U : 0U;
  return busy >= 2;
}

// A path timed out: so has its plane when nothing on it was heard for as long, and another plane
// was, meanwhile - not just the last acknowledgments before everything fell silent.
template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::plane_is_silent(const Conn& c, std::uint8_t path) const {
  if (c.planes.size() < 2) return false;
  const Path& p = c.paths[path];
  const unsigned slot = c.plane_slots[path];
  const PlaneHealth& h = c.planes[slot];
  const Nanos since = std::max(h.quiet_since(), c.recovered_at);
  if (!h.up() || now_ - since < p.rtt.probe_timeout(config_.probe_timeout_floor,
                                                    config_.max_ack_delay, c.params.handshake_rtt))
    return false;
  if (!plane_is_at_work(c, slot)) return false;
  for (const PlaneHealth& other : c.planes)
    if (&other != &h && other.up() && other.progress_at > since + p.rtt.srtt() / 2) return true;
  return false;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::lose_plane(Conn& c, unsigned slot) {
  ++counters_.planes_lost;
  c.planes[slot].lose(now_);
  drain_plane(c, slot);
  ask_plane(c, slot);
}

// Everything unresolved on the plane goes to the others, at once. Windows stay: it is no
// congestion.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::drain_plane(Conn& c, unsigned slot) {
  for (std::size_t i = slot; i < c.paths.size(); i += c.planes.size()) {
    Path& p = c.paths[i];
    const auto path = static_cast<std::uint8_t>(i);
    p.health.suspend();
    p.gap_since = kNever;
    p.dirty = false;
    requeue_all(c, path, Lost::kMoved);
    settle(c, path);
  }
  resize_active(c, c.active);
}

// [MR-9.5.2] On one path after the other; those that failed by themselves only when all did.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::ask_plane(Conn& c, unsigned slot) {
  PlaneHealth& h = c.planes[slot];
  if (h.unresolved != 0) drain_plane(c, slot);  // no node was free for all of it
  const auto planes = static_cast<unsigned>(c.planes.size());
  const unsigned n = static_cast<unsigned>(c.paths.size()) / planes;
  unsigned turn = h.probe_turn;
  for (unsigned k = 0; k < n; ++k) {
    turn = turn + 1 >= n ? 0 : turn + 1;
    if (c.paths[turn * planes + slot].health.hopeful()) break;
  }
  h.probe_turn = static_cast<std::uint8_t>(turn);
  const std::uint64_t nonce = fresh_nonce(c);
  const auto path = static_cast<std::uint8_t>(turn * planes + slot);
  h.asked(now_, send_probe(c, path, 0xffff, nonce) ? nonce : 0);
  arm(c, static_cast<std::uint8_t>(slot));
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::plane_returns(Conn& c, unsigned slot) {
  PlaneHealth& h = c.planes[slot];
  ++counters_.planes_returned;
  const bool long_gone = now_ - h.lost_at >= config_.idle_restart;
  h.returned(now_);
  for (std::size_t i = slot; i < c.paths.size(); i += c.planes.size()) {
    Path& p = c.paths[i];
    p.health.heard();
    p.last_progress = now_;
    p.window_before = 0;
    if (long_gone && p.cc.window != 0) Cc::restart(c.cc, p.cc);  // [MR-8.2.2]
  }
  hurry_plane(c, slot);
  resize_active(c, c.active);
  for (std::size_t i = slot; i < c.paths.size(); i += c.planes.size())
    settle(c, static_cast<std::uint8_t>(i));
  list_conn(c);
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::hurry_plane(Conn& c, unsigned slot) {
  for (std::size_t i = slot; i < c.paths.size(); i += c.planes.size()) {
    PathHealth& p = c.paths[i].health;
    if (!p.asks() || p.next == kNever) continue;
    p.hurry(now_);
    arm(c, static_cast<std::uint8_t>(i));
  }
}

// [MR-9.5.3] [MR-9.5.4]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::on_port_state(Conn& c, const Command& k) {
  for (unsigned slot = 0; slot < c.planes.size(); ++slot) {
    if (c.params.planes[slot].plane.v != k.path) continue;
    PlaneHealth& h = c.planes[slot];
    if (h.port(now_, (k.status & kPortOfPeer) != 0, (k.status & kPortUp) != 0)) {
      ++counters_.planes_lost;
      drain_plane(c, slot);
    }
    if (!h.up() && now_ >= h.next)
      ask_plane(c, slot);
    else
      arm(c, static_cast<std::uint8_t>(slot));
  }
}

}  // namespace metaroce
