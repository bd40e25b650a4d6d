// Health of one path of a connection: a pure function of state, event and time. tx-owned. [MR-9.4]
//
//   NEW      never proven: a full-size PROBE is out. Its answer makes the path ACTIVE; three tries
//            without one make it FAILED. [MR-9.1.7]
//   ACTIVE   carries data. A silent probe timeout makes it SUSPECT.
//   SUSPECT  is only asked. Anything heard makes it ACTIVE; the third silence in a row, while other
//            paths are heard, makes it FAILED; without anything heard from the peer, the eighth: a
//            peer that is descheduled for some ten milliseconds is not a broken path.
//   FAILED   carries nothing, and is probed at once.
//   PROBING  is asked: with a small PROBE first, answered, with full-size ones. Three answers to
//            full-size PROBEs make it ACTIVE. A try without an answer moves it to a new source port
//            and starts the count again; tries are 1 to 100 ms apart, for ever.
//
// Full-size tries that stay unanswered on routes where the small one was answered show an MTU that
// is too small: the path FAILs with that fault, which its statistics name.
//
// Rejected: small and full-size PROBEs together at each try: a dead route would cost 4 KiB per try.
// Rejected: counting silences while nothing at all is heard like others: each pause of the peer
// would move all routes and close all windows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace metaroce {

enum class PathState : std::uint8_t { kNew, kActive, kSuspect, kFailed, kProbing };
enum class PathFault : std::uint8_t { kNone, kSilent, kMtu };

constexpr const char* path_state_name(PathState s) {
  switch (s) {
    case PathState::kNew:
      return "new";
    case PathState::kActive:
      return "active";
    case PathState::kSuspect:
      return "suspect";
    case PathState::kFailed:
      return "failed";
    case PathState::kProbing:
      return "probing";
  }
  return "";
}
constexpr const char* path_fault_name(PathFault f) {
  switch (f) {
    case PathFault::kNone:
      return "none";
    case PathFault::kSilent:
      return "silent";
    case PathFault::kMtu:
      return "mtu";
  }
  return "";
}

struct PathHealth {
  static constexpr unsigned kSilences = 3, kSilencesOfAll = 8, kMaxSilences = 16;
  static constexpr unsigned kReplies = 3, kNewTries = 3, kFullLosses = 3;
  static constexpr Nanos kBackoffMin = kMillisecond, kBackoffMax = 100 * kMillisecond;

  PathState state = PathState::kNew;
  PathFault fault = PathFault::kNone;
  bool asking = false;       // a PROBE is out
  bool full = false;         // and it is a full-size one
  bool small_works = false;  // on this source port
  std::uint8_t silences = 0, replies = 0, tries = 0, full_losses = 0;
  Nanos suspect_since = 0;
  Nanos interval = kBackoffMin;
  Nanos next = kNever;      // NEW, FAILED, PROBING: when to ask (again)
  std::uint64_t nonce = 0;  // of the PROBE that is out; 0 = none

  // May be in the set of paths that the scheduler turns to: it carries, or soon will.
  [[nodiscard]] bool hopeful() const {
    return state == PathState::kNew || state == PathState::kActive || state == PathState::kSuspect;
  }
  [[nodiscard]] bool asks() const { return !(carries() || state == PathState::kSuspect); }
  [[nodiscard]] bool carries() const { return state == PathState::kActive; }

  // [MR-9.4.5] Loss does not get here: a path that acknowledges is not silent.
  // A probe timeout passed in silence. `heard_elsewhere`: when the connection last heard anything.
  // True: the path has FAILED now. [MR-9.4.3]
  bool silent(Nanos now, Nanos heard_elsewhere) {
    if (state == PathState::kActive) {
      state = PathState::kSuspect;
      suspect_since = now;
    }
    if (silences < kMaxSilences) ++silences;
    if (silences < (heard_elsewhere > suspect_since ? kSilences : kSilencesOfAll)) return false;
    fail(now, PathFault::kSilent);
    return true;
  }
  // True: it was SUSPECT and is ACTIVE again. [MR-9.4.2]
  bool heard() {
    silences = 0;
    if (state != PathState::kSuspect) return false;
    state = PathState::kActive;
    nonce = 0;
    return true;
  }
  // Its plane is lost: whether the path is well shows when the plane is back.
  void suspend() {
    if (carries()) state = PathState::kSuspect;
    if (state == PathState::kSuspect) nonce = 0;
    silences = 0;
  }
  void fail(Nanos now, PathFault why) {
    state = PathState::kFailed;
    fault = why;
    asking = small_works = false;
    silences = replies = 0;
    nonce = 0;
    interval = kBackoffMin;
    next = now;
  }

  struct Ask {
    bool full = false, new_port = false, mtu_found = false;
  };
  // What to send now; another ask() is due at `next` unless reply() came before. `first`: how long
  // the first question of a NEW path waits. [MR-9.4.4] [MR-9.3.5]
  Ask ask(Nanos now, Nanos first) {
    Ask a;
    if (asking) {
      if (full && small_works && ++full_losses >= kFullLosses) {
        full_losses = kFullLosses;
        a.mtu_found = fault != PathFault::kMtu;
        fault = PathFault::kMtu;
      }
      if (state == PathState::kNew && tries >= kNewTries) {
        state = PathState::kFailed;
        if (fault == PathFault::kNone) fault = PathFault::kSilent;
      }
      replies = 0;
      small_works = false;
      a.new_port = true;
    }
    if (state == PathState::kNew && tries == 0) interval = first;
    if (state == PathState::kFailed) {
      state = PathState::kProbing;
      a.new_port = true;
    }
    a.full = small_works || (state == PathState::kNew && tries == 0);
    if (tries < 255) ++tries;
    asking = true;
    full = a.full;
    next = now + interval;
    interval = std::min(2 * interval, std::max(interval, kBackoffMax));
    return a;
  }
  // The question could not be sent: nothing follows from its silence.
  void unsent() {
    asking = false;
    nonce = 0;
  }
  // The PROBE that is out was answered. True: the path is ACTIVE. Else ask again, at once.
  bool reply(Nanos now) {
    asking = false;
    nonce = 0;
    interval = kBackoffMin;
    next = now;
    if (!full) {
      small_works = true;
      return false;
    }
    full_losses = 0;
    small_works = true;
    if (state != PathState::kNew && ++replies < kReplies) return false;
    state = PathState::kActive;
    fault = PathFault::kNone;
    silences = replies = tries = 0;
    small_works = false;
    next = kNever;
    return true;
  }
  // Something of its plane was answered: no reason to wait for long. [MR-9.5.2]
  void hurry(Nanos now) {
    if (!asks() || next == kNever) return;
    interval = kBackoffMin;
    next = std::min(next, now + kBackoffMin);
  }
};
static_assert(sizeof(PathHealth) <= 48);

}  // namespace metaroce
