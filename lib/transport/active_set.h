// How many paths of a connection carry data: a pure function of its window. [MR-9.1.6]
//
// Paths 0 .. A-1 do. Path p runs on plane p mod planes, so any multiple of the number of planes
// loads the planes equally. About `per_path` packets of window per path: fewer, and gaps on a path
// show late and each ACK names many paths; more, and hashed routes are loaded unevenly. The set
// grows as soon as the window asks for more and shrinks when it asks for less than three quarters.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace metaroce {

struct ActiveSet {
  std::uint32_t paths = 1;
  Bytes grow_above = INT64_MAX, shrink_below = -1;  // windows at which to ask again
};

struct ActiveSetRule {
  Bytes packet = 4096;
  std::uint32_t per_path = 4;  // packets; 0 = all paths, always
  std::uint32_t planes = 1, n_paths = 1;

  [[nodiscard]] ActiveSet with(std::uint32_t paths) const {
    ActiveSet s;
    s.paths = paths;
    const Bytes each = per_path * packet;
    if (per_path == 0) return s;
    if (paths < n_paths) s.grow_above = paths * each;
    // The next lower number is a whole round over the planes away.
    if (paths > least())
      s.shrink_below = std::min(paths * each * 3 / 4, (paths - planes) * each + 1);
    return s;
  }
  [[nodiscard]] std::uint32_t least() const { return std::min(2 * planes, n_paths); }
  // `now`: the present number; 0 at the start.
  [[nodiscard]] ActiveSet choose(Bytes window, std::uint32_t now) const {
    if (per_path == 0) return with(n_paths);
    const Bytes each = per_path * packet;
    const Bytes need = std::clamp<Bytes>((window + each - 1) / each, 1, n_paths);
    const auto rounded = (static_cast<std::uint32_t>(need) + planes - 1) / planes * planes;
    const std::uint32_t want = std::clamp(rounded, least(), n_paths);
    const bool keep = want <= now && (want == now || window * 4 >= now * each * 3);
    return with(keep ? now : want);
  }
};

}  // namespace metaroce
