// Counts of times in buckets of at most 1/128 relative width: bounded memory, integers only, the
// same percentiles on every machine. Finer than any target that a percentile is compared with.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/units.h"

namespace metaroce::sim {

class LatencyHistogram {
 public:
  void add(Nanos value) {
    const auto v = value < 0 ? std::uint64_t{0} : static_cast<std::uint64_t>(value);
    ++counts_[bucket(v)];
    ++total_;
  }
  [[nodiscard]] std::uint64_t count() const { return total_; }
  // The upper end of the bucket in which the share `permille` of all values is reached; 0: empty.
  [[nodiscard]] Nanos permille(std::uint32_t permille) const {
    const std::uint64_t rank = (total_ * permille + 999) / 1000;
    std::uint64_t seen = 0;
    for (std::uint32_t b = 0; b < kBuckets; ++b) {
      seen += counts_[b];
      if (seen != 0 && seen >= rank) return static_cast<Nanos>(upper(b));
    }
    return 0;
  }

 private:
  static constexpr std::uint32_t kParts = 128, kBuckets = 40 * kParts;
  // Below 128 exact; then 128 buckets for every power of two; the last takes what is longer than
  // 19 hours.
  static constexpr std::uint32_t bucket(std::uint64_t v) {
    if (v < kParts) return static_cast<std::uint32_t>(v);
    const auto exponent = static_cast<std::uint32_t>(std::bit_width(v / kParts)) - 1;
    // v >> exponent is in [kParts, 2 * kParts)
    const auto b = exponent * kParts + static_cast<std::uint32_t>(v >> exponent);
    return b < kBuckets ? b : kBuckets - 1;
  }
  static constexpr std::uint64_t upper(std::uint32_t b) {
    if (b < 2 * kParts) return b;
    const std::uint32_t exponent = b / kParts - 1;
    return ((std::uint64_t{b % kParts} + kParts + 1) << exponent) - 1;
  }
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace metaroce::sim
