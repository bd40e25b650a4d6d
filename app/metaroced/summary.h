// What the daemon says about itself: one progress line, and all counters and objects as JSON (at
// the end, and on SIGUSR1).
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace metaroce {

class Runtime;
class SessionServer;

std::string progress_line(Runtime& runtime, const SessionServer& server);
nlohmann::json summarise(Runtime& runtime, const SessionServer& server);

}  // namespace metaroce
