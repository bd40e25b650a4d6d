// Sizes of flows from a cumulative distribution.
//
// File: one `bytes cumulative_probability` pair per line, both rising, the last probability 1;
// `#` starts a comment. Between two lines the size is interpolated linearly; below the first
// line's probability every flow has its size. Probabilities are decimal, at most nine digits
// behind the point, and are kept as integers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace metaroce::sim {

class SizeDistribution {
 public:
  // Returns what is wrong, with its line, or "".
  std::string read(std::string_view text);
  [[nodiscard]] std::uint64_t draw(Rng& rng) const;
  // Rounded down to whole bytes.
  [[nodiscard]] std::uint64_t mean() const;

  static constexpr std::uint32_t kOne = 1000000000;

 private:
  struct Point {
    std::uint64_t bytes;
    std::uint32_t ppb;  // share of flows that are not larger
  };
  std::string read_line(std::string_view line);
  std::vector<Point> points_;
};

}  // namespace metaroce::sim
