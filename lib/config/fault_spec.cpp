#include "config/fault_spec.h"

#include <fmt/format.h>

#include "config/codec.h"
#include "fabric/topology.h"

namespace metaroce::config {
namespace {

using fabric::FaultKind;
using fabric::Scope;

constexpr std::string_view kTargets =
    "all; a host or switch (host3, leaf0, spine1, edge0, agg0, core0, switch0); a link in one "
    "direction (leaf0->spine1) or both (leaf0-spine1); for a blackhole a pair of hosts "
    "(host0->host9)";

std::string no_target(std::string_view name) {
  return fmt::format("{} is not in this fabric; accepted: {}", shown(name), kTargets);
}

// Number of the link within a plane.
std::optional<std::uint32_t> find_link(const fabric::PlaneShape& shape, std::uint32_t from,
                                       std::uint32_t to) {
  for (std::uint32_t l = 0; l < shape.links.size(); ++l)
    if (shape.links[l].from == from && shape.links[l].to == to) return l;
  return std::nullopt;
}

struct Ends {
  std::string_view from, to;
  bool one_way;
};
std::optional<Ends> split(std::string_view target) {
  const auto dash = target.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const bool one_way = target.substr(dash).starts_with("->");
  return Ends{target.substr(0, dash), target.substr(dash + (one_way ? 2 : 1)), one_way};
}

fabric::Fault plain(const FaultSpec& s) {
  fabric::Fault f;
  f.at_ns = s.at;
  f.kind = s.kind;
  f.target.plane = s.plane ? static_cast<std::uint8_t>(*s.plane) : fabric::kAllPlanes;
  f.traffic = s.traffic;
  f.probability = s.probability;
  if (s.kind == FaultKind::kBlackhole || s.kind == FaultKind::kStall)
    f.probability = s.on ? fabric::kCertain : 0;
  f.burst = {s.to_bad, s.to_good, s.loss_good, s.loss_bad};
  f.delay_ns = s.delay;
  f.keep_order = s.keep_order;
  f.rate_mbps = s.rate;
  return f;
}

// A link has a number of its own in each plane.
void add_links(fabric::Fault f, std::uint32_t local, const FaultSpec& s, std::uint32_t planes,
               std::uint32_t links, std::vector<fabric::Fault>& out) {
  for (std::uint32_t p = 0; p < planes; ++p) {
    if (s.plane && *s.plane != p) continue;
    f.target.id = p * links + local;
    out.push_back(f);
  }
}

}  // namespace

std::string add_faults(const FaultSpec& s, const fabric::FabricConfig& config,
                       std::vector<fabric::Fault>& out) {
  if (s.plane && *s.plane >= config.planes)
    return fmt::format("plane {} of {}; accepted: 0 to {}", *s.plane, config.planes,
                       config.planes - 1);
  fabric::Fault f = plain(s);
  const fabric::PlaneShape shape = fabric::make_shape(config);
  const auto ends = split(s.target);
  if (s.kind == FaultKind::kBlackhole && (!ends || !ends->one_way || !ends->to.starts_with("host")))
    return "a blackhole is from one host to another; accepted: a target like host0->host9";
  if (!ends) {
    if (s.target == "all") {
      f.target.scope = s.plane ? Scope::kPlane : Scope::kAll;
    } else if (const auto node = fabric::find_node(shape, s.target); node && *node < shape.hosts) {
      f.target.scope = Scope::kHost;
      f.target.id = *node;
    } else if (node) {
      f.target.scope = Scope::kSwitch;
      f.target.id = *node - shape.hosts;
    } else {
      return no_target(s.target);
    }
    out.push_back(f);
    return {};
  }
  const auto from = fabric::find_node(shape, ends->from), to = fabric::find_node(shape, ends->to);
  if (!from || !to) return no_target(s.target);
  if (s.kind == FaultKind::kBlackhole) {
    f.target.scope = Scope::kPair;
    f.target.src = static_cast<std::uint16_t>(*from);
    f.target.dst = static_cast<std::uint16_t>(*to);
    out.push_back(f);
    return {};
  }
  const auto link = find_link(shape, *from, *to);
  if (!link) return no_target(s.target);
  f.target.scope = ends->one_way ? Scope::kLink : Scope::kCable;
  add_links(f, *link, s, config.planes, static_cast<std::uint32_t>(shape.links.size()), out);
  return {};
}

}  // namespace metaroce::config
