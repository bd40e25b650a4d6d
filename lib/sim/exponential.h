// Exponentially distributed gaps without floating point, so that every machine draws the same.
#pragma once

#include <bit>
#include <cstdint>

#include "base/rng.h"
#include "base/units.h"

namespace metaroce::sim {

__extension__ typedef unsigned __int128 Wide;

// -ln(u / 2^64) as a 32.32 fixed-point number, u > 0, rounded to 2^-32. The logarithm to base 2 is
// found bit by bit: squaring the mantissa doubles it, and overflow past 2 is the next bit.
constexpr std::uint64_t minus_log(std::uint64_t u) {
  const auto zeros = static_cast<unsigned>(std::countl_zero(u));
  std::uint64_t mantissa = u << zeros;  // in [2^63, 2^64) for [1, 2)
  std::uint64_t fraction = 0;
  for (int bit = 0; bit < 40; ++bit) {
    const Wide square = Wide{mantissa} * mantissa;
    const bool carry = (square >> 127) != 0;
    mantissa = static_cast<std::uint64_t>(square >> (carry ? 64 : 63));
    fraction = fraction << 1 | (carry ? 1 : 0);
  }
  constexpr std::uint64_t kLn2 = 0xB17217F7D1CF79ABULL;  // ln 2 in 0.64 fixed point
  const Wide log2 = (Wide{zeros + 1} << 40) - fraction;  // in 24.40
  return static_cast<std::uint64_t>((log2 * kLn2) >> 72);
}

// Mean `mean_picos`; the result in picoseconds, at most about 44 means.
constexpr std::uint64_t exponential(Rng& rng, std::uint64_t mean_picos) {
  return static_cast<std::uint64_t>((Wide{mean_picos} * minus_log(rng.next() | 1)) >> 32);
}

}  // namespace metaroce::sim
