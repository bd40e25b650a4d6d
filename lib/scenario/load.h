// From a scenario file to what the simulator can run: includes, overrides, checks, names.
//
// Layers, each read over the one before: defaults, the included file, the file, the overrides.
// Errors are those of lib/config: one line, `file:line: key: what is wrong; accepted: ...`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"
#include "sim/scenario.h"

namespace metaroce::scenario {

struct Loaded {
  sim::Scenario scenario;
  sim::Workload workload;  // made from it
};

// Overrides are `key.path=value`; the value is YAML, `faults=[{kind: loss, probability: 1%}]`.
config::Result<Loaded> load_file(const std::string& path,
                                 const std::vector<std::string>& overrides = {});
// `name` stands for the file in messages; `folder` is where its includes are.
config::Result<Loaded> load_text(const std::string& name, std::string_view text,
                                 const std::string& folder,
                                 const std::vector<std::string>& overrides = {});

// Identity of a transport block: equal configurations have equal hashes on every machine.
std::uint64_t transport_hash(const TransportConfig& transport);
// "key: value" for each key that differs from its default.
std::vector<std::string> transport_differences(const TransportConfig& transport);

// The page doc/reference/scenarios.md.
std::string reference_markdown();

}  // namespace metaroce::scenario
