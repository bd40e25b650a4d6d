// Shapes, names, and where ECMP leads.
#include "fabric/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "rig.h"

namespace metaroce::fabric {
namespace {

TEST(Topology, sizes) {
  const PlaneShape leaf_spine = make_shape(ls64()), tree = make_shape(ft128());
  EXPECT_EQ(leaf_spine.hosts, 64U);
  EXPECT_EQ(leaf_spine.switches.size(), 16U);
  EXPECT_EQ(leaf_spine.links.size(), 2U * 64 + 2 * 64);
  EXPECT_EQ(tree.hosts, 128U);
  EXPECT_EQ(tree.switches.size(), 32U + 32 + 16);
  EXPECT_EQ(tree.links.size(), 2U * (128 + 128 + 128));
}

TEST(Topology, every_link_has_its_opposite) {
  for (const FabricConfig& c : {plain(5), ls64(), ft128()}) {
    const PlaneShape s = make_shape(c);
    for (std::uint32_t l = 0; l < s.links.size(); ++l) {
      const std::uint32_t back = s.opposite(l);
      EXPECT_EQ(s.links[back].from, s.links[l].to);
      EXPECT_EQ(s.links[back].to, s.links[l].from);
      EXPECT_EQ(s.opposite(back), l);
    }
  }
}

TEST(Topology, names_lead_back_to_links) {
  FabricConfig c = ft128();
  c.planes = 3;
  const FabricState tree(c, 1);
  EXPECT_EQ(tree.link_name(3), "host3->edge0 plane 0");
  std::set<std::string> names;
  for (std::uint32_t l = 0; l < tree.links(); ++l) {
    const std::string name = tree.link_name(l);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(tree.find_link(name), l) << name;
  }
  EXPECT_EQ(tree.find_link("edge0->agg1"), tree.find_link("edge0->agg1 plane 0"));
  EXPECT_EQ(tree.find_switch("edge1"), 1U);
  EXPECT_EQ(tree.find_switch("core15"), 79U);
  for (const char* wrong :
       {"", "->", "host0", "host0->edge1", "host128->edge0", "core0->core1", "host0->edge0 plane 3",
        "host0->edge0 plane x", "host0->edge0x", "edge99999999999->agg0"})
    EXPECT_FALSE(tree.find_link(wrong)) << wrong;
  for (const char* wrong : {"host1", "leaf0", "core16", "agg", ""})
    EXPECT_FALSE(tree.find_switch(wrong)) << wrong;
  EXPECT_EQ(FabricState(ls64(), 1).link_name(2 * 64), "leaf0->spine0");
}

TEST(FabricConfig, check_says_what_is_wrong) {
  EXPECT_EQ(check(ls64()), "");
  EXPECT_EQ(check(ft128()), "");
  FabricConfig c = ft128();
  c.fat_tree_k = 5;
  EXPECT_NE(check(c).find("fat_tree_k"), std::string::npos);
  c = plain(2);
  c.host_rate_mbps = 0;
  EXPECT_NE(check(c).find("host_rate_mbps is 0"), std::string::npos);
  c = plain(2);
  c.planes = 2;
  c.plane_rate_mbps = {1};
  EXPECT_NE(check(c).find("plane_rate_mbps"), std::string::npos);
  c = plain(0);
  EXPECT_NE(check(c), "");
  EXPECT_THROW(FabricState(c, 1), std::invalid_argument);
}

Picos distance(const FabricConfig& c, int src, int dst) {
  switch (c.topology) {
    case Topology::kSingleSwitch:
      return 2;
    case Topology::kLeafSpine:
      return src / c.hosts_per_leaf == dst / c.hosts_per_leaf ? 2 : 4;
    case Topology::kFatTree:
      break;
  }
  const int edge = c.fat_tree_k / 2, pod = edge * edge;
  return src / edge == dst / edge ? 2 : src / pod == dst / pod ? 4 : 6;
}

// Every pair of hosts is connected in every topology, over as few links as its distance allows.
TEST(Routing, all_pairs) {
  FabricConfig uneven;
  uneven.topology = Topology::kLeafSpine;
  uneven.leaves = 3;
  uneven.hosts_per_leaf = 5;
  uneven.spines = 7;
  uneven.planes = 2;
  FabricConfig tree;
  tree.topology = Topology::kFatTree;
  tree.fat_tree_k = 6;
  for (const FabricConfig& c : {plain(9), uneven, tree}) {
    Rig rig(c);
    const auto n = static_cast<std::uint16_t>(rig.fabric.hosts());
    for (std::uint16_t src = 0; src < n; ++src) {
      for (std::uint16_t dst = 0; dst < n; ++dst) {
        const auto plane = static_cast<std::uint8_t>((src + dst) % c.planes);
        rig.send(src, dst, 1000, src, false, plane);
        const std::size_t before = rig.delivered.size();
        const Picos then = rig.queue.now();
        rig.run();
        ASSERT_EQ(rig.delivered.size(), before + 1) << src << " -> " << dst;
        EXPECT_EQ(rig.delivered.back().host, dst);
        const Picos hops = (rig.queue.now() - then) / (kMicro + 20'000);
        EXPECT_EQ(hops, distance(c, src, dst)) << src << " -> " << dst;
      }
    }
  }
}

std::vector<std::uint64_t> packets_on_uplinks(Rig& rig, const char* leaf, int spines) {
  std::vector<std::uint64_t> n;
  for (int s = 0; s < spines; ++s) {
    const std::string name = std::string(leaf) + std::to_string(s);
    n.push_back(rig.fabric.counters(*rig.fabric.find_link(name)).packets);
  }
  return n;
}

// A flow keeps its link; flows of different entropy spread evenly; the seed decides where.
TEST(Routing, ecmp_even_and_deterministic) {
  const auto spread = [](std::uint64_t seed, bool vary) {
    Rig rig(ls64(), seed);
    for (std::uint32_t i = 0; i < 8000; ++i) {
      rig.send(0, 63, 100, vary ? i : 42);
      rig.run();
    }
    return packets_on_uplinks(rig, "leaf0->spine", 8);
  };
  const auto one = spread(1, false), many = spread(1, true);
  EXPECT_EQ(std::count(one.begin(), one.end(), 8000U), 1);
  for (const std::uint64_t n : many) EXPECT_NEAR(static_cast<double>(n), 1000, 150);  // 5 sigma
  EXPECT_EQ(many, spread(1, true));
  EXPECT_NE(many, spread(2, true));
}

// Both tiers of a fat tree choose independently: all 16 cores carry their share.
TEST(Routing, ecmp_does_not_polarise) {
  Rig rig(ft128());
  for (std::uint32_t i = 0; i < 16'000; ++i) {
    rig.send(0, 127, 100, i);
    rig.run();
  }
  for (int core = 0; core < 16; ++core) {
    const std::string name = "agg" + std::to_string(core / 4) + "->core" + std::to_string(core);
    EXPECT_NEAR(static_cast<double>(rig.fabric.counters(*rig.fabric.find_link(name)).packets), 1000,
                150)
        << name;
  }
}

TEST(Routing, rehash_moves_flows_of_one_switch) {
  Rig rig(ls64());
  Fault rehash;
  rehash.kind = FaultKind::kRehash;
  rehash.target = {Scope::kSwitch, 0, *rig.fabric.find_switch("leaf0")};
  const auto where = [&](std::uint16_t src, std::uint16_t dst, const char* leaf) {
    std::vector<std::size_t> link;
    for (std::uint32_t i = 0; i < 64; ++i) {
      const auto before = packets_on_uplinks(rig, leaf, 8);
      rig.send(src, dst, 100, i);
      rig.run();
      const auto after = packets_on_uplinks(rig, leaf, 8);
      for (std::size_t s = 0; s < 8; ++s) {
        if (after[s] != before[s]) link.push_back(s);
      }
    }
    return link;
  };
  const auto mine = where(0, 63, "leaf0->spine"), other = where(63, 0, "leaf7->spine");
  EXPECT_TRUE(rig.fabric.apply(rehash));
  EXPECT_NE(where(0, 63, "leaf0->spine"), mine);
  EXPECT_EQ(where(63, 0, "leaf7->spine"), other);
  rehash.target.id = 16;
  EXPECT_FALSE(rig.fabric.apply(rehash));
}

}  // namespace
}  // namespace metaroce::fabric
