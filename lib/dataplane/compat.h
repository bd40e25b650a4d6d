// The one place that asks which DPDK this is (22.11 .. 25.11), and includes what the C++ side
// needs from it in the order that works everywhere.
#pragma once

#include <cstdint>

#include <rte_version.h>

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "DPDK 22.11 or later is needed"
#endif

namespace metaroce::compat {

// net_tap drops frames above its fixed buffer silently until 24.11, which made it follow the MTU.
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
inline constexpr std::uint32_t kTapMaxFrame = 9728;
#else
inline constexpr std::uint32_t kTapMaxFrame = 1518;
#endif

}  // namespace metaroce::compat
