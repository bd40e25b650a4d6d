// Counters of an emulated fabric as JSON: `metaroce-ctl fabric show`, and the daemon's summary.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "drivers/fabric/emulated_fabric.h"

namespace metaroce {

// Totals and one entry per plane; with `links` also those links that carried or dropped something
// or are down, at most kMaxReportedLinks. Any thread that outlives neither: counters as they are.
inline constexpr std::size_t kMaxReportedLinks = 256;
nlohmann::json fabric_report(const EmulatedFabric& fabric, bool links);

}  // namespace metaroce
