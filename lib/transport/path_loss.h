// Whether a path loses far more than its connection: a pure function of what was lost and what was
// acknowledged. tx-owned. [MR-9.4.7]
//
// A sequential test in bits, between "as lossy as the connection", m, and "half of it is lost": a
// loss speaks for the route being bad with log2(0.5 / m), an acknowledgment against it with one
// bit. The sum does not fall below 0; 16 bits mean that luck shows this picture once in 65,536
// packets. Uniform loss raises m, and with it what a loss has to say: nothing from a quarter on. A
// mark says that a queue is full, so what is lost there says nothing about the route.
//
// Rejected: a share of the last 8 or 16 packets: at 10 % uniform loss four of eight are lost once
// in 200 times, and eight of sixteen take a path with a small window too long.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace metaroce {

// What a connection loses of its packets, in 1/65536; an average over the last 256 or so.
class LossMean {
 public:
  void acked(std::uint32_t packets) {
    for (; packets >= kSpan; packets -= kSpan) mean_ -= mean_ - (mean_ >> 1);
    mean_ -= mean_ * packets / kSpan;
  }
  void lost() { mean_ += (kOne - mean_) / kSpan; }
  [[nodiscard]] std::uint32_t value() const { return mean_; }
  // More than one in 128.
  [[nodiscard]] bool often() const { return mean_ > kOne / 128; }
  // Bits that one loss speaks for a bad route.
  [[nodiscard]] std::uint32_t bits() const {
    const auto below_one = static_cast<std::uint32_t>(17 - std::bit_width(mean_ | 1U));
    return std::min(below_one < 2 ? 0U : below_one - 2, kMaxBits);
  }

 private:
  static constexpr std::uint32_t kOne = 65536, kSpan = 256, kMaxBits = 6;
  std::uint32_t mean_ = 0;
};

class LossScore {
 public:
  static constexpr std::uint32_t kBad = 16;
  // True: the route is bad; the score begins again.
  bool lost(const LossMean& mean) {
    score_ = static_cast<std::uint8_t>(score_ + mean.bits());
    if (score_ < kBad) return false;
    score_ = 0;
    return true;
  }
  void acked(std::uint32_t packets) {
    score_ = static_cast<std::uint8_t>(score_ - std::min<std::uint32_t>(score_, packets));
  }
  void reset() { score_ = 0; }

 private:
  std::uint8_t score_ = 0;
};

}  // namespace metaroce
