// What a run found, as text for a person or as one JSON document. Every figure names its unit.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/outcome.h"
#include "metaroce-perf/options.h"
#include "metaroce-perf/round.h"
#include "metaroce-perf/statistics.h"

namespace metaroce::perf {

struct RunReport {
  Options options;
  bool server = false, interrupted = false;
  std::string peer;
  std::vector<RoundResult> rounds;
  Statistics statistics;
  app::Status status;
};

void print_heading(std::FILE* out, const RunReport& report);
void print_round(std::FILE* out, const Options& options, const RoundResult& round);
void print_statistics(std::FILE* out, const RunReport& report);
nlohmann::ordered_json to_json(const RunReport& report);

}  // namespace metaroce::perf
