// Congestion control behind a compile-time interface (template parameter of the TX role), and its
// first implementation: ECN-driven additive increase, multiplicative decrease per path, coupled
// over the paths of a connection. The receiver's half (rate hints) joins through on_hint().
//
//   Window of a path W_p in bytes; window of the connection W_c = sum of W_p, kept explicitly.
//   [MR-8.3.2] Clean RTT that used the window: W_p += max(1 packet / paths, W_p / 32) [MR-8.3.1]:
//   together the paths grow by about W_c / 32 per RTT, whatever their number. [MR-8.3.3] [MR-8.3.4]
//   [MR-8.3.5] CE: DCTCP's estimate alpha (gain 1/16), once per RTT W_p *= 1 - alpha / 2, and the
//   scheduler skips the path for one rotation. [MR-8.3.7] [MR-8.3.8] Loss: the lost bytes are
//   subtracted (random loss on one path must not halve it); above 20 % lost in each of two
//   consecutive RTTs it is congestion without marks: halve.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/serial.h"
#include "base/units.h"
#include "transport/config.h"

namespace metaroce {

class EcnAimd {
 public:
  struct Path {
    Bytes window = 0;
    PathSeq round_end;  // the RTT round ends when this is acknowledged
    Bytes round_acked = 0, round_lost = 0;
    std::uint32_t round_packets = 0, round_ce = 0;
    std::uint32_t alpha_1024 = 0;
    bool used_fully = false;    // the window limited sending in this round
    bool lossy_before = false;  // the previous round lost more than 20 %
    bool skip = false;          // one rotation without new packets
    Bytes regrow_to = 0;        // a path that returned doubles up to here; 0 = it does not
  };
  struct Conn {
    Bytes window = 0, min = 0, max = 0;
    Bytes initial = 0;  // of each path
    Bytes packet = 4096;
    std::uint32_t paths = 1;
  };

  static Bytes initial_window(const TransportConfig& c, Nanos handshake_rtt, Mbps line_rate) {
    if (c.initial_window != 0) return c.initial_window;
    // [MR-8.2.1] [MR-8.2.8] 0.8 x RTT x line rate. The handshake passes the control threads, hence
    // the cap: 25 us is a generous fabric round trip. Mb/s x ns / 8000 = bytes.
    const Nanos rtt = std::min<Nanos>(handshake_rtt, 25 * kMicrosecond);
    return static_cast<Bytes>(line_rate) * rtt / 10000;
  }
  static void start(Conn& c, Path* paths, std::uint32_t n, const TransportConfig& config,
                    std::uint32_t packet, Nanos handshake_rtt, Mbps line_rate) {
    c.packet = packet;
    c.paths = n;
    c.max = std::max<Bytes>(config.max_window, n * c.packet);
    c.min = std::min(config.min_window, c.max);
    const Bytes whole = std::clamp(initial_window(config, handshake_rtt, line_rate), c.min, c.max);
    const Bytes each = std::min(std::max<Bytes>(whole / n, 2 * c.packet), c.max / n);
    for (std::uint32_t i = 0; i < n; ++i) paths[i].window = each;
    c.initial = each;
    c.window = each * n;
    c.min = std::min(c.min, c.window);  // the division rounded down
  }

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

  static void on_ack(Conn& c, Path& p, Bytes acked, std::uint32_t packets, std::uint32_t ce,
                     PathSeq cum, PathSeq next) {
    p.round_acked += acked;
    p.round_packets += packets;
    p.round_ce += ce;
    if (ce != 0) p.skip = true;
    if (cum >= p.round_end) end_round(c, p, next);
  }
  static void on_loss(Conn& c, Path& p, Bytes lost) {
    p.round_lost += lost;
    shrink(c, p, lost);
  }

 private:
  static void end_round(Conn& c, Path& p, PathSeq next) {
    if (p.round_packets != 0) {
      const std::uint32_t fraction =
          std::min<std::uint32_t>(1024, p.round_ce * 1024 / p.round_packets);
      p.alpha_1024 = (p.alpha_1024 * 15 + fraction) / 16;
    }
    const bool lossy = p.round_lost * 5 > p.round_acked + p.round_lost;
    if (p.round_ce != 0) {
      p.regrow_to = 0;
      shrink(c, p, p.window * p.alpha_1024 / 2048);
    } else if (lossy && p.lossy_before) {
      p.regrow_to = 0;
      shrink(c, p, p.window / 2);
    } else if (p.used_fully && p.regrow_to > p.window) {
      resize(
          c, p,
          std::min({2 * p.window, p.regrow_to, p.window + std::max<Bytes>(c.max - c.window, 0)}));
    } else if (p.used_fully && c.window < c.max) {
      const Bytes step =
          std::min(std::max<Bytes>(c.packet / c.paths, p.window / 32), c.max - c.window);
      p.window += step;
      c.window += step;
    }
    p.lossy_before = lossy;
    p.round_end = next;
    p.round_acked = p.round_lost = 0;
    p.round_packets = p.round_ce = 0;
    p.used_fully = false;
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
