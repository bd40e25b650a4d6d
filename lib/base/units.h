// Typed numbers that cross interfaces: the unit is in the type or last in the name.
#pragma once

#include <compare>
#include <cstdint>

namespace metaroce {

// Nanoseconds on the clock that the caller hands in: TSC-derived on lcores, virtual in
// simulation. Never wall time. Signed so that differences need no care.
using Nanos = std::int64_t;
inline constexpr Nanos kMicrosecond = 1000;
inline constexpr Nanos kMillisecond = 1000 * kMicrosecond;
inline constexpr Nanos kSecond = 1000 * kMillisecond;
inline constexpr Nanos kNever = INT64_MAX;

using Bytes = std::int64_t;
using Mbps = std::uint32_t;  // 10^6 bits per second

// A small index with its own type: PathId cannot be passed where a StreamId is wanted.
template <typename Tag, typename Rep>
struct Index {
  Rep v{};
  constexpr Index() = default;
  constexpr explicit Index(Rep x) : v(x) {}
  constexpr auto operator<=>(const Index&) const = default;
};
using PathId = Index<struct PathTag, std::uint8_t>;
using PlaneId = Index<struct PlaneTag, std::uint8_t>;
using StreamId = Index<struct StreamTag, std::uint16_t>;  // number at the owner of the state
using ConnIndex = Index<struct ConnTag, std::uint32_t>;   // slot in a role's connection table
using ClientId = Index<struct ClientTag, std::uint16_t>;  // an attached application

}  // namespace metaroce
