// --json: exactly one document on stdout, whatever happens, and nothing else there.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/outcome.h"

namespace metaroce::app {

// Adds tool, version, result, exit_code and error; bytes that are not UTF-8 become U+FFFD.
void print_json(std::FILE* out, std::string_view tool, nlohmann::ordered_json body,
                const Status& status);
// True when the command line asks for JSON, however wrong the rest of it is.
bool wants_json(int argc, const char* const* argv);

}  // namespace metaroce::app
