// One request to the fabric's socket of a daemon, and its answer.
#pragma once

#include <string>

namespace metaroce::ctl {

// True with the whole answer; false with a sentence in `error`. Waits at most `timeout_ms`.
bool exchange(const std::string& path, const std::string& request, int timeout_ms,
              std::string& answer, std::string& error);

}  // namespace metaroce::ctl
