// TX role: connections that rest. One that has nothing unresolved, nothing waiting and no path to
// ask for longer than `idle_restart` keeps 88 bytes of each path and gives the rest back to the
// pool; it takes it again when there is something to send, or something is heard that concerns a
// path. Work that finds the pool empty waits where it is.
//
// All paths of a connection rest together: the scheduler walks over them as an array, and idle time
// is the connection's. What gets lost is what idle time makes void anyway: the current round of
// congestion control, deadlines (timers belong to the place in the pool; one that fires for who had
// it before comes too early at worst, which every timer may), and when the
// threshold of duplicates rose, which then begins its quiet second again.
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::may_rest(const Conn& c) const {
  if (c.rests() || c.listed || c.unresolved + c.waiting != 0 || c.stream_head != kNil ||
      c.resend_head != kNil || !unarmed_.empty() ||
      now_ - std::max(c.last_ack, c.last_sent) <= config_.idle_restart)
    return false;
  for (const PlaneHealth& h : c.planes)
    if (!h.up() || h.nonce != 0) return false;
  for (const Path& p : c.paths) {
    const PathHealth& h = p.health;
    const bool calm = h.carries() || (h.state == PathState::kNew && h.next == kNever);
    if (!calm || h.silences != 0 || p.draining || p.seq.span() != 0 || p.block != kNil ||
        std::max(p.cc.window, p.cc.regrow_to) > Bytes{UINT32_MAX})
      return false;
  }
  return true;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::keep(const Path& p, PathRest& r) {
  r.next = p.seq.next;
  r.rtt = p.rtt;
  r.lowest_rtt = p.lowest_rtt;
  r.window = static_cast<std::uint32_t>(p.cc.window);
  r.regrow_to = static_cast<std::uint32_t>(p.cc.regrow_to);
  r.early = p.cc.early;
  r.peer_ce = p.peer_ce;
  r.peer_received = p.peer_received;
  r.peer_late = p.peer_late;
  r.epoch = p.epoch;
  r.epoch_confirmed = p.epoch_confirmed ? 1 : 0;
  r.dup = p.dup.last();
  r.state = static_cast<std::uint8_t>(p.health.state) & 7;
  r.fault = static_cast<std::uint8_t>(p.health.fault) & 3;
}

template <typename Q, typename Io, typename Cc>
typename TxRole<Q, Io, Cc>::Path TxRole<Q, Io, Cc>::resume(const Conn& c, unsigned path) const {
  const PathRest& r = c.rest[path];
  Path p;
  p.seq.floor = p.seq.next = p.cc.round_end = r.next;
  p.highest_acked = p.announced = r.next - 1;
  p.rtt = r.rtt;
  p.lowest_rtt = r.lowest_rtt;
  p.cc.window = r.window;
  p.cc.regrow_to = r.regrow_to;
  p.cc.early = r.early;
  p.peer_ce = r.peer_ce;
  p.peer_received = r.peer_received;
  p.peer_late = r.peer_late;
  p.epoch = r.epoch;
  p.epoch_confirmed = r.epoch_confirmed != 0;
  p.dup = DupThreshold(r.dup, now_);
  p.health.state = static_cast<PathState>(r.state);
  p.health.fault = static_cast<PathFault>(r.fault);
  return p;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::rest(Conn& c) {
  for (unsigned i = 0; i < c.paths.size(); ++i) keep(c.paths[i], c.rest[i]);
  owners_[c.timers >> path_shift_] = kNil;
  paths_.give(c.paths.data());
  c.paths = {};
  c.open_paths = c.skip_paths = {};
  c.run_left = 0;
}

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::wake(Conn& c) {
  if (!c.rests()) return true;
  Path* const all = paths_.take();
  if (all == nullptr) {
    ++counters_.no_path_state;
    // Who rests meanwhile makes room: look soon.
    alive_check_ = std::min(alive_check_, now_ + kMillisecond);
    return false;
  }
  c.paths = {all, c.rest.size()};
  const std::uint32_t array = paths_.index(all);
  owners_[array] = c.params.index.v;
  c.timers = array << path_shift_;
  for (unsigned i = 0; i < c.paths.size(); ++i) {
    new (&all[i]) Path(resume(c, i));
    update_open(c, static_cast<std::uint8_t>(i));
  }
  verify_active(c);  // when it was opened there may have been no room
  return true;
}

// Keepalives of a resting connection are answered without waking it: its paths are all well.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::on_reply_at_rest(Conn& c, const ProbeReplyInfo& r) {
  if (c.probe_nonce == 0 || r.nonce != c.probe_nonce)
    return counters_.drops.add(DropReason::kProbeUnknown);
  c.probe_nonce = 0;
  c.probe_sent = 0;
  c.last_ack = now_;
  c.ever_answered = true;
}

template <typename Q, typename Io, typename Cc>
TxPathView<Cc> TxRole<Q, Io, Cc>::path(ConnIndex index, unsigned path) const {
  TxPathView<Cc> v;
  const Conn* c = conn(index);
  if (c == nullptr || path >= c->rest.size()) return v;
  static_cast<Path&>(v) = c->rests() ? resume(*c, path) : c->paths[path];
  v.source_port = c->rest[path].source_port;
  v.timeouts = c->rest[path].timeouts;
  v.counters = c->rest[path].counters;
  return v;
}

}  // namespace metaroce
