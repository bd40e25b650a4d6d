#include "transport/params.h"

#include "base/rng.h"

namespace metaroce {

// [MR-5.3.2]
PathSeq initial_pseq(std::uint64_t seed, PathId path) {
  return PathSeq{static_cast<std::uint32_t>(mix64(seed + path.v))};
}

namespace {
using PlaneSlots = std::array<std::array<std::uint8_t, 256>, kMaxPlanes>;
constexpr PlaneSlots make_plane_slots() {
  PlaneSlots t{};
  for (unsigned n = 1; n <= kMaxPlanes; ++n)
    for (unsigned path = 0; path < 256; ++path)
      t[n - 1][path] = static_cast<std::uint8_t>(path % n);
  return t;
}
constexpr PlaneSlots kPlaneSlots = make_plane_slots();
}  // namespace

// [MR-9.1.1]
const std::uint8_t* plane_slot_table(unsigned planes) { return kPlaneSlots[planes - 1].data(); }

}  // namespace metaroce
