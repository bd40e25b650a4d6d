// Short files for tests, and what every message must look like.
#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <string_view>

#include "config/load.h"

namespace metaroce::config {

// Tests do not depend on the machine's CPUs.
inline LoadOptions test_options() { return {{0, 1, 2, 3, 4, 5, 6, 7}}; }

// A host that is right, to stand below sections that are not.
inline constexpr std::string_view kGoodHosts =
    "hosts:\n"
    "  - ports:\n"
    "      - {kind: null, address: 10.0.0.1/24}\n";

inline Result<DaemonConfig> load_before_hosts(std::string_view text) {
  return load_text("f.yaml", std::string(text) + std::string(kGoodHosts), test_options());
}
// One host with these lines of a port, the first in line 3.
inline Result<DaemonConfig> load_port(std::string_view lines) {
  return load_text("f.yaml", "hosts:\n  - ports:\n" + std::string(lines), test_options());
}

inline void expect_one_line(const std::string& message) {
  static const std::regex shape("f\\.yaml:[0-9]+: [^:].*: .+");
  EXPECT_TRUE(std::regex_match(message, shape)) << message;
  EXPECT_EQ(message.find_first_of("\n\r\t"), std::string::npos) << message;
}

}  // namespace metaroce::config
