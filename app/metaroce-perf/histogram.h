// Latencies in bounded memory: exact to 256 ns, then 128 buckets per octave (error below 0.8 %);
// minimum and maximum are exact. A quantile is the lower edge of its bucket.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace metaroce::perf {

class LatencyHistogram {
 public:
  LatencyHistogram() : buckets_(kBuckets, 0) {}
  void add(std::uint64_t ns) {
    ++buckets_[index(ns)];
    ++count_;
    min_ = std::min(min_, ns);
    max_ = std::max(max_, ns);
  }
  std::uint64_t count() const { return count_; }
  std::uint64_t min() const { return count_ ? min_ : 0; }
  std::uint64_t max() const { return max_; }
  // Nearest-rank quantile, q in (0, 1]; 0 when empty.
  std::uint64_t quantile(double q) const {
    const auto rank = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count_)));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets_.size() && count_; ++i)
      if ((seen += buckets_[i]) >= rank) return std::clamp(lower_edge(i), min_, max_);
    return max_;
  }

 private:
  static constexpr unsigned kShift = 7;  // 128 buckets per octave
  static constexpr std::size_t kBuckets = (64 - kShift + 1) << kShift;
  static std::size_t index(std::uint64_t ns) {
    if (ns < (2U << kShift)) return static_cast<std::size_t>(ns);
    const unsigned octave = static_cast<unsigned>(std::bit_width(ns)) - 1 - kShift;
    return (std::size_t{octave} << kShift) + static_cast<std::size_t>(ns >> octave);
  }
  static std::uint64_t lower_edge(std::size_t i) {
    if (i < (2U << kShift)) return i;
    const std::size_t octave = (i >> kShift) - 1;
    return std::uint64_t{i - (octave << kShift)} << octave;
  }

  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0, min_ = UINT64_MAX, max_ = 0;
};

}  // namespace metaroce::perf
