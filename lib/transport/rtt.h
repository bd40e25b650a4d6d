// Round-trip estimates: of one path, RFC 6298 section 2 in integers (gains 1/8 and 1/4) [MR-7.2.3];
// of a connection, the lowest.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace metaroce {

class RttEstimator {
 public:
  void sample(Nanos rtt) {
    rtt = std::max<Nanos>(rtt, 1);
    if (srtt_ == 0) {
      srtt_ = rtt;
      var_ = rtt / 2;
      return;
    }
    const Nanos err = rtt > srtt_ ? rtt - srtt_ : srtt_ - rtt;
    var_ += (err - var_) / 4;
    srtt_ += (rtt - srtt_) / 8;
  }
  [[nodiscard]] bool valid() const { return srtt_ != 0; }
  [[nodiscard]] Nanos srtt() const {
    return srtt_;
  }  // [MR-7.4.1] [MR-7.4.2] without back-off; `fallback` before the first sample. [MR-7.2.4]
  [[nodiscard]] Nanos probe_timeout(Nanos floor, Nanos max_ack_delay, Nanos fallback) const {
    const Nanos t = valid() ? srtt_ + std::max<Nanos>(4 * var_, kMicrosecond) + max_ack_delay
                            : 2 * fallback + max_ack_delay;
    return std::max(t, floor);
  }

 private:
  Nanos srtt_ = 0, var_ = 0;
};

// The lowest round trip of a connection in the last 100 to 200 ms: the way without queues, unlike
// srtt. A longer route is learned when two windows have passed. Paths of a connection are taken to
// be of about one length. [MR-8.4.15]
class LowestRtt {
 public:
  static constexpr Nanos kWindow = 100 * kMillisecond;
  void sample(Nanos rtt, Nanos now) {
    if (now >= ends_) {
      before_ = ends_ + kWindow > now ? current_ : kNever;
      current_ = kNever;
      ends_ = now + kWindow;
    }
    current_ = std::min(current_, std::max<Nanos>(rtt, 1));
  }
  // kNever before the first sample.
  [[nodiscard]] Nanos value() const { return std::min(before_, current_); }

 private:
  Nanos before_ = kNever, current_ = kNever, ends_ = 0;
};

}  // namespace metaroce
