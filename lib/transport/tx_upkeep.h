// TX role: what is looked at now and then: silence of connections; and the invariants, for
// simulation and tests.
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

// Every 20 ms, a few connections: silence that lasts kills a connection with work outstanding;
// an idle one is probed, in rotation over its paths.
// [MR-7.5.3] [MR-7.5.4] [MR-7.5.5]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::keep_alive() {
  if (now_ < alive_check_) return;
  const auto n = static_cast<std::uint32_t>(live_conns_.size());
  constexpr std::uint32_t kPerPass = 16;
  for (std::uint32_t k = 0; k < kPerPass && next_alive_ < n; ++k) {
    Conn& c = conns_[live_conns_[next_alive_++]];
    if (may_rest(c)) rest(c);
    if (!c.open || c.failed) continue;
    const bool outstanding = c.unresolved + c.waiting != 0;
    // Work that waits for the first path that carries.
    bool stalled = !outstanding && !c.rests() && c.stream_head != kNil;
    for (std::size_t i = 0; i < c.paths.size() && stalled; ++i)
      stalled = !c.paths[i].health.carries();
    if (!stalled)
      c.stalled_since = 0;
    else if (c.stalled_since == 0)
      c.stalled_since = now_;
    Nanos silent_since = stalled             ? std::max(c.stalled_since, c.last_ack)
                         : outstanding       ? std::max(c.last_ack, c.outstanding_since)
                         : c.probe_sent != 0 ? c.probe_sent
                                             : now_;
    if (now_ - silent_since >= config_.dead_peer_timeout) {
      TxToControl e;
      e.kind = TxToControlKind::kConnFailed;
      e.status = static_cast<std::uint8_t>(WorkStatus::kRetryExceeded);
      e.never_answered = !c.ever_answered;
      e.id = c.params.index.v;
      fail_conn(c, WorkStatus::kRetryExceeded);
      tell_control(e);
      continue;
    }
    if (!outstanding && !stalled && config_.keepalive != 0 &&
        now_ - c.last_ack >= config_.keepalive) {
      if (c.probe_sent == 0) {
        c.probe_sent = now_;
        c.probe_nonce = mix64(c.params.entropy_seed ^ static_cast<std::uint64_t>(now_)) | 1;
      }
      c.current_path = next_question_path(c);
      send_probe(c, c.current_path, 0xffff, c.probe_nonce);
    }
  }
  if (next_alive_ >= n) {
    next_alive_ = 0;
    alive_check_ = now_ + 20 * kMillisecond;
  }
}

template <typename Q, typename Io, typename Cc>
const char* TxRole<Q, Io, Cc>::validate() const {
  for (const std::uint32_t index : live_conns_) {
    const Conn& c = conns_[index];
    std::uint32_t unresolved = 0, on_planes = 0;
    Bytes windows = 0, inflight = 0;
    for (const Path& p : c.paths) {
      if (p.seq.span() > PathWindow::kLimit)
        return "path has more than 255 unresolved sequence numbers";
      if (p.inflight < 0) return "path has negative bytes in flight";
      if ((p.block == kNil) != (p.seq.span() == 0))
        return "path's block does not match what is unresolved";
      Bytes bytes = 0;
      std::uint32_t data = 0;
      for (unsigned i = 0; i < p.seq.span(); ++i) {
        if (!p.seq.unresolved.test(i)) continue;
        const TxRecord& r = blocks_[p.block][(p.seq.floor.v + i) & 255];
        bytes += r.bytes;
        data += r.data ? 1 : 0;
      }
      if (bytes != p.inflight) return "bytes in flight differ from the records";
      if (data != p.data_unresolved) return "count of data in flight differs from the records";
      unresolved += data;
      windows += p.cc.window;
      inflight += p.inflight;
      if (p.health.asks() && p.seq.span() != 0 && p.data_unresolved == 0)
        return "path that carries nothing has unresolved sequence numbers";
      if (!p.health.carries() && c.path_open(static_cast<std::uint8_t>(&p - c.paths.data())))
        return "path that carries nothing is open to the scheduler";
    }
    if (c.rests()) {
      for (const PathRest& r : c.rest) windows += r.window;
    }
    for (const PlaneHealth& h : c.planes) on_planes += h.unresolved;
    if (on_planes != c.unresolved) return "planes' count of data in flight differs from the paths'";
    if (c.active_paths == 0 || c.active_paths > c.rest.size())
      return "active set is empty or longer than the connection's paths";
    if (inflight != c.inflight)
      return "connection's bytes in flight differ from the sum of its paths'";
    if (unresolved != c.unresolved)
      return "connection's count of data in flight differs from its paths'";
    if (windows != c.cc.window) return "connection's window differs from the sum of its paths'";
  }
  return nullptr;
}

template <typename Q, typename Io, typename Cc>
Mbps TxRole<Q, Io, Cc>::allowed_rate(ConnIndex index) const {
  const Conn* c = conn(index);
  if (c == nullptr) return 0;
  const Nanos lowest = c->lowest_rtt.value();
  const Nanos rtt = lowest != kNever ? lowest : std::max<Nanos>(c->params.handshake_rtt, 1);
  const std::int64_t window = std::min(c->cc.window, c->hint_window) * 8000 / rtt;
  return static_cast<Mbps>(std::min<std::int64_t>(window, c->pace_rate));
}

}  // namespace metaroce
