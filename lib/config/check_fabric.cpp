// The emulated fabric: its numbers, its time line, and that the ports find their places in it.
#include <fmt/format.h>

#include <algorithm>

#include "config/check.h"
#include "config/failure.h"

namespace metaroce::config {
namespace {

void check_port(const PortConfig& port, const std::string& path, const fabric::FabricConfig& model,
                const Locations& at) {
  const std::uint32_t hosts = fabric::host_count(model);
  if (port.plane >= model.planes)
    throw Failure(at.line(path + ".plane"), path + ".plane",
                  fmt::format("plane {} of a fabric with {}; accepted: 0 to {}, or more "
                              "fabric.planes",
                              port.plane, model.planes, model.planes - 1));
  if (*port.host >= hosts)
    throw Failure(
        at.line(path + ".host"), path + ".host",
        fmt::format("host {} of a fabric with {}; accepted: 0 to {}, or more fabric.hosts",
                    *port.host, hosts, hosts - 1));
}

}  // namespace

std::string fabric_model(const FabricSection& section, fabric::FabricConfig& out,
                         std::string& key) {
  out = section.model;
  key.clear();
  if (auto why = fabric::check(out); !why.empty()) return why;
  if (section.loss != 0) {
    fabric::Fault f;
    f.probability = section.loss;
    out.faults.push_back(f);
  }
  for (std::size_t i = 0; i < section.faults.size(); ++i) {
    key = fmt::format("faults[{}].target", i);
    if (auto why = add_faults(section.faults[i], section.model, out.faults); !why.empty())
      return why;
  }
  return {};
}

void check_fabric(const DaemonConfig& config, const Locations& at,
                  const std::vector<std::uint32_t>& cpus) {
  fabric::FabricConfig model;
  std::string key;
  if (const auto why = fabric_model(config.fabric, model, key); !why.empty()) {
    const std::string path = key.empty() ? "fabric" : "fabric." + key;
    throw Failure(at.line(path), path, why);
  }
  if (config.fabric.lcore && at.has("fabric.lcore")) {
    if (config.eal.progress == Progress::kInline)
      throw Failure(at.line("fabric.lcore"), "fabric.lcore",
                    "a CPU, but eal.progress is inline: the application's thread does the work; "
                    "accepted: no CPUs with progress inline");
    check_cpu("fabric.lcore", at, *config.fabric.lcore, cpus);
  }
  for (std::size_t h = 0; h < config.hosts.size(); ++h)
    for (std::size_t p = 0; p < config.hosts[h].ports.size(); ++p)
      if (const PortConfig& port = config.hosts[h].ports[p]; port.kind == PortKind::kFabric)
        check_port(port, fmt::format("hosts[{}].ports[{}]", h, p), model, at);
}

}  // namespace metaroce::config
