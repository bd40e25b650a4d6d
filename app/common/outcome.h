// How a program ends: the exit code that --help documents, and one line that says why.
#pragma once

#include <string>
#include <utility>

namespace metaroce::app {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,   // failed while running
  kExitUsage = 2,     // command line or configuration; nothing was sent
  kExitMismatch = 3,  // data arrived that is not what was sent
  kExitPeerLost = 4,  // the other end vanished, refused to answer or was too slow
};
inline constexpr const char* kExitCodeHelp =
    "Exit codes: 0 success, 1 failure while running, 2 wrong usage or configuration,\n"
    "3 data mismatch, 4 peer lost or timeout.";

struct [[nodiscard]] Status {
  int code = kExitOk;
  std::string text;
  bool ok() const { return code == kExitOk; }
};
inline Status fail(int code, std::string text) { return {code, std::move(text)}; }

}  // namespace metaroce::app
