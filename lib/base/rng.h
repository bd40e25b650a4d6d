// Deterministic generators for the transport and the simulator. Secrets (rkeys, cookies,
// generations) come from the kernel and are handed in as seeds, never drawn from here.
#pragma once

#include <cstdint>

namespace metaroce {

// SplitMix64 (Steele, Lea, Flood 2014): also the mixing step that derives values from a seed.
constexpr std::uint64_t mix64(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// xoshiro256** (Blackman, Vigna 2018).
class Rng {
 public:
  constexpr explicit Rng(std::uint64_t seed) {
    for (auto& x : s_) {
      x = mix64(seed);
      seed += 0x9e3779b97f4a7c15ULL;
    }
  }
  constexpr std::uint64_t next() {
    const std::uint64_t r = rotl(s_[1] * 5, 7) * 9, t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = rotl(s_[3], 45);
    return r;
  }
  // Uniform in [0, n), n > 0, by multiplication (bias below 2^-32 for the n used here).
  constexpr std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>(((next() >> 32) * n) >> 32);
  }
  // True with probability ppm / 10^6.
  constexpr bool chance_ppm(std::uint32_t ppm) { return below(1000000) < ppm; }

 private:
  static constexpr std::uint64_t rotl(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  std::uint64_t s_[4]{};
};

}  // namespace metaroce
