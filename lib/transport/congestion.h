// Congestion control behind a compile-time interface (template parameter of the TX role), and its
// first implementation: ECN-driven additive increase, multiplicative decrease per path, coupled
// over the paths of a connection. The receiver's half (rate hints) sets the target.
//
//   Window of a path W_p in bytes; window of the connection W_c = sum of W_p, kept explicitly.
//   [MR-8.3.2] `target` is what the allowed rate (line rate, or the receiver's hint) sends within
//   the lowest RTT and a slack. Below it a clean path grows the faster the more is missing
//   [MR-8.3.12], beyond it by a thirty-second [MR-8.3.1], under a hint not at all. Growth below the
//   target is what moves load between paths: what marks and delay take from one, those take up that
//   wait no longer than the connection's packets do on the average. [MR-8.3.19] [MR-8.3.20]
//   [MR-8.3.3] [MR-8.3.4] [MR-8.3.5] CE: half a packet for each marked one, at once, and the
//   scheduler skips the path for one rotation. In equilibrium with the growth a third of the
//   packets is marked. [MR-8.3.7] [MR-8.3.8] Loss: the lost bytes are subtracted (random loss on
//   one path must not halve it); above 20 % lost in each of two consecutive RTTs it is congestion
//   without marks: halve. Delay counts only where nothing marks: delay_guard.h.
//
//   Rejected, by simulation (64 hosts, permutation): DCTCP's average with gain 1/16 (a flow of 20
//   RTTs is over before it reacts: 1.09 against 1.05); delay against the lowest RTT for longer than
//   a round, or against the average while all paths grow alike: flows starve each other (1.2
//   to 1.4).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/serial.h"
#include "base/units.h"
#include "transport/config.h"
#include "transport/delay_guard.h"
#include "transport/loss_recovery.h"
#include "transport/ratio.h"
#include "wire/packet.h"

namespace metaroce {

class EcnAimd {
 public:
  struct Path {
    Bytes window = 0;
    PathSeq round_end;  // the RTT round ends when this is acknowledged
    Bytes round_acked = 0, round_lost = 0;
    bool used_fully = false;    // the window limited sending in this round
    bool lossy_before = false;  // the previous round lost more than 20 %
    std::uint8_t early = 0;     // rounds left in which all delay counts [MR-8.3.18]
    DelayGuard::Round delays;
    Bytes owed = 0;       // lost, and not regained: it comes back by a quarter [MR-8.3.12]
    Bytes regrow_to = 0;  // a path that returned doubles up to here; 0 = it does not
  };
  struct Conn {
    Bytes window = 0, min = 0, max = 0;
    Bytes initial = 0;  // of each path
    Bytes packet = 4096;
    Bytes target = 0;     // what the allowed rate sends within an RTT: up to it windows grow fast
    bool hinted = false;  // by the receiver: beyond it they do not grow at all
    std::uint32_t paths = 1;
    Nanos mean_queue_8 = 0;  // what packets wait in queues, average of the paths, in 1/8 ns
    DelayGuard guard;
    Bytes path_max = INT64_MAX;  // a path's sequence ends here [MR-8.3.16]
  };

  static Bytes initial_window(const TransportConfig& c, Nanos handshake_rtt, Mbps line_rate) {
    if (c.initial_window != 0) return c.initial_window;
    // [MR-8.2.1] [MR-8.2.8] 0.9 x RTT x line rate. The handshake passes the control threads, hence
    // the cap: 25 us is a generous fabric round trip. Mb/s x ns / 8000 = bytes.
    const Nanos rtt = std::min<Nanos>(handshake_rtt, 25 * kMicrosecond);
    return static_cast<Bytes>(line_rate) * rtt * 9 / 80000;
  }
  static void start(Conn& c, Path* paths, std::uint32_t n, const TransportConfig& config,
                    std::uint32_t packet, Nanos handshake_rtt, Mbps line_rate) {
    c.packet = packet;
    c.paths = n;
    c.path_max = Bytes{PathWindow::kDataLimit} * (packet + sizeof(wire::WriteImm));
    c.max = std::max<Bytes>(config.max_window, n * c.packet);
    c.min = std::min(config.min_window, c.max);
    const Bytes whole = std::clamp(initial_window(config, handshake_rtt, line_rate), c.min, c.max);
    const Bytes each = std::min(std::max<Bytes>(whole / n, 2 * c.packet), c.max / n);
    for (std::uint32_t i = 0; i < n; ++i) {
      paths[i].window = each;
      begin(paths[i]);
    }
    c.guard.start(n);
    c.initial = each;
    c.window = each * n;
    c.min = std::min(c.min, c.window);  // the division rounded down
  }

  // The connection starts, or restarts, on this path with the others. (A path that returns alone
  // meets the queue of the others, which says nothing about its route.)
  static void begin(Path& p) { p.early = kEarlyRounds; }
  // After idle time nobody knows what the network holds: what grew starts again, what shrank
  // stays. [MR-8.2.2]
  static void restart(Conn& c, Path& p) {
    if (p.window <= c.initial) return;
    c.window -= p.window - c.initial;
    p.window = c.initial;
  }

  // A path that failed: one packet, and what it had before is its aim when it is back. [MR-9.4.4]
  static void close(Conn& c, Path& p, Bytes before) {
    resize(c, p, c.packet);
    p.regrow_to = before;
  }
  // [MR-9.4.6] After a silence, or back from a failure: doubles per RTT up to `to`, unless it is
  // congested.
  static void regrow(Path& p, Bytes to) { p.regrow_to = to > p.window ? to : 0; }
  // Half of `from`'s window, or all of it, to a path that joins the active set or from one that
  // leaves it: the sum stays. [MR-9.1.6]
  static void share(Conn& c, Path& from, Path& to) {
    const Bytes part = from.window >= 2 * c.packet ? from.window / 2 : 0;
    from.window -= part;
    to.window += part;
    if (to.window < c.packet) resize(c, to, c.packet);
  }
  static void give(Path& from, Path& to) {
    to.window += from.window;
    from.window = from.regrow_to = 0;
  }
  static void set_paths(Conn& c, std::uint32_t n) { c.paths = n; }
  // A path's share of what a fresh hint allows, whatever the window was. [MR-8.2.3]
  static void restart_at(Conn& c, Path& p, Bytes whole) {
    const Bytes each = std::max<Bytes>(std::clamp(whole, c.min, c.max) / c.paths, c.packet);
    c.window += each - p.window;
    p.window = each;
  }

  // How long the newest packet of a path waited, beyond the lowest round trip `trip` of the
  // connection; trip 0: no sample.
  struct Delay {
    Nanos excess, trip;
  };
  // True: the path is to sit out a rotation. [MR-8.3.5]
  static bool on_ack(Conn& c, Path& p, Bytes acked, std::uint32_t packets, std::uint32_t ce,
                     PathSeq cum, PathSeq next, Delay delay) {
    p.round_acked += acked;
    if (ce != 0) {
      p.regrow_to = p.owed = 0;
      c.guard.marked(c.paths);
      shrink(c, p, Bytes{ce} * c.packet / 2);
    }
    const bool fuller = delay.trip != 0 && balance(c, p, acked, delay);
    if (ce < packets)
      grow(c, p, ce == 0 ? acked : std::max<Bytes>(acked - Bytes{ce} * c.packet, 0), fuller);
    if (cum >= p.round_end) {
      if (p.early != 0 && delay.trip != 0) steer(c, p, delay);
      end_round(c, p, next);
    }
    return ce != 0;
  }
  // A sample of the path's round trip; `base`: its length without queues.
  static void on_rtt(Conn& c, Path& p, Nanos rtt, Nanos base, Nanos deviation, Nanos allowance) {
    c.guard.sample(p.delays, rtt, base, deviation, allowance);
  }
  static void on_loss(Conn& c, Path& p, Bytes lost) {
    p.round_lost += lost;
    p.owed = std::min(p.owed + lost, c.path_max);
    shrink(c, p, lost);
  }
  // What a start's first answer allows: all that the rate sends within an RTT, at once.
  // [MR-8.3.13]
  static void lift(Conn& c, Path& p, Bytes each) {
    each = std::min(each, c.path_max);
    if (p.window < each)
      resize(c, p, std::min(each, p.window + std::max<Bytes>(c.max - c.window, 0)));
  }
  // The hint allows less than the windows: they follow it in proportion.
  static void scale(Conn& c, Path& p, Bytes to, Bytes whole) {
    resize(c, p, std::max(p.window * to / whole, std::min(p.window, c.packet)));
  }

 private:
  static constexpr std::uint8_t kEarlyRounds = 1;

  // [MR-8.3.18] A queue of `excess` after one trip is a route that is loaded `excess / trip` too
  // high; twice that, because the queue must go as well. At most half.
  static void steer(Conn& c, Path& p, Delay d) {
    --p.early;
    if (!may_steer(c)) return;
    shrink(c, p, p.window * std::min(2 * d.excess, d.trip / 2) / d.trip);
  }
  // Where all routes wait in one queue there is nothing to move.
  static bool may_steer(const Conn& c) { return !c.hinted && c.window >= c.target - c.target / 4; }
  // [MR-8.3.19] Half of what the path's queue is longer by than the average, each round trip. True:
  // it is longer, and others take up what is missing. [MR-8.3.20]
  static bool balance(Conn& c, Path& p, Bytes acked, Delay d) {
    c.mean_queue_8 += d.excess - c.mean_queue_8 / 8;
    const Nanos longer = d.excess - c.mean_queue_8 / 8;
    // One that returns meets queues that the others are used to; a single one has nobody to give
    // to; under a hint the queue is at the receiver's port.
    if (longer <= 0 || c.hinted || c.paths < 2 || p.regrow_to > p.window) return false;
    if (may_steer(c)) shrink(c, p, share_of(acked, std::min(longer, d.trip) / 2, d.trip));
    return true;
  }
  static void grow(Conn& c, Path& p, Bytes clean, bool fuller) {
    if (p.window == 0) return;  // it left the active set
    Bytes step = 0;
    if (p.regrow_to > p.window)
      step = std::min(clean, p.regrow_to - p.window);
    else if (c.guard.careful())
      return;  // at the end of the round
    else if (!fuller || p.owed > 0)
      step = rise(c, p, clean);
    step = std::min({step, c.max - c.window, c.path_max - p.window});
    if (step <= 0) return;
    p.owed = std::max<Bytes>(p.owed - step, 0);
    resize(c, p, p.window + step);
  }
  // In proportion to what is missing, but no slower than beyond the target, where nobody knows
  // better.
  static Bytes rise(const Conn& c, const Path& p, Bytes clean) {
    const Bytes search = p.used_fully && !c.hinted ? clean / 32 : 0;
    const Bytes missing = c.target - c.window;
    if (missing <= 0) return search;
    const Bytes regained = std::min({clean / 4, p.owed, missing});
    return std::max(
        {std::min(share_of(clean + clean / 2, missing, c.target), missing), search, regained});
  }
  static void end_round(Conn& c, Path& p, PathSeq next) {
    const bool lossy = p.round_lost * 5 > p.round_acked + p.round_lost;
    if (lossy && p.lossy_before) {
      p.regrow_to = 0;
      shrink(c, p, p.window / 2);
    }
    p.lossy_before = lossy;
    guard(c, p);
    p.round_end = next;
    p.round_acked = p.round_lost = 0;
    p.used_fully = false;
  }
  // [MR-8.3.10]
  static void guard(Conn& c, Path& p) {
    const DelayGuard::Verdict v = c.guard.end_round(p.delays, p.window, c.target, c.paths);
    if (v.cut != 0) {
      p.regrow_to = 0;
      shrink(c, p, v.cut);
    } else if (v.step != 0 && p.window != 0 && (p.used_fully || c.window < c.target)) {
      const Bytes room = std::min(c.max - c.window, c.path_max - p.window);
      if (room > 0) resize(c, p, p.window + std::min(v.step, room));
    }
  }
  static void shrink(Conn& c, Path& p, Bytes by) {
    by = std::min(by, std::max<Bytes>(c.window - c.min, 0));  // [MR-8.1.5]
    // One packet always may fly [MR-8.3.11]; a path that left the active set has no window.
    resize(c, p, std::max(p.window - by, std::min(p.window, c.packet)));
  }
  static void resize(Conn& c, Path& p, Bytes to) {
    c.window += to - p.window;
    p.window = to;
  }
};

}  // namespace metaroce
