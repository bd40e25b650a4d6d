// TX role: the active set: which paths take new data, and the windows of those that join and leave.
// active_set.h decides how many; here they are found, proven and given a window. [MR-9.1.6]
//
// A path that joins takes half of the widest window of its plane, one that leaves gives its own to
// the narrowest: the connection's window stays what congestion control made it. What is in flight
// on a path that left just drains. Paths that failed, and those of lost planes, do not count: the
// set reaches over them.
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

// The connection is new: the first window over as many paths as it asks for.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::start_paths(Conn& c) {
  const ConnParams& p = c.params;
  c.cc.packet = p.payload_mtu;
  const Bytes whole = Cc::initial_window(config_, p.handshake_rtt, p.line_rate);
  c.active = active_rule(c).choose(whole, 0);
  const std::uint32_t n = c.start_paths = c.active_paths = c.active.paths;
  std::vector<typename Cc::Path> windows(n);
  Cc::start(c.cc, windows.data(), n, config_, p.payload_mtu, p.handshake_rtt, p.line_rate);
  for (unsigned i = 0; i < n; ++i) {
    c.rest[i].window = static_cast<std::uint32_t>(windows[i].window);
    c.rest[i].early = windows[i].early;
  }
}

// Paths of the set that were never proven are asked now. [MR-9.1.7]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::verify_active(Conn& c) {
  if (!c.open || c.rests()) return;
  for (unsigned i = 0; i < c.active_paths; ++i) {
    const PathHealth& h = c.paths[i].health;
    if (h.state == PathState::kNew && h.next == kNever && c.planes[c.plane_slots[i]].up())
      ask_path(c, static_cast<std::uint8_t>(i));
  }
}

// After the window or the health of a path changed. Rare, so a walk over the paths is fine.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::resize_active(Conn& c, const ActiveSet& to) {
  const auto n = static_cast<std::uint32_t>(c.paths.size());
  std::uint32_t end = 0;
  for (std::uint32_t found = 0; end < n && found < to.paths; ++end)
    found += hopeful(c, end) ? 1 : 0;
  const std::uint32_t old = c.active_paths;
  c.active = to;
  c.active_paths = std::max(end, 1U);
  Cc::set_paths(c.cc, to.paths);
  for (std::uint32_t i = c.active_paths; i < old; ++i) {  // those that leave
    const int heir = window_of_plane(c, i, false);
    Path& p = c.paths[i];
    if (heir < 0 || p.cc.window == 0) continue;
    Cc::give(p.cc, c.paths[static_cast<unsigned>(heir)].cc);
    update_open(c, static_cast<std::uint8_t>(i));
    update_open(c, static_cast<std::uint8_t>(heir));
  }
  for (std::uint32_t i = old; i < c.active_paths; ++i)
    if (c.paths[i].health.carries()) join_active(c, static_cast<std::uint8_t>(i));
  verify_active(c);
}

// The carrying path of the same plane, in the set, with the widest or the narrowest window; any
// plane's when there is none; -1 when there is none at all.
template <typename Q, typename Io, typename Cc>
int TxRole<Q, Io, Cc>::window_of_plane(const Conn& c, unsigned path, bool widest) const {
  int best = -1;
  bool best_near = false;
  for (unsigned i = 0; i < c.active_paths; ++i) {
    if (i == path || !c.paths[i].health.carries()) continue;
    const bool near = c.plane_slots[i] == c.plane_slots[path];
    if (best >= 0 && best_near && !near) continue;
    const Bytes w = c.paths[i].cc.window;
    const Bytes b = best < 0 ? 0 : c.paths[static_cast<unsigned>(best)].cc.window;
    if (best < 0 || (near && !best_near) || (widest ? w > b : w < b)) {
      best = static_cast<int>(i);
      best_near = near;
    }
  }
  return best;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::join_active(Conn& c, std::uint8_t path) {
  Path& p = c.paths[path];
  if (p.cc.window >= c.cc.packet) return;
  const int donor = window_of_plane(c, path, true);
  if (donor >= 0) {
    Cc::share(c.cc, c.paths[static_cast<unsigned>(donor)].cc, p.cc);
    update_open(c, static_cast<std::uint8_t>(donor));
  } else {
    Cc::close(c.cc, p.cc, 0);  // nobody to share with: one packet
  }
  p.cc.round_end = p.seq.next;
  update_open(c, path);
}

}  // namespace metaroce
