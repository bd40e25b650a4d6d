// amount x part / whole without a division, for what is computed with each acknowledgment.
//
// The reciprocal of the leading six bits of `whole` comes from a table: the result is above the
// exact one by at most a thirty-second of it, and below by at most a thousandth part of the amount,
// and 1.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace metaroce {

namespace detail {
inline constexpr unsigned kRatioBits = 12;  // of the quotient
inline constexpr std::array<std::uint16_t, 32> kReciprocals = [] {
  std::array<std::uint16_t, 32> r{};
  for (std::uint32_t m = 0; m < 32; ++m)
    r[m] = static_cast<std::uint16_t>((1U << (kRatioBits + 5)) / (m + 32));
  return r;
}();
}  // namespace detail

// 0 <= part <= whole < 2^50, 0 <= amount < 2^48. A whole below 32 counts as 32.
constexpr std::int64_t share_of(std::int64_t amount, std::int64_t part, std::int64_t whole) {
  const auto w = static_cast<std::uint64_t>(std::max<std::int64_t>(whole, 32));
  const auto shift = static_cast<unsigned>(std::bit_width(w)) - 6;
  const std::uint64_t quotient =
      static_cast<std::uint64_t>(part) * detail::kReciprocals[(w >> shift) - 32] >> (shift + 5);
  return amount * static_cast<std::int64_t>(quotient) >> detail::kRatioBits;
}

}  // namespace metaroce
