// What a person and what a program reads. The JSON document depends on scenario and seeds only,
// except for the `timing` object, which exists on request.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "metaroce-sim/metrics.h"

namespace metaroce::simapp {

struct Timing {
  double user_s = 0, wall_s = 0;
};

struct RunReport {
  std::uint64_t seed = 0;
  sim::RunResult result;
  Metrics metrics;
  Timing timing;
};

// Of one finished run or of several seeds; the first is that of `loaded`.
std::string summary_table(const scenario::Loaded& loaded, const std::vector<RunReport>& runs);
nlohmann::ordered_json document(const scenario::Loaded& loaded, const std::vector<RunReport>& runs,
                                int exit_code, bool timing);
// A document without runs: something went wrong before.
nlohmann::ordered_json error_document(int exit_code, const std::string& what);
// Any text in it that is not UTF-8 is replaced: a document is always valid.
std::string to_text(const nlohmann::ordered_json& document);

std::string flows_csv(const scenario::Loaded& loaded, const sim::RunResult& result);

}  // namespace metaroce::simapp
