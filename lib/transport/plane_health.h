// Health of one plane of a connection: a pure function of state, event and time. tx-owned. [MR-9.5]
//
//   UP       its paths carry data, each by its own health.
//   SUSPECT  everything outstanding on it was silent for a timeout while other planes progressed:
//            one failure, not many. All of it was requeued at once; the plane as a whole is probed,
//            1 to 4 ms apart, and one answer brings all its paths back.
//   DOWN     a port of it is down, here or at the peer (PORT_STATUS). Here: not probed until it is
//            up. At the peer: probed now and then all the same, in case its word was lost.
//
// Silence of a plane is found when another plane's acknowledgment arrives, not by a timer: the
// connection must have had a steady pulse for the whole timeout, and two looks at different times
// must agree, so that neither a pause of either host nor the order in which one poll reads its
// events makes a plane look silent.
//
// Rejected: path by path. With 16 paths and a doubling probe timeout the last data of a dead plane
// would leave it after some hundred microseconds; the target is 5 round trips.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace metaroce {

enum class PlaneState : std::uint8_t { kUp, kSuspect, kDown };

// When a connection's acknowledgments came without a longer pause.
struct Pulse {
  Nanos at = 0, since = 0;
  void beat(Nanos now, Nanos longest_pause) {
    if (now - at > longest_pause) since = now;
    at = now;
  }
};

struct PlaneHealth {
  static constexpr Nanos kBackoffMin = kMillisecond, kBackoffMax = 4 * kMillisecond;
  static constexpr Nanos kPeerDown = 100 * kMillisecond;

  PlaneState state = PlaneState::kUp;
  bool own_down = false, peer_down = false;
  std::uint8_t probe_turn = 0;   // which of its paths carries the next PROBE
  std::uint32_t unresolved = 0;  // data transmissions in flight on it
  Nanos progress_at = 0;         // an acknowledgment resolved something on it
  Nanos busy_since = 0;          // first transmission with nothing outstanding on it
  Nanos doubted_at = 0;          // first look that found it silent; 0 = none
  Nanos lost_at = 0;
  Nanos interval = kBackoffMin;
  Nanos next = kNever;      // when to probe it
  std::uint64_t nonce = 0;  // of the PROBE that is out; 0 = none

  [[nodiscard]] bool up() const { return state == PlaneState::kUp; }
  [[nodiscard]] Nanos quiet_since() const { return std::max(progress_at, busy_since); }
  [[nodiscard]] Nanos silence(Nanos now, const Pulse& pulse) const {
    if (!up() || unresolved == 0) return 0;
    return now - std::max(quiet_since(), pulse.since);
  }
  void progress(Nanos now) {
    progress_at = now;
    doubted_at = 0;
  }
  // Second look that finds it silent? [MR-9.5.1]
  bool doubted_before(Nanos now) {
    if (doubted_at <= quiet_since()) doubted_at = now;
    return now > doubted_at;
  }
  void lose(Nanos now) {
    state = PlaneState::kSuspect;
    lost_at = now;
    doubted_at = 0;
    nonce = 0;
    interval = kBackoffMin;
    next = now;
  }
  // A port of the plane went down or up. True: the plane is lost by it. [MR-9.5.3]
  bool port(Nanos now, bool of_peer, bool is_up) {
    (of_peer ? peer_down : own_down) = !is_up;
    if (own_down || peer_down) {
      const bool was_up = up();
      if (was_up) lost_at = now;
      state = PlaneState::kDown;
      nonce = 0;
      interval = kPeerDown;
      next = own_down ? kNever : now + kPeerDown;
      return was_up;
    }
    if (state == PlaneState::kDown) {
      state = PlaneState::kSuspect;
      interval = kBackoffMin;
      next = now;
    }
    return false;
  }
  // Its PROBE left, or could not. [MR-9.5.2]
  void asked(Nanos now, std::uint64_t sent_nonce) {
    nonce = sent_nonce;
    next = now + interval;
    if (state == PlaneState::kSuspect) interval = std::min(2 * interval, kBackoffMax);
  }
  void returned(Nanos now) {
    state = PlaneState::kUp;
    peer_down = false;  // the answer proves more than the word
    nonce = 0;
    next = kNever;
    progress_at = busy_since = now;
    doubted_at = 0;
  }
};

}  // namespace metaroce
