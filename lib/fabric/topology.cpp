#include "fabric/topology.h"

#include <charconv>

namespace metaroce::fabric {
namespace {

class Builder {
 public:
  explicit Builder(const FabricConfig& c) : c_(c) {
    s_.topology = c.topology;
    s_.hosts = host_count(c);
    s_.links.resize(2 * std::size_t{s_.hosts});
  }

  PlaneShape build() {
    switch (c_.topology) {
      case Topology::kSingleSwitch:
        tier(1);
        bottom(0, s_.hosts);
        break;
      case Topology::kLeafSpine:
        leaf_spine();
        break;
      case Topology::kFatTree:
        fat_tree();
        break;
    }
    pair_up();
    return std::move(s_);
  }

 private:
  [[nodiscard]] std::uint32_t node_of(std::uint32_t sw) const { return s_.hosts + sw; }
  // Adds `n` switches; returns the first.
  std::uint32_t tier(std::uint32_t n) {
    const auto first = static_cast<std::uint32_t>(s_.switches.size());
    s_.tier_begin.push_back(first);
    s_.switches.resize(first + std::size_t{n});
    return first;
  }
  std::uint32_t add_link(std::uint32_t from, std::uint32_t to) {
    s_.links.push_back({from, to});
    return static_cast<std::uint32_t>(s_.links.size() - 1);
  }
  // Joins switch `sw` and its hosts.
  void bottom(std::uint32_t sw, std::uint32_t hosts) {
    PlaneSwitch& s = s_.switches[sw];
    s.first_host = sw * hosts;
    s.host_count = hosts;
    s.down = s_.hosts + s.first_host;
    for (std::uint32_t h = s.first_host; h < s.first_host + hosts; ++h) {
      s_.links[h] = {h, node_of(sw)};
      s_.links[s_.hosts + h] = {node_of(sw), h};
    }
  }
  // Up links of `sw` to `n` switches from `first` on, `stride` apart.
  void up(std::uint32_t sw, std::uint32_t first, std::uint32_t n, std::uint32_t stride = 1) {
    s_.switches[sw].up = static_cast<std::uint32_t>(s_.links.size());
    s_.switches[sw].up_count = n;
    for (std::uint32_t i = 0; i < n; ++i) add_link(node_of(sw), node_of(first + i * stride));
  }
  // Down links of `sw` to `n` switches from `first` on, `stride` apart; each is its parent of
  // `hosts_per_child` hosts.
  void down(std::uint32_t sw, std::uint32_t first, std::uint32_t n, std::uint32_t stride,
            std::uint32_t hosts_per_child, std::uint32_t first_host) {
    PlaneSwitch& s = s_.switches[sw];
    s.first_host = first_host;
    s.host_count = n * hosts_per_child;
    s.hosts_per_child = hosts_per_child;
    s.down = static_cast<std::uint32_t>(s_.links.size());
    for (std::uint32_t i = 0; i < n; ++i) add_link(node_of(sw), node_of(first + i * stride));
  }

  void leaf_spine() {
    tier(c_.leaves);
    const std::uint32_t spine = tier(c_.spines);
    for (std::uint32_t leaf = 0; leaf < c_.leaves; ++leaf) {
      bottom(leaf, c_.hosts_per_leaf);
      up(leaf, spine, c_.spines);
    }
    for (std::uint32_t i = 0; i < c_.spines; ++i)
      down(spine + i, 0, c_.leaves, 1, c_.hosts_per_leaf, 0);
  }

  // k pods of k/2 edge and k/2 aggregation switches; core switch j * k/2 + i joins the j-th
  // aggregation switches of all pods.
  void fat_tree() {
    const std::uint32_t k = c_.fat_tree_k, half = k / 2;
    tier(k * half);
    const std::uint32_t agg = tier(k * half), core = tier(half * half);
    for (std::uint32_t e = 0; e < k * half; ++e) {
      bottom(e, half);
      up(e, agg + e / half * half, half);
    }
    for (std::uint32_t a = 0; a < k * half; ++a) {
      const std::uint32_t pod = a / half, place = a % half;
      down(agg + a, pod * half, half, 1, half, pod * half * half);
      up(agg + a, core + place * half, half);
    }
    for (std::uint32_t i = 0; i < half * half; ++i)
      down(core + i, agg + i / half, k, half, half * half, 0);
  }

  // Between two nodes there is at most one link in each direction.
  void pair_up() {
    s_.opposites.resize(s_.links.size());
    std::vector<std::vector<std::uint32_t>> leaving(s_.hosts + s_.switches.size());
    for (std::uint32_t l = 0; l < s_.links.size(); ++l) leaving[s_.links[l].from].push_back(l);
    for (std::uint32_t l = 0; l < s_.links.size(); ++l) {
      for (const std::uint32_t back : leaving[s_.links[l].to]) {
        if (s_.links[back].to == s_.links[l].from) s_.opposites[l] = back;
      }
    }
  }

  const FabricConfig& c_;
  PlaneShape s_;
};

const char* tier_name(Topology topology, std::size_t tier) {
  static constexpr const char* kNames[3][3] = {
      {"switch", "", ""}, {"leaf", "spine", ""}, {"edge", "agg", "core"}};
  return kNames[static_cast<std::size_t>(topology)][tier];
}

}  // namespace

PlaneShape make_shape(const FabricConfig& config) { return Builder(config).build(); }

std::string node_name(const PlaneShape& s, std::uint32_t node) {
  if (node < s.hosts) return "host" + std::to_string(node);
  const std::uint32_t sw = node - s.hosts;
  std::size_t tier = s.tier_begin.size() - 1;
  while (sw < s.tier_begin[tier]) --tier;
  return tier_name(s.topology, tier) + std::to_string(sw - s.tier_begin[tier]);
}

std::optional<std::uint32_t> find_node(const PlaneShape& s, std::string_view name) {
  const std::size_t digits = name.find_first_of("0123456789");
  if (digits == std::string_view::npos) return std::nullopt;
  std::uint32_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + digits, end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  const std::string_view kind = name.substr(0, digits);
  if (kind == "host") return number < s.hosts ? std::optional(number) : std::nullopt;
  for (std::size_t tier = 0; tier < s.tier_begin.size(); ++tier) {
    if (kind != tier_name(s.topology, tier)) continue;
    const std::size_t last =
        tier + 1 < s.tier_begin.size() ? s.tier_begin[tier + 1] : s.switches.size();
    if (number >= last - s.tier_begin[tier]) return std::nullopt;
    return s.hosts + s.tier_begin[tier] + number;
  }
  return std::nullopt;
}

}  // namespace metaroce::fabric
