// What the file left open: CPUs of groups and of the fabric, mtu of ports.
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
    const auto number = static_cast<std::uint32_t>(&host - config.hosts.data());
    for (PortConfig& port : host.ports) {
      resolve_port(port, config.transport.payload_mtu);
      if (!port.host) port.host = number;
    }
    for (GroupConfig& group : host.groups) {
      if (config.eal.progress == Progress::kLcore) {
        if (!group.rx) group.rx = cpus[ordinal % cpus.size()];
        if (!group.tx) group.tx = group.rx;
        if (!group.timer) group.timer = group.tx;
      }
      ++ordinal;
    }
  }
  if (!config.fabric.lcore && config.eal.progress == Progress::kLcore)
    config.fabric.lcore = cpus[ordinal % cpus.size()];
  if (!config.fabric.socket) config.fabric.socket = config.control.socket + ".fabric";
}

}  // namespace metaroce::config
