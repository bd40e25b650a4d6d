// SIGINT and SIGTERM ask the program to finish: the first sets a flag that loops look at, the
// second ends the process the default way, for a person who does not want to wait.
#pragma once

#include <atomic>

namespace metaroce::app {

const std::atomic<int>* install_stop_signals();

}  // namespace metaroce::app
