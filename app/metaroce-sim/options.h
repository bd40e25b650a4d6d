// The command line of metaroce-sim.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace metaroce::simapp {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,    // a run that is not complete, or output that cannot be written
  kExitUsage = 2,      // command line or scenario file; nothing ran
  kExitViolation = 3,  // a check of the simulation failed
};
inline constexpr const char* kExitCodeHelp =
    "Exit codes: 0 every run complete and sound, 1 a run did not complete (limit, stall, signal)\n"
    "or output could not be written, 2 wrong usage or scenario file, 3 a check failed.";

enum class Command : std::uint8_t { kRun, kList, kCheck };

struct Options {
  Command command = Command::kRun;
  std::vector<std::string> files;  // run: one; check: some; list: the folder
  std::vector<std::string> overrides;
  std::optional<std::uint64_t> seed;
  std::uint32_t seeds = 1;
  bool json = false, timing = false, quiet = false;
  std::string csv, series, losses, pcap;
  std::string text;  // help or version, to print instead of anything else
};

// Returns what is wrong, or "".
std::string parse_options(int argc, const char* const* argv, Options& options);

}  // namespace metaroce::simapp
