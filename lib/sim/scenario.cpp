#include "sim/scenario.h"

namespace metaroce::sim {

Mbps port_rate(const Scenario& s, std::uint16_t host, std::uint8_t plane) {
  if (!s.host.line_rates.empty()) return s.host.line_rates[host % s.host.line_rates.size()];
  const auto& planes = s.fabric.plane_rate_mbps;
  return planes.empty() ? s.fabric.host_rate_mbps : planes[plane % planes.size()];
}

std::uint32_t hosts_per_leaf(const fabric::FabricConfig& f) {
  switch (f.topology) {
    case fabric::Topology::kSingleSwitch:
      return f.hosts;
    case fabric::Topology::kLeafSpine:
      return f.hosts_per_leaf;
    case fabric::Topology::kFatTree:
      return f.fat_tree_k / 2U;
  }
  return 1;
}

std::uint32_t hosts_per_group(const fabric::FabricConfig& f) {
  switch (f.topology) {
    case fabric::Topology::kSingleSwitch:
      return 1;
    case fabric::Topology::kLeafSpine:
      return f.hosts_per_leaf;
    case fabric::Topology::kFatTree:
      return f.fat_tree_k * f.fat_tree_k / 4U;
  }
  return 1;
}

std::uint32_t links_between(const fabric::FabricConfig& f, std::uint16_t a, std::uint16_t b) {
  const std::uint32_t leaf = hosts_per_leaf(f), group = hosts_per_group(f);
  if (a / leaf == b / leaf) return 2;
  return f.topology == fabric::Topology::kFatTree && a / group != b / group ? 6 : 4;
}

WorkloadResult make_workload(const Scenario& s) {
  WorkloadContext context;
  context.hosts = fabric::host_count(s.fabric);
  context.hosts_per_group = hosts_per_group(s.fabric);
  context.line_rate = 0;
  for (std::uint8_t plane = 0; plane < s.fabric.planes; ++plane)
    context.line_rate += port_rate(s, 0, plane);
  context.seed = s.seed;
  WorkloadResult made = generate(s.workload, context);
  if (auto* w = std::get_if<Workload>(&made)) w->name = s.name;
  return made;
}

}  // namespace metaroce::sim
