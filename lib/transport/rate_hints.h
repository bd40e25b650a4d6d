// The receiver's half of congestion control: what each sender into one port may send. rx-owned, one
// object per local port. doc/congestion-control.md derives it. [MR-8.4.1]
//
//   per packet   bytes and demand into the sender's entry, nothing else
//   per burst    poll(): at most every `hint_interval`, or at once when the set of senders changed:
//                measure rates, share the capacity out, name the senders that must be told now
//   per ACK      tell(): the sender's hint
//
// Shares are max-min over sending hosts, then over the connections of a host, each capped by its
// demand. The hint is the *level*, not the capped share: a sender that announced little may take up
// to the level at once when it gets more to do; what it does not take the others have. [MR-8.4.3]
//
// Demand of a sender, in Mb/s, is the least of its line rate, of its backlog over one RTT (4 KiB
// that wait do not hold an eighth of a 400G port), and of twice what it was measured to send once
// it is known for two RTTs (its own port or another receiver limits it: what it cannot use must not
// be kept for it). Without backlog it is what it sends and a quarter more. [MR-8.4.8]
//
// Invariants: a hint is 0 (none) while the demands fit, and for a lone sender unless the host is
// the slower part (host_limit.h); `active_` holds each sender with recent data once; an idle
// connection costs memory only. Cost: O(active), and the interval grows with the number of active
// senders so that the share of the CPU stays bounded. Rejected: credits per packet (a message per
// packet), shares by number of connections (stranded on idle ones), floating point (two machines
// must compute the same bytes).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/units.h"
#include "transport/address.h"
#include "transport/config.h"
#include "transport/fair_share.h"
#include "transport/host_limit.h"

namespace metaroce {

class PortHints {
 public:
  struct Peer {  // one connection as this port sees it
    IpAddress host;
    Nanos rtt = 0;  // of the handshake
    Mbps line_rate = 0;
    std::uint32_t planes = 1;  // over which the announced backlog is spread
  };

  void configure(const TransportConfig& config, Mbps line_rate) {
    enabled_ = config.rate_hints;
    interval_ = config.hint_interval;
    // [MR-8.4.2]
    capacity_ = std::max<Mbps>(
        static_cast<Mbps>(std::uint64_t{line_rate} * config.hint_capacity_permille / 1000), 1);
  }
  // Control events: the only ones that allocate.
  void add(std::uint32_t conn, const Peer& p);
  void remove(std::uint32_t conn);

  // Any frame that arrived here, with its headers.
  void count(std::uint32_t bytes) { all_bytes_ += bytes; }
  // A DATA or FLUSH packet of `conn`, counted above; `demand` as announced. `path`: where to
  // answer.
  void data(std::uint32_t conn, std::uint32_t bytes, std::uint8_t demand, std::uint8_t path) {
    Sender& s = senders_[conn];
    s.bytes += bytes;
    s.path = path;
    if (s.active && s.demand == demand) return;
    note(conn, s, demand);
  }

  // A sender that came after the last computation, with work, asks for its hint: the answer waits
  // for the next one, which pushes it. False: it need not wait. [MR-8.4.22]
  bool answers_later(std::uint32_t conn) {
    Sender& s = senders_[conn];
    if (!enabled_ || !s.fresh || s.demand == 0) return false;
    s.asked = asked_ = true;
    return true;
  }
  // When such an answer is due; kNever: nobody waits for one.
  [[nodiscard]] Nanos answer_due() const {
    return asked_ ? shared_at_ + spacing(interval_ / 8, 40) : kNever;
  }

  // push(conn, path): the hint changed by more than 12.5 % from what the sender was told, or its
  // answer waited.
  // `pressed`: the host does not keep up with its receive queues.
  template <typename Push>
  void poll(Nanos now, bool pressed, Push&& push) {
    if (now < next_ && !changed_) return;
    const bool due = now - measured_at_ >= spacing(interval_, 160);
    if (!due && now - shared_at_ < spacing(interval_ / 8, 40)) return;
    if (due) measure(now, pressed);
    if (enabled_ && (changed_ || !active_.empty())) {
      share(now);
      for (const std::uint32_t conn : active_) {
        Sender& s = senders_[conn];
        if (!s.asked && (!worth_a_push(s) || now - s.pushed_at < interval_ / 2)) continue;
        s.asked = false;
        s.pushed_at = now;
        push(conn, s.path);
      }
    }
    changed_ = asked_ = false;
    shared_at_ = now;
    next_ = measured_at_ + spacing(interval_, 160);
  }

  // The hint for the ACK that is being built: 0 = none.
  // Who came after the last computation is told the level of the others.
  Mbps tell(std::uint32_t conn) {
    Sender& s = senders_[conn];
    s.told = s.fresh ? level_ : s.hint;
    return s.told;
  }
  [[nodiscard]] Mbps hint(std::uint32_t conn) const { return senders_[conn].hint; }
  [[nodiscard]] std::uint8_t epoch(std::uint32_t conn) const { return senders_[conn].epoch; }
  // What arrives, in 1/255 of the capacity; 255 = full.
  [[nodiscard]] std::uint8_t load() const { return load_; }
  [[nodiscard]] std::size_t active() const { return active_.size(); }

 private:
  struct Sender {
    std::uint64_t bytes = 0;  // since the last measurement
    std::uint8_t demand = 0;  // as last announced
    std::uint8_t path = 0;
    bool known = false;  // added
    bool active = false;
    bool fresh = false;       // became active after the last computation
    bool partial = false;     // became active within this interval: no sample of it
    bool had_demand = false;  // at the last measurement
    bool asked = false;       // its answer waits for the next computation
    std::uint8_t epoch = 0;   // changes with the hint
    std::uint16_t planes = 1;
    Nanos since = 0, seen = 0;  // active since; last interval with data
    Nanos base_at = 0;          // the hint was `base` then: rises count from there
    Nanos pushed_at = 0;
    std::uint32_t rtt = 0;                // ns, clamped
    std::uint32_t host = 0;               // index in hosts_
    std::uint32_t next = 0;               // of the same host, while sharing
    Mbps line = 0, rate = 0, sample = 0;  // rate: moving average of samples, gain 1/8
    Mbps want = 0;                        // demand, while sharing
    Mbps hint = 0, told = 0, base = 0;
  };
  static_assert(sizeof(Sender) <= 112, "times connections, times planes");
  struct SendingHost {
    std::uint32_t conns = 0;               // installed
    std::uint32_t first = 0, senders = 0;  // chain of active ones, while sharing
    std::uint64_t want = 0;
  };
  using HostKey = std::pair<bool, std::array<std::uint8_t, 16>>;

  static constexpr Nanos kMaxRtt = 100 * kMicrosecond;
  static constexpr std::uint32_t kEnd = 0xffffffff;

  // At least `base`, and 1/8 to 1/4 of a core at most for any number of senders.
  [[nodiscard]] Nanos spacing(Nanos base, Nanos per_sender) const {
    return std::max(base, static_cast<Nanos>(active_.size()) * per_sender);
  }
  static Mbps rate_of(std::uint64_t bytes, Nanos time) {
    return static_cast<Mbps>(std::min<std::uint64_t>(
        bytes * 8000 / static_cast<std::uint64_t>(std::max<Nanos>(time, 1)), kMaxRate));
  }
  static constexpr Mbps kMaxRate = (1U << 24) - 1;  // what the field can say

  void note(std::uint32_t conn, Sender& s, std::uint8_t demand);
  void measure(Nanos now, bool pressed);
  bool measure_one(Sender& s, Nanos now, Nanos time, bool usable);
  void share(Nanos now);
  void share_host(SendingHost& h, Mbps level, Nanos now);
  [[nodiscard]] Mbps announced_by(const Sender& s) const;
  [[nodiscard]] Mbps demand_of(const Sender& s, Nanos now) const;
  void set_hint(Sender& s, Mbps to, Nanos now) const;
  static bool worth_a_push(const Sender& s) {  // [MR-8.4.5]
    const Mbps by = s.hint > s.told ? s.hint - s.told : s.told - s.hint;
    return (s.hint == 0) != (s.told == 0) || std::uint64_t{by} * 8 > s.told;
  }

  bool enabled_ = true, changed_ = false, asked_ = false;
  std::uint8_t load_ = 0;
  Mbps level_ = 0;                 // of the last computation, 0 = all fitted
  Mbps capacity_ = 1, other_ = 0;  // other: control and foreign frames, moving average
  HostLimit host_;
  Nanos interval_ = 10 * kMicrosecond;
  Nanos next_ = 0, measured_at_ = 0, shared_at_ = 0;
  std::uint64_t all_bytes_ = 0;
  std::vector<Sender> senders_;        // by connection index
  std::vector<std::uint32_t> active_;  // bounded by the connections that were added
  std::vector<SendingHost> hosts_;
  std::vector<std::uint32_t> free_hosts_;
  std::map<HostKey, std::uint32_t> host_index_;
  std::vector<std::uint32_t> hosts_now_;  // scratch of share()
  std::vector<Mbps> wants_;
};

}  // namespace metaroce
