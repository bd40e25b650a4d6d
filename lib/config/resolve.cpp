// What the file left open: CPUs of groups, mtu of ports.
#include <algorithm>

#include "config/check.h"
#include "config/port_kinds.h"

namespace metaroce::config {
namespace {

constexpr std::uint32_t kPlainMtu = 1500;

void resolve_port(PortConfig& port, std::uint32_t payload) {
  if (port.mtu) return;
  const std::uint32_t needed = payload + packet_overhead(port.address.ip.v6);
  port.mtu = std::clamp(needed, kPlainMtu, port_kind_info(port.kind).max_mtu);
}

}  // namespace

void resolve(DaemonConfig& config, const std::vector<std::uint32_t>& cpus) {
  std::size_t ordinal = 0;  // over all hosts, so that two hosts in a process do not share a CPU
  for (HostConfig& host : config.hosts) {
    for (PortConfig& port : host.ports) resolve_port(port, config.transport.payload_mtu);
    for (GroupConfig& group : host.groups) {
      if (config.eal.progress == Progress::kLcore) {
        if (!group.rx) group.rx = cpus[ordinal % cpus.size()];
        if (!group.tx) group.tx = group.rx;
        if (!group.timer) group.timer = group.tx;
      }
      ++ordinal;
    }
  }
}

}  // namespace metaroce::config
