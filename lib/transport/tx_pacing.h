// TX role: how fast a connection sends, besides its windows: the pacer, the start, rate hints.
//
// Pacer: a token bucket filled when it is looked at. [MR-8.1.4] Tokens are Mb/s x ns, 1/8000 byte,
// so nothing is rounded and nothing divided per packet; a connection out of tokens computes once
// when it has one again (`pace_at`). Packets are charged with their Ethernet, IP and UDP headers:
// line rates and hints are rates of the link.
//
// Start: until something answers, no more new data leaves than the initial window. [MR-8.2.5]
// Nothing is resent before the first answer except after a probe timeout, because only
// acknowledgments show gaps. [MR-8.2.7]
//
// Hint: the rate is min(line rate, hint). A fall makes the sender pause until half of what left too
// fast has passed. An eighth less while the newest round trip shows a queue, so that it drains
// instead of being kept full at the right rate; a sixty-fourth more while it shows none. With srtt
// in its place the queue would justify itself. Rejected: a hard limit on what is in flight. Lost
// packets count until a successor shows the gap, and with the limit reached there is none: after a
// cold incast of 63 the link idled for 130 us. ECN and loss act on the windows as ever. [MR-8.4.6]
// [MR-8.4.7]
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::may_send(Conn& c) {
  if (now_ >= c.hint.next_expiry()) apply_hint(c);
  if (c.pace_rate == 0) return true;
  if (now_ < c.pace_at) {
    wake_ = std::min(wake_, c.pace_at);
    return false;
  }
  if (c.flush_on_resume) c.flush_on_resume = !send_flushes(c);
  credit(c);
  if (c.tokens > 0) return true;
  // A hint that expires first lets it go at the line rate.
  c.pace_at = std::min(now_ - c.tokens / std::int64_t{rate_now(c)} + 1, c.hint.next_expiry());
  wake_ = std::min(wake_, c.pace_at);
  return false;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::credit(Conn& c) {
  if (now_ <= c.tokens_at) return;
  const Nanos dt = std::min<Nanos>(now_ - c.tokens_at, kSecond);  // bounds the product
  c.tokens_at = now_;
  // Who waited for a token and is looked at late has earned what the delay is worth: a loop of some
  // microseconds must not cost it the rate.
  const std::int64_t most = c.tokens <= 0 ? burst(c, config_.pacing_burst_packets) : bucket(c);
  c.tokens = std::min(most, c.tokens + dt * std::int64_t{rate_now(c)});
}

// [MR-8.1.6]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::charge(Conn& c, std::uint32_t bytes, bool resend) {
  if (c.starting && !resend) c.start_room -= bytes;
  if (c.pace_rate == 0) return;
  const bool v6 = c.params.planes[0].peer.v6;
  c.tokens -= std::int64_t{bytes + (v6 ? wire::kEncap6Bytes : wire::kEncap4Bytes)} * 8000;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::start_pacing(Conn& c) {
  c.start_room = c.cc.window;
  c.pace_rate = c.params.line_rate;
  c.tokens = bucket(c);
  c.tokens_at = now_;
}

// The first transmission with nothing else outstanding.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::start_after_idle(Conn& c) {
  c.outstanding_since = now_;
  if (now_ - std::max(c.last_ack, c.last_sent) < config_.idle_restart) return;
  // [MR-8.2.3] The window that the hint allows is in force already; W_c must not be below.
  const Bytes hinted = c.hint.total() != 0 ? c.hint_window : 0;
  // The set of paths goes back first: those that leave give their windows to those that stay.
  if (hinted != 0)
    resize_active(c, active_rule(c).choose(hinted, 0));
  else if (c.active.paths > c.start_paths)
    resize_active(c, active_rule(c).with(c.start_paths));
  for (unsigned i = 0; i < c.active_paths; ++i) {
    Path& p = c.paths[i];
    if (hinted != 0)
      Cc::restart_at(c.cc, p.cc, hinted);
    else
      Cc::restart(c.cc, p.cc);
    Cc::begin(p.cc);
    update_open(c, static_cast<std::uint8_t>(i));
  }
  watch_window(c);
  c.starting = true;
  c.start_room = c.cc.window;
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::note_hint(Conn& c, const PathAck& a, Nanos received_at) {
  // Without hints the line rate is what is allowed, and the target still follows the round trip.
  if (!config_.rate_hints || a.hint_path >= c.paths.size()) return size_hint_window(c);
  // Of the whole connection: a path without a sample does not know of a long queue.
  const Nanos srtt = c.rtt.valid() ? c.rtt.srtt() : c.params.handshake_rtt;
  if (c.hint.on_ack(c.plane_slots[a.hint_path], a, now_, received_at + 2 * srtt + kHintLife))
    apply_hint(c);
  else
    size_hint_window(c);
}

// The hint changed or expired.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::apply_hint(Conn& c) {
  c.hint.update(now_, c.params.n_planes, c.params.line_rate);
  credit(c);  // at the old rate up to here
  const Mbps hint = c.hint.total(), before = c.pace_rate;
  const bool first = c.hint_window == Conn::kNoHintWindow;
  c.pace_rate = c.params.line_rate;
  if (hint == 0 || c.tokens_at <= now_) c.pace_at = 0;  // who waits for a token computes again
  if (hint == 0) c.tokens_at = std::min(c.tokens_at, now_);
  if (hint != 0 && (c.pace_rate == 0 || hint < c.pace_rate)) c.pace_rate = hint;  // [MR-8.4.13]
  size_hint_window(c);
  if (hint == 0) return;
  c.tokens = std::min(c.tokens, first ? 1 : bucket(c));
  if (c.inflight > c.hint_window && (before == 0 || c.pace_rate < before)) pause(c, before, first);
}

// What left at the old rate within the last round trip is on its way: wait for that much of it to
// pass. Behind it go FLUSHes, once: the first window is where losses have no successor. [MR-8.4.15]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::pause(Conn& c, Mbps before, bool first) {
  const Nanos trip = hint_trip(c);
  const Nanos wait = (before == 0 ? trip : trip * (before - c.pace_rate) / before) / 2;
  c.pace_at = std::max(c.pace_at, now_ + wait);
  c.tokens_at = c.pace_at;  // the pause earns nothing
  c.flush_on_resume |= first;
}

template <typename Q, typename Io, typename Cc>
Nanos TxRole<Q, Io, Cc>::hint_trip(const Conn& c) const {
  const Nanos lowest = c.lowest_rtt.value();
  const Nanos rtt = lowest != kNever ? lowest + c.longer_trip
                                     : std::min<Nanos>(c.params.handshake_rtt, kMaxStartRtt);
  return rtt + config_.hint_window_slack;
}

// A sample of a path's round trip. Returns what of it was spent in queues.
template <typename Q, typename Io, typename Cc>
Nanos TxRole<Q, Io, Cc>::on_rtt(Conn& c, Path& p, Nanos rtt) {
  const bool first = !p.rtt.valid();
  p.rtt.sample(rtt);
  c.rtt.sample(rtt);
  c.lowest_rtt.sample(rtt, now_);
  p.lowest_rtt.sample(rtt);
  const Nanos lowest = c.lowest_rtt.value(), own = p.lowest_rtt.value();
  const Nanos base = MeanTrip::longer(own, lowest) ? own : lowest;
  Cc::on_rtt(c.cc, p.cc, rtt, base, c.rtt.deviation(), config_.delay_guard);
  // A longer way than the one that the windows were lifted for. [MR-8.3.17]
  if (first && p.cc.window != 0 && MeanTrip::longer(rtt, lowest))
    Cc::lift(c.cc, p.cc, Bytes{c.pace_rate} * rtt / 8000 / c.active_paths);
  if (now_ >= c.trip_at) measure_trip(c);
  return c.latest_queue = rtt - base;
}

// The answer to an announcement says nothing about the way of data, which waits in other queues.
// But under a hint it is the length of the way, when all that data will show is the queue that the
// start of all of them made; and on a long way the lift needs it. [MR-7.2.7] [MR-8.3.13]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::on_announced(Conn& c, Nanos rtt) {
  if (c.hint.total() != 0 || c.params.handshake_rtt > kMaxStartRtt) c.lowest_rtt.sample(rtt, now_);
}

// Once per round trip: a walk over the paths. [MR-8.4.17]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::measure_trip(Conn& c) {
  const Nanos lowest = c.lowest_rtt.value();
  c.trip_at = now_ + std::max(lowest, kMaxStartRtt);
  const bool turn = now_ >= c.path_windows_end;
  if (turn) c.path_windows_end = now_ + LowestRtt::kWindow;
  MeanTrip mean(lowest);
  for (Path& p : c.paths) {
    mean.add(p.inflight, p.lowest_rtt.value());
    if (turn) p.lowest_rtt.turn();
  }
  c.longer_trip = mean.value() - lowest;
}

// [MR-8.4.15]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::size_hint_window(Conn& c) {
  // Two packets always: fewer would wait for a delayed ACK.
  const Bytes least = 2 * Bytes{c.cc.packet};
  const Nanos trip = hint_trip(c);
  c.cc.hinted = c.hint.total() != 0;
  // Under a hint the windows follow the round trip as it is, so that pacing, not they, drains a
  // queue: a sender that falls silent meanwhile loses its share.
  const Nanos window_trip = c.cc.hinted ? std::clamp(c.rtt.srtt(), trip, 8 * trip) : trip;
  c.cc.target = std::max<Bytes>(Bytes{c.pace_rate} * window_trip / 8000, least);
  c.hint_window =
      c.cc.hinted ? std::max<Bytes>(Bytes{c.pace_rate} * trip / 8000, least) : Conn::kNoHintWindow;
  // Not while the packets of a start that the network threw away still count as in flight: closed
  // windows would leave the link idle until their loss is known. [MR-8.4.19]
  if (c.cc.hinted && c.cc.window > c.cc.target + c.cc.target / 4 && c.inflight <= c.cc.target) {
    const Bytes whole = c.cc.window;
    for (unsigned i = 0; i < c.active_paths; ++i)
      Cc::scale(c.cc, c.paths[i].cc, c.cc.target, whole);
    for (unsigned i = 0; i < c.active_paths; ++i) update_open(c, static_cast<std::uint8_t>(i));
    watch_window(c);
  }
}

// The first answer of a start: the windows become what the allowed rate needs.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::lift_windows(Conn& c) {
  if (c.params.handshake_rtt > kMaxStartRtt) size_hint_window(c);
  // More than these paths can hold: first all that the rate needs, then equal parts for each.
  if (c.cc.target / c.active_paths > c.cc.path_max)
    resize_active(c, active_rule(c).choose(c.cc.target, c.active.paths));
  for (unsigned i = 0; i < c.active_paths; ++i) {
    Cc::lift(c.cc, c.paths[i].cc, c.cc.target / c.active_paths);
    update_open(c, static_cast<std::uint8_t>(i));
  }
  watch_window(c);
}

}  // namespace metaroce
