// The generator of the published flow lists: a 64-bit linear congruential generator (constants of
// Knuth's MMIX), of which the upper 31 bits are used. Only workloads draw from it, so that their
// lists equal those that other simulators were measured with; everything else uses Rng.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace metaroce::sim {

class Lcg {
 public:
  explicit Lcg(std::uint64_t seed) : x_(seed) { step(); }
  // [0, n), n > 0.
  std::uint32_t below(std::uint32_t n) {
    step();
    return static_cast<std::uint32_t>((x_ >> 33) % n);
  }
  // Fisher-Yates from the end.
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (auto i = static_cast<std::uint32_t>(items.size()); i-- > 1;)
      std::swap(items[i], items[below(i + 1)]);
  }

 private:
  void step() { x_ = x_ * 6364136223846793005ULL + 1442695040888963407ULL; }
  std::uint64_t x_;
};

}  // namespace metaroce::sim
