// One fault as people write it (in a time line of a scenario or a daemon, or live), and its
// meaning in a fabric.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fabric/config.h"

namespace metaroce::config {

struct FaultSpec {
  fabric::FaultKind kind = fabric::FaultKind::kLoss;
  Nanos at = 0;
  std::string target = "all";
  std::optional<std::uint32_t> plane;  // not set: all
  fabric::Traffic traffic = fabric::Traffic::kData;
  std::uint32_t probability = 0;
  std::uint32_t to_bad = 0, to_good = 0, loss_good = 0, loss_bad = fabric::kCertain;
  Nanos delay = 0;
  bool keep_order = false;
  Mbps rate = 0;
  bool on = true;
};

// Appends the fabric's faults, one or one per plane. Returns what is wrong with the target, or "".
// `fabric` passed its check().
std::string add_faults(const FaultSpec& spec, const fabric::FabricConfig& fabric,
                       std::vector<fabric::Fault>& out);

}  // namespace metaroce::config
