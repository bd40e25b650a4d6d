// Where the messages of one stream lie: slots of one size in that stream's share of the region,
// message n in slot n mod slots, the same on both ends. A latency test uses at most 254 slots, so
// that the marker byte (1 + n mod 255) of a slot differs from that of its previous message.
#pragma once

#include <algorithm>
#include <cstdint>

#include "metaroce-perf/message.h"

namespace metaroce::perf {

inline constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 31;
inline constexpr std::uint64_t kSlotAlign = 64;
inline constexpr std::uint64_t kMaxSlots = 65536;

constexpr std::uint64_t slot_stride(std::uint64_t size) {
  return std::max(kSlotAlign, (size + kSlotAlign - 1) / kSlotAlign * kSlotAlign);
}

// Default share of a stream: room for `depth` messages up to 4 MiB (larger ones leave the caches
// and measure DRAM), and for two messages unless they are huge.
constexpr std::uint64_t default_region(std::uint64_t max_size, std::uint32_t depth) {
  const std::uint64_t stride = slot_stride(max_size);
  const std::uint64_t least = stride > (std::uint64_t{256} << 20) ? stride : 2 * stride;
  return std::max(least, std::min<std::uint64_t>(stride * depth, 4U << 20));
}

struct Layout {
  std::uint64_t stride = 0, slots = 0, region = 0;
  Layout() = default;
  Layout(std::uint64_t size, std::uint64_t region_bytes, Metric metric)
      : stride(slot_stride(size)),
        slots(std::clamp<std::uint64_t>(region_bytes / stride, 1,
                                        metric == Metric::kLatency ? 254 : kMaxSlots)),
        region(region_bytes) {}
  std::uint64_t offset(std::uint32_t stream, std::uint64_t message) const {
    return stream * region + message % slots * stride;
  }
};

}  // namespace metaroce::perf
