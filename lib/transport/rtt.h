// Round-trip estimates: of one path, RFC 6298 section 2 in integers (gains 1/8 and 1/4) [MR-7.2.3];
// of a connection, the lowest, and what routes of different lengths add to it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace metaroce {

class RttEstimator {
 public:
  void sample(Nanos rtt) {
    rtt = std::clamp<Nanos>(rtt, 1, UINT32_MAX);
    if (srtt_ == 0) {
      srtt_ = static_cast<std::uint32_t>(rtt);
      var_ = srtt_ / 2;
      return;
    }
    const Nanos s = srtt_, v = var_, err = rtt > s ? rtt - s : s - rtt;
    var_ = static_cast<std::uint32_t>(v + (err - v) / 4);
    srtt_ = static_cast<std::uint32_t>(s + (rtt - s) / 8);
  }
  [[nodiscard]] bool valid() const { return srtt_ != 0; }
  [[nodiscard]] Nanos srtt() const { return srtt_; }
  [[nodiscard]] Nanos deviation() const { return var_; }
  // [MR-7.4.1] [MR-7.4.2] without back-off; `fallback` before the first sample. [MR-7.2.4]
  [[nodiscard]] Nanos probe_timeout(Nanos floor, Nanos max_ack_delay, Nanos fallback) const {
    const Nanos t = valid() ? srtt_ + std::max<Nanos>(4 * Nanos{var_}, srtt_ / 2) + max_ack_delay
                            : 2 * fallback + max_ack_delay;
    return std::max(t, floor);
  }

 private:
  std::uint32_t srtt_ = 0, var_ = 0;  // ns: a peer that needs 4 s is dead
};

// The lowest round trip of a connection in the last 100 to 200 ms: the way without queues, unlike
// srtt. A longer route is learned when two windows have passed. [MR-8.4.15]
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

// The same of one path, in 8 bytes: the connection says when a window ends.
class PathLowestRtt {
 public:
  void sample(Nanos rtt) {
    current_ = std::min(current_, static_cast<std::uint32_t>(std::clamp<Nanos>(rtt, 1, kUnknown)));
  }
  void turn() {
    before_ = current_;
    current_ = kUnknown;
  }
  // kNever before the first sample.
  [[nodiscard]] Nanos value() const {
    const std::uint32_t v = std::min(before_, current_);
    return v == kUnknown ? kNever : v;
  }

 private:
  static constexpr std::uint32_t kUnknown = UINT32_MAX;  // 4.3 s
  std::uint32_t before_ = kUnknown, current_ = kUnknown;
};

// The round trip of a byte when routes differ in length: total in flight / sum of what each path
// has in flight over its own lowest round trip, i.e. bytes over the rate that they stand for. Paths
// that are less than 100 us, or a quarter, longer than the shortest count as of its length: that is
// a queue, and a queue must not justify itself. [MR-8.4.17]
class MeanTrip {
 public:
  explicit MeanTrip(Nanos lowest) : lowest_(lowest) {}
  static bool longer(Nanos path_lowest, Nanos lowest) {
    return path_lowest != kNever && path_lowest - lowest > std::max(kQueue, lowest / 4);
  }
  void add(Bytes in_flight, Nanos path_lowest) {
    if (!longer(path_lowest, lowest_)) {
      near_ += in_flight;
      return;
    }
    far_ += in_flight;
    far_rate_ += (in_flight << kShift) / path_lowest;
  }
  [[nodiscard]] Nanos value() const {
    if (far_ == 0) return lowest_;
    const Bytes rate = far_rate_ + (near_ << kShift) / lowest_;
    return std::max(lowest_, ((near_ + far_) << kShift) / std::max<Bytes>(rate, 1));
  }

 private:
  static constexpr Nanos kQueue = 100 * kMicrosecond;
  static constexpr unsigned kShift = 20;  // windows end at 2^32 bytes
  Nanos lowest_;
  Bytes near_ = 0, far_ = 0, far_rate_ = 0;
};

}  // namespace metaroce
