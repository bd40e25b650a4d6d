// Round-trip estimate of one path: RFC 6298 section 2 in integers (gains 1/8 and 1/4). [MR-7.2.3]
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace metaroce {

class RttEstimator {
 public:
  void sample(Nanos rtt) {
    rtt = std::max<Nanos>(rtt, 1);
    low_ = low_ == 0 || rtt < low_ ? rtt : low_ + (rtt - low_) / 64;
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
  [[nodiscard]] Nanos srtt() const { return srtt_; }
  // The lowest sample; forgets by 1/64 per sample, so that a longer route is learned. Without what
  // queues add, unlike srtt: what may be in flight under a rate hint follows from it.
  [[nodiscard]] Nanos low() const { return low_; }
  // [MR-7.4.1] [MR-7.4.2] without back-off; `fallback` before the first sample. [MR-7.2.4]
  [[nodiscard]] Nanos probe_timeout(Nanos floor, Nanos max_ack_delay, Nanos fallback) const {
    const Nanos t = valid() ? srtt_ + std::max<Nanos>(4 * var_, kMicrosecond) + max_ack_delay
                            : 2 * fallback + max_ack_delay;
    return std::max(t, floor);
  }

 private:
  Nanos srtt_ = 0, var_ = 0, low_ = 0;
};

}  // namespace metaroce
