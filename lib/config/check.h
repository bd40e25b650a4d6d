// Rules that no single key can state, and the values that the file left open. Both run once,
// between reading and handing out, so that whoever holds a DaemonConfig need not ask again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/daemon_config.h"
#include "config/reader.h"

namespace metaroce::config {

// Fills every "set by the loader" member that is empty. `cpus` is not empty.
void resolve(DaemonConfig& config, const std::vector<std::uint32_t>& cpus);

// Throw Failure for the first broken rule; append what is merely suspicious.
struct Warning {
  int line;
  std::string path, text;
};
void check_process(const DaemonConfig& config, const Locations& at,
                   const std::vector<std::uint32_t>& cpus);
void check_hosts(const DaemonConfig& config, const Locations& at, std::vector<Warning>& warnings);
void check_fabric(const DaemonConfig& config, const Locations& at,
                  const std::vector<std::uint32_t>& cpus);
void check_transport(const DaemonConfig& config, const Locations& at);

// Throws when `cpu` is not one of `cpus`.
void check_cpu(const std::string& path, const Locations& at, std::uint32_t cpu,
               const std::vector<std::uint32_t>& cpus);
// "0-3,8" for messages.
std::string cpu_set_text(const std::vector<std::uint32_t>& cpus);

}  // namespace metaroce::config
