// TX role: paths that fail, are asked, and return; their source ports and epochs. [MR-9.3] [MR-9.4]
// path_health.h decides when; here it is done to windows, sequences and packets.
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

// A full-size PROBE is as long as the longest DATA packet: these zeros behind its header.
// [MR-3.8.4]
inline constexpr std::uint32_t kMaxProbePadding = 16384 + sizeof(wire::WriteImm);
alignas(64) inline constexpr std::array<std::uint8_t, kMaxProbePadding> kProbePadding{};

template <typename Q, typename Io, typename Cc>
std::uint64_t TxRole<Q, Io, Cc>::fresh_nonce(Conn& c) {
  c.params.entropy_seed = mix64(c.params.entropy_seed + 1);
  return mix64(c.params.entropy_seed ^ static_cast<std::uint64_t>(now_)) | 1;
}

// The path has FAILED: everything moves elsewhere, its window closes to one packet. [MR-9.3.2]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::fail_path(Conn& c, std::uint8_t path) {
  Path& p = c.paths[path];
  ++counters_.paths_failed;
  requeue_all(c, path, Lost::kMoved);
  // Its silences may have taken the window away already; what it had before is still its aim.
  if (p.cc.window != 0) Cc::close(c.cc, p.cc, std::max(p.window_before, p.cc.window));
  p.gap_since = kNever;
  resize_active(c, c.active);
  // All paths of a plane failed: the plane is lost, and asked as one.
  const unsigned slot = c.plane_slots[path];
  if (c.planes.size() > 1 && c.planes[slot].up()) {
    bool any = false;
    for (std::size_t i = slot; i < c.paths.size(); i += c.planes.size())
      any |= c.paths[i].health.hopeful();
    if (!any) lose_plane(c, slot);
  }
}

// Time to ask a NEW, FAILED or PROBING path. [MR-9.4.4]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::ask_path(Conn& c, std::uint8_t path) {
  Path& p = c.paths[path];
  PathHealth& h = p.health;
  // An epoch starts with nothing unresolved. What no node was free for waits here, and the question
  // goes by the old port: were none asked, and all paths like this one, nothing would ever free a
  // node. [MR-9.3.2] [MR-9.3.8]
  const bool kept = p.data_unresolved != 0 && !requeue_all(c, path, Lost::kMoved);
  const PathState before = h.state;
  const PathHealth::Ask a =
      h.ask(now_, 2 * p.rtt.probe_timeout(config_.probe_timeout_floor, config_.max_ack_delay,
                                          c.params.handshake_rtt));
  if (a.mtu_found) ++counters_.paths_mtu;
  if (a.new_port && !kept) change_port(c, path, draw_port(c, path));
  h.nonce = fresh_nonce(c);
  if (!send_probe(c, path, 0xffff, h.nonce,
                  a.full ? wire::ProbeKind::kFullSize : wire::ProbeKind::kLiveness))
    h.unsent();
  if (before == PathState::kNew && h.state != PathState::kNew) {
    ++counters_.paths_failed;
    resize_active(c, c.active);
  }
  settle(c, path);
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::on_path_reply(Conn& c, std::uint8_t path, const ProbeReplyInfo& r) {
  Path& p = c.paths[path];
  if (!p.health.asks()) {  // SUSPECT: the second question
    heard(c, path);
    return settle(c, path);
  }
  if (p.health.full) {
    heard(c, path);
    const std::int64_t units =
        std::int64_t{to_wire_time(now_) - r.timestamp_echo} - std::int64_t{r.delay_64ns};
    if (units > 0) p.rtt.sample(static_cast<Nanos>(units) << kWireTimeShift);
  }
  const bool fresh = p.health.state == PathState::kNew, active = p.health.reply(now_);
  hurry_plane(c, c.plane_slots[path]);
  if (active && !fresh) ++counters_.paths_returned;
  if (active) return path_returns(c, path);
  ask_path(c, path);
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::path_returns(Conn& c, std::uint8_t path) {
  Path& p = c.paths[path];
  p.window_before = 0;
  p.last_progress = now_;
  p.gap_since = kNever;
  p.dup = DupThreshold{};
  p.cc.round_end = p.seq.next;
  if (path < c.active_paths) join_active(c, path);
  resize_active(c, c.active);
  settle(c, path);
  list_conn(c);
}

// The peer had been silent as a whole: what its silence cost the paths is forgiven, and those not
// heard yet are asked soon, whatever their back-off. Timers were set to the long wait, and only
// move to come earlier. [MR-7.5.7]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::peer_recovered(Conn& c) {
  c.backoff = 0;
  c.recovered_at = now_;
  for (std::size_t i = 0; i < c.paths.size(); ++i) {
    Path& p = c.paths[i];
    if (p.health.state == PathState::kSuspect && p.health.silences != 0) {
      p.health.silences = 1;
      p.health.suspect_since = now_;
      p.last_progress = now_;
    } else if (p.data_unresolved == 0) {
      continue;
    }
    arm(c, static_cast<std::uint8_t>(i));
  }
  for (unsigned slot = 0; slot < c.planes.size(); ++slot) hurry_plane(c, slot);
}

// ---- source ports and epochs ------------------------------------------------------------------

// A port that no other path of the plane has, as far as the range allows. [MR-9.1.5] [MR-3.1.4]
template <typename Q, typename Io, typename Cc>
std::uint16_t TxRole<Q, Io, Cc>::draw_port(Conn& c, std::uint8_t path) {
  const std::uint32_t span = config_.source_port_max - config_.source_port_min + 1U;
  c.params.entropy_seed = mix64(c.params.entropy_seed + path);
  auto offset = static_cast<std::uint32_t>(((c.params.entropy_seed >> 32) * span) >> 32);
  const std::size_t planes = c.params.n_planes, n = c.rest.size();
  for (std::uint32_t tries = 0; tries < std::min<std::uint32_t>(span, 256); ++tries) {
    const auto port = static_cast<std::uint16_t>(config_.source_port_min + offset);
    bool taken = false;
    for (std::size_t i = c.plane_slots[path]; i < n && !taken; i += planes) {
      taken = c.rest[i].source_port == port ||
              (!c.rests() && c.paths[i].draining && c.paths[i].wanted_port == port);
    }
    if (!taken) return port;
    offset = offset + 1 == span ? 0 : offset + 1;
  }
  return static_cast<std::uint16_t>(config_.source_port_min + offset);
}

// FLUSHes carry nothing and are simply forgotten. [MR-9.3.2] An epoch of which the peer
// acknowledged nothing goes on under the new port: the peer may not know it, and would take two
// steps at once for garbage, for ever. So all tries of a PROBING phase share one. [MR-9.3.7]
// [MR-9.3.5]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::change_port(Conn& c, std::uint8_t path, std::uint16_t port) {
  Path& p = c.paths[path];
  p.seq.unresolved.clear();
  p.seq.floor = p.seq.next;
  c.rest[path].source_port = port;
  if (p.epoch_confirmed) {
    ++p.epoch;
    ++counters_.epoch_changes;
    p.epoch_confirmed = false;
  }
  p.draining = p.dirty = p.leaving = false;
  p.losses.reset();
  p.gap_since = kNever;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::start_port_change(Conn& c, std::uint8_t path, std::uint16_t port) {
  Path& p = c.paths[path];
  p.wanted_port = port != 0 ? port : draw_port(c, path);
  p.draining = true;
  update_open(c, path);
  try_port_change(c, path);
}

// It loses far more than the others: to another route, as soon as it is empty. What it holds is
// asked for, because one packet after the other would wait for a probe timeout. [MR-9.4.7]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::leave_route(Conn& c, std::uint8_t path) {
  Path& p = c.paths[path];
  p.leaving = false;
  p.wanted_port = draw_port(c, path);
  p.draining = true;
  ++counters_.routes_left;
  if (p.data_unresolved != 0) owe_flush(c, path);
}

// A planned change waits until the path is empty. [MR-9.3.2]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::try_port_change(Conn& c, std::uint8_t path) {
  Path& p = c.paths[path];
  if (!p.draining || p.data_unresolved != 0) return;
  change_port(c, path, p.wanted_port);
  if (c.planes[c.plane_slots[path]].up()) p.health.heard();
  settle(c, path);
}

// Keepalives and questions for credit: each time on the next path that may work. [MR-9.2.5]
template <typename Q, typename Io, typename Cc>
std::uint8_t TxRole<Q, Io, Cc>::next_question_path(const Conn& c) const {
  const auto n = static_cast<unsigned>(c.rest.size());
  unsigned at = c.current_path;
  for (unsigned tries = 0; tries < n; ++tries) {
    at = at + 1 >= n ? 0 : at + 1;
    const bool asks = c.rests() ? c.rest[at].state != static_cast<std::uint8_t>(PathState::kActive)
                                : c.paths[at].health.asks();
    if (!asks && c.planes[c.plane_slots[at]].up()) return static_cast<std::uint8_t>(at);
  }
  return static_cast<std::uint8_t>(c.current_path + 1U >= n ? 0 : c.current_path + 1U);
}

}  // namespace metaroce
