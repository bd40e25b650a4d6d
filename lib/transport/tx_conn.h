// Transmit side of one connection and its paths. tx-owned.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "transport/active_set.h"
#include "transport/events.h"
#include "transport/fixed_pool.h"
#include "transport/loss_recovery.h"
#include "transport/params.h"
#include "transport/path_health.h"
#include "transport/path_loss.h"
#include "transport/plane_health.h"
#include "transport/rtt.h"
#include "transport/send_stream.h"
#include "transport/tx_hint.h"

namespace metaroce {

// One transmission in flight.
struct TxRecord {
  StreamHandle stream = 0;
  StreamSeq spn;
  std::uint32_t sent_64ns = 0;
  std::uint16_t bytes = 0;
  std::uint8_t losses = 0;
  bool data = false;  // false: FLUSH
};
static_assert(sizeof(TxRecord) == 16);
using TxBlock = std::array<TxRecord, 256>;  // indexed by pseq modulo 256

// A packet that waits to be sent again.
struct ResendNode {
  std::uint32_t next = kNil;
  StreamHandle stream = 0;
  StreamSeq spn;
  std::uint8_t losses = 0;
  std::uint8_t path = 0;   // that lost it last
  bool timed_out = false;  // resend on another path
};
static_assert(sizeof(ResendNode) == 16);

struct TxPathCounters {
  std::uint64_t packets = 0, bytes = 0, resent = 0, lost = 0, spurious = 0;
};

// A path while its connection is at work: from a pool of the role. Hot first.
template <typename Cc>
struct TxPath {
  PathWindow seq;
  Bytes inflight = 0;
  std::uint32_t block = kNil;  // in the pool of TxBlock while anything is unresolved
  std::uint32_t data_unresolved = 0;
  Nanos last_progress = 0;   // an ACK resolved something, or the first send after idle
  Nanos armed_at = kNever;   // deadline that the timer role holds
  Nanos gap_since = kNever;  // oldest gap that is not yet lost
  typename Cc::Path cc;
  RttEstimator rtt;
  PathLowestRtt lowest_rtt;  // [MR-8.4.17]
  PathSeq highest_acked;     // highest number that the peer reported
  PathSeq announced;         // of the last announcement, or a number that was acknowledged before
  std::uint32_t peer_ce = 0, peer_received = 0;
  std::uint16_t peer_late = 0;
  std::uint16_t wanted_port = 0;  // after the drain
  std::uint8_t epoch = 0;
  bool epoch_confirmed = true;  // the peer acknowledged something in it
  bool draining = false;        // a port change waits for the path to empty
  bool dirty = false;           // the last transmission was data: a loss would not show
  bool leaving = false;         // its route is bad: a new port, as soon as it carries
  std::uint8_t flushes = 0;     // owed, when its bit in flush_paths is set
  LossScore losses;
  bool owes_question = false;  // a timeout's question found no room in the port
  DupThreshold dup;
  PathHealth health;
  Bytes window_before = 0;  // before its silence began
};

// What is kept of a path always: its port, its statistics, and, while the connection rests, what
// it needs to go on.
struct PathRest {
  TxPathCounters counters;
  std::uint32_t timeouts = 0;
  PathSeq next;
  RttEstimator rtt;
  PathLowestRtt lowest_rtt;
  std::uint32_t window = 0, regrow_to = 0;
  std::uint32_t peer_ce = 0, peer_received = 0;
  std::uint16_t peer_late = 0;
  std::uint16_t source_port = 0;
  std::uint8_t epoch = 0, early = 0, dup = 1;
  std::uint8_t state : 3 = 0, fault : 2 = 0, epoch_confirmed : 1 = 1;
};
static_assert(sizeof(PathRest) <= 88, "times connections, times paths");

// The paths of a connection at work; none of one that rests.
template <typename Path>
class PathArray {
 public:
  PathArray() = default;
  PathArray(Path* p, std::size_t n) : p_(p), n_(n) {}
  [[nodiscard]] std::size_t size() const { return n_; }
  Path& operator[](std::size_t i) { return p_[i]; }
  const Path& operator[](std::size_t i) const { return p_[i]; }
  Path* begin() { return p_; }
  Path* end() { return p_ + n_; }
  [[nodiscard]] const Path* begin() const { return p_; }
  [[nodiscard]] const Path* end() const { return p_ + n_; }
  [[nodiscard]] const Path* data() const { return p_; }

 private:
  Path* p_ = nullptr;
  std::size_t n_ = 0;
};

// One path for reports and tests, whether its connection rests or not.
template <typename Cc>
struct TxPathView : TxPath<Cc> {
  std::uint16_t source_port = 0;
  std::uint32_t timeouts = 0;
  TxPathCounters counters;
};

template <typename Cc>
struct TxConn {
  bool used = false, open = false, failed = false;
  bool listed = false;  // in the role's list of connections that may send
  ConnParams params;
  PathArray<TxPath<Cc>> paths;  // empty: the connection rests
  std::uint32_t timers = 0;     // at work: identifier of the first path's
  std::vector<PathRest> rest;   // of each path
  const std::uint8_t* plane_slots = nullptr;
  std::array<std::uint64_t, 4> open_paths{};   // room in window and sequence
  std::array<std::uint64_t, 4> skip_paths{};   // those that sit out a rotation
  std::array<std::uint64_t, 4> flush_paths{};  // those that a FLUSH is owed to
  std::vector<PlaneHealth> planes;             // by index in params.planes
  Pulse pulse;
  Nanos recovered_at = 0;  // when the peer was heard after it had been silent as a whole
  Nanos plane_check_at = 0;
  ActiveSet active;                // what the window asks for
  std::uint32_t active_paths = 1;  // [0, active_paths) take new data: `active.paths` hopeful ones
  std::uint32_t start_paths = 1;   // of a start, and a restart after idle time
  Nanos stalled_since = 0;         // work waits and no path carries; 0 = not so
  typename Cc::Conn cc;
  std::uint32_t resend_head = kNil, resend_tail = kNil;
  std::uint32_t stream_head = kNil, stream_tail = kNil;  // streams that may send
  std::uint32_t next_in_list = kNil;
  std::vector<std::uint32_t> stream_slots;  // own number -> slot
  std::uint32_t streams = 0;
  Nanos last_ack = 0;  // anything valid from the peer about our transmissions
  Nanos last_sent = 0;
  Nanos outstanding_since = 0;         // something has been unresolved since
  std::uint32_t unresolved = 0;        // data transmissions in flight, all paths
  std::uint32_t waiting = 0;           // resend nodes, queued or rejected
  std::uint32_t sent_since_flush = 0;  // data packets since the last drain with FLUSHes
  std::uint32_t flush_credit = 0;      // transmissions for which a drain is worth a FLUSH
  std::uint8_t backoff = 0;            // shared while nothing at all is acknowledged
  Nanos backoff_until = 0;             // its next step comes not before
  std::uint8_t current_path = 0, run_left = 0, stream_run = 0;
  bool ever_answered = false;
  std::uint64_t probe_nonce = 0;
  Nanos probe_sent = 0;     // keepalive; 0 = none outstanding
  bool starting = true;     // nothing answered since the start or restart
  Bytes start_room = 0;     // new data that may still leave before the first answer
  Bytes inflight = 0;       // sum of the paths'
  std::int64_t tokens = 0;  // pacing, 1/8000 byte: Mb/s x ns, exactly
  Nanos tokens_at = 0;
  Nanos pace_at = 0;   // no token before
  Mbps pace_rate = 0;  // min(line rate, hint); 0 = not paced
  Bytes hint_window = kNoHintWindow;
  RttEstimator rtt;    // of all paths together
  LossMean loss_mean;  // likewise
  LowestRtt lowest_rtt;
  Nanos latest_queue = 0;        // what the newest sample of a round trip waited in queues
  Nanos longer_trip = 0;         // what routes of different lengths add to the lowest round trip
  Nanos trip_at = 0;             // when that is looked at again,
  Nanos path_windows_end = 0;    // and the windows of the paths' lowest round trips end
  bool flush_on_resume = false;  // after the pause that the first hint makes
  bool drained = false;          // its FLUSHes are those of a drain
  bool owes_questions = false;   // some path does
  TxHint hint;
  std::uint64_t backlog = 0;  // bytes taken from applications and not sent
  std::uint64_t acked_bytes = 0, resent = 0, lost = 0, spurious = 0, packets = 0;

  static constexpr Bytes kNoHintWindow = INT64_MAX;
  [[nodiscard]] bool rests() const { return paths.size() == 0; }
  [[nodiscard]] bool path_open(std::uint8_t p) const {
    return ((open_paths[p / 64] >> (p % 64)) & 1U) != 0;
  }
  [[nodiscard]] bool skips(std::uint8_t p) const {
    return ((skip_paths[p / 64] >> (p % 64)) & 1U) != 0;
  }
  [[nodiscard]] bool any_skips() const {
    return (skip_paths[0] | skip_paths[1] | skip_paths[2] | skip_paths[3]) != 0;
  }
  [[nodiscard]] bool flushes_owed() const {
    return (flush_paths[0] | flush_paths[1] | flush_paths[2] | flush_paths[3]) != 0;
  }
  void set_skip(std::uint8_t p, bool on) {
    const std::uint64_t bit = std::uint64_t{1} << (p % 64);
    skip_paths[p / 64] = on ? skip_paths[p / 64] | bit : skip_paths[p / 64] & ~bit;
  }
  // First path with room in [from, end); `end` when there is none.
  [[nodiscard]] unsigned next_open(unsigned from, unsigned end) const {
    while (from < end) {
      const std::uint64_t word = open_paths[from / 64] >> (from % 64);
      if (word != 0) return std::min(end, from + static_cast<unsigned>(std::countr_zero(word)));
      from = (from / 64 + 1) * 64;
    }
    return end;
  }
  void set_open(std::uint8_t p, bool on) {
    const std::uint64_t bit = std::uint64_t{1} << (p % 64);
    open_paths[p / 64] = on ? open_paths[p / 64] | bit : open_paths[p / 64] & ~bit;
  }
};

}  // namespace metaroce
