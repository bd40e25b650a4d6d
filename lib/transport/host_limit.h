// What a receiving host can take when it, not its port, is the slower one: then packets wait in its
// receive queue, where no switch marks them. Pure: state, pressure and rate in, a limit out.
// rx-owned, one per port. [MR-8.4.21] doc/congestion-control.md derives it.
//
// While the host is under pressure its queue is never empty, so the rate at which packets are taken
// is what it can do: the limit is a little less than that. Afterwards the limit rises in small
// steps, and in large ones when pressure does not come back: what slowed the host has ended.
//
// The rate counts as the highest of late, fading by a sixteenth per interval: a thread that lost
// its core for a part of an interval is not a slower host.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace metaroce {

class HostLimit {
 public:
  static constexpr Mbps kNone = UINT32_MAX;

  // One interval of measurement has passed. `pressed`: most receive bursts of late left packets
  // behind; `rate`: taken from the port; `line`: what it may carry.
  void interval(bool pressed, Mbps rate, Mbps line) {
    fastest_ = std::max(rate, fastest_ - fastest_ / 16);
    if (pressed) {
      limit_ = std::max<Mbps>(fastest_ - fastest_ / 64, line / 256 + 1);
      calm_ = 0;
    } else if (limit_ != kNone) {
      constexpr std::uint8_t kCautious = 16;
      if (calm_ < kCautious) ++calm_;
      limit_ += limit_ / (calm_ < kCautious ? 64 : 8) + 1;
    }
    if (limit_ >= line) limit_ = kNone;
  }
  // Mb/s; kNone while the host keeps up.
  [[nodiscard]] Mbps value() const { return limit_; }

 private:
  Mbps limit_ = kNone, fastest_ = 0;
  std::uint8_t calm_ = 0;  // intervals without pressure
};

}  // namespace metaroce
