// The shape of one plane: nodes, directed links and what a switch needs to route by structure.
//
// Nodes: hosts first, then switches, tier by tier from the bottom. A switch reaches the hosts
// [first_host, first_host + host_count) through its down links, one per child of hosts_per_child
// hosts each; everybody else through any of its up links. Three topologies need nothing else, so
// the fabric has one routing function and no table per destination.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/config.h"

namespace metaroce::fabric {

struct PlaneLink {
  std::uint32_t from = 0, to = 0;  // nodes
};

struct PlaneSwitch {
  std::uint32_t first_host = 0, host_count = 0, hosts_per_child = 1;
  std::uint32_t down = 0;  // link to the first child; the others follow
  std::uint32_t up = 0, up_count = 0;
};

struct PlaneShape {
  Topology topology = Topology::kSingleSwitch;
  std::uint32_t hosts = 0;
  std::vector<PlaneLink> links;  // host h: up link h, down link hosts + h
  std::vector<PlaneSwitch> switches;
  std::vector<std::uint32_t> tier_begin;  // first switch of each tier
  // The other direction of a cable.
  [[nodiscard]] std::uint32_t opposite(std::uint32_t link) const { return opposites[link]; }
  std::vector<std::uint32_t> opposites;
};

PlaneShape make_shape(const FabricConfig&);

// "host3", "leaf0", "spine7", "edge1", "agg2", "core0", "switch0".
std::string node_name(const PlaneShape&, std::uint32_t node);
std::optional<std::uint32_t> find_node(const PlaneShape&, std::string_view name);

}  // namespace metaroce::fabric
