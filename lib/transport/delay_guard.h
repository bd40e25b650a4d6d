// The delay guard: windows shrink on delay where nothing else speaks, in fabrics that do not mark.
// [MR-8.3.10] [MR-8.3.14] [MR-8.3.15]
//
// It judges rounds of a path, each about one round trip, by the lowest sample of the round: a queue
// stands below all of them, a thread that was late or a burst below some. A round above
// base + allowance leaves the path base / lowest of its window, what fits into the way without the
// queue, at least half. What was in flight at a cut says nothing new: one round of rest. Up to two
// more cuts follow until the round is within a quarter of the allowance: all senders of a queue see
// the same, so that it drains and shows its base again, or a standing queue would become the base.
//
// After a cut the connection is careful for long: it grows by a fixed part of its target per round,
// below the target and beyond. Cuts in proportion and steps that are alike are what makes senders
// equal; growth in proportion would keep whatever division there was.
//
// Silent while marks were seen in the last rounds: they come sooner, and tell routes apart. A
// connection begins with a few rounds of trust. Rejected: smoothed round trips in place of the
// lowest of a round, which software hosts move by their scheduling alone; a fixed allowance, for
// the same reason: it is four times the mean deviation when that is more.
//
// Pure: no clock, no division but at a cut and at the end of careful rounds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace metaroce {

class DelayGuard {
 public:
  // Of a path.
  struct Round {
    std::uint32_t lowest = UINT32_MAX;  // of its samples, ns
    std::uint32_t base = 0;             // of the path without queues
    bool rest = false;                  // it is not judged
    std::uint8_t cuts = 0;              // in a row
  };
  struct Verdict {
    Bytes cut = 0, step = 0;
  };
  static constexpr std::uint32_t kFirstTrust = 8, kTrust = 256, kCareful = 1U << 14;  // rounds
  static constexpr std::uint8_t kCuts = 3;
  static constexpr Bytes kSteps = 16;  // careful rounds from nothing to the target

  void start(std::uint32_t paths) { trust_ = kFirstTrust * paths; }
  void marked(std::uint32_t paths) { trust_ = kTrust * paths; }
  // `allowance` 0: the guard is off. `deviation`: mean deviation of the connection's samples.
  void sample(Round& r, Nanos rtt, Nanos base, Nanos deviation, Nanos allowance) {
    r.lowest = std::min(r.lowest, clamped(rtt));
    r.base = clamped(base);
    allowance_ = allowance == 0 ? kNever : std::max(allowance, 4 * deviation);
  }
  // Grows by steps only.
  [[nodiscard]] bool careful() const { return careful_ != 0; }

  // A round of one of `paths` paths ended.
  Verdict end_round(Round& r, Bytes window, Bytes target, std::uint32_t paths) {
    const std::uint32_t delay = r.lowest, base = r.base;
    const bool judged = delay != UINT32_MAX && !r.rest && trust_ == 0;
    r.lowest = UINT32_MAX;
    r.rest = false;
    if (trust_ != 0) --trust_;
    if (careful_ != 0) --careful_;
    Verdict v;
    const Nanos limit = r.cuts == 0 ? allowance_ : allowance_ / 4;
    if (judged && Nanos{delay} - base > limit && r.cuts < kCuts) {
      v.cut = window - std::max(window * base / delay, window / 2);
      r.rest = true;
      ++r.cuts;
      careful_ = kCareful * paths;
      return v;
    }
    if (judged) r.cuts = 0;
    if (careful_ != 0) v.step = target / (kSteps * paths);
    return v;
  }

 private:
  static std::uint32_t clamped(Nanos t) {
    return static_cast<std::uint32_t>(std::clamp<Nanos>(t, 1, UINT32_MAX - 1));
  }
  Nanos allowance_ = kNever;
  std::uint32_t trust_ = 0, careful_ = 0;  // rounds of paths
};

}  // namespace metaroce
