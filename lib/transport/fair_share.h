// Max-min fairness by water filling: each claimant gets min(its demand, level), where the level is
// the highest at which the sum fits into the capacity. Pure, integer, no allocation.
//
// Each pass takes the claimants below the level as satisfied and divides what they leave among the
// others. The level only rises; a pass that satisfies m of r others raises the next level by less
// than m / (r - m) of the last rise, so there are O(log claimants + log capacity) passes. Sorting
// was rejected: two or three passes over a flat array are the usual case. [MR-8.4.3]
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/units.h"

namespace metaroce {

struct FairLevel {
  Mbps level = 0;
  bool fits = false;  // all demands are met
};

// When the demands fit, the level is what the greatest claimant may take without taking from the
// others: a limit that slows nobody, yet bounds a claimant whose demand grows.
inline FairLevel fair_level(std::span<const Mbps> demands, Mbps capacity) {
  std::uint64_t sum = 0;
  Mbps most = 0;
  for (const Mbps d : demands) {
    sum += d;
    most = std::max(most, d);
  }
  if (sum <= capacity) return {static_cast<Mbps>(capacity - (sum - most)), true};
  // From here on some demand is above every level: the division has a divisor.
  const std::uint64_t n = demands.size();
  std::uint64_t level = capacity / n;
  for (;;) {
    std::uint64_t met = 0, met_sum = 0;
    for (const Mbps d : demands) {
      if (d > level) continue;
      ++met;
      met_sum += d;
    }
    const std::uint64_t next = (capacity - met_sum) / (n - met);
    if (next == level) return {static_cast<Mbps>(level), false};
    level = next;
  }
}

}  // namespace metaroce
