// Random fabrics under random faults.
#include <gtest/gtest.h>

#include "rig.h"

namespace metaroce::fabric {
namespace {

TEST(Fabric, property__conservation_under_random_faults) {
  std::uint64_t lost = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    FabricConfig c;
    c.topology = static_cast<Topology>(rng.below(3));
    c.hosts = 6;
    c.leaves = static_cast<std::uint16_t>(1 + rng.below(4));
    c.hosts_per_leaf = static_cast<std::uint16_t>(2 + rng.below(4));
    c.spines = static_cast<std::uint16_t>(1 + rng.below(4));
    c.planes = static_cast<std::uint8_t>(1 + rng.below(3));
    c.queue_bytes = 4160 * (1 + rng.below(20));
    c.pfc = rng.below(3) == 0;
    c.pfc_xoff_bytes = 20'000;
    c.pfc_xon_bytes = 10'000;
    c.shared_buffer = rng.below(3) == 0;
    c.buffer_bytes = 200'000;
    c.strict_priority = rng.below(4) != 0;
    c.fcs_check = rng.below(2) == 0;
    c.reroute_after_ns = rng.below(2) * 20'000;
    const FabricState bare(c, seed);
    for (int i = 0; i < 60; ++i) {
      Fault f;
      f.at_ns = rng.below(200'000);
      f.kind = static_cast<FaultKind>(rng.below(13));
      f.target.scope = static_cast<Scope>(rng.below(7));
      f.target.plane = rng.below(2) == 0 ? kAllPlanes : static_cast<std::uint8_t>(rng.below(3));
      f.target.id = rng.below(rng.below(2) == 0 ? 8 : bare.links());
      f.target.src = static_cast<std::uint16_t>(rng.below(6));
      f.target.dst = static_cast<std::uint16_t>(rng.below(6));
      f.traffic = static_cast<Traffic>(rng.below(3));
      f.probability = rng.below(3) * 200'000'000;
      f.burst.to_bad = f.burst.to_good = 100'000'000;
      f.delay_ns = rng.below(3000);
      f.keep_order = rng.below(2) == 0;
      f.rate_mbps = rng.below(2) * 100'000;
      if (bare.why_not(f).empty()) c.faults.push_back(f);
    }
    // Afterwards all is well again.
    for (const FaultKind kind : {FaultKind::kUp, FaultKind::kStall}) {
      Fault f;
      f.at_ns = 300'000;
      f.kind = kind;
      c.faults.push_back(f);
    }
    Rig rig(c, seed);
    const std::uint32_t hosts = rig.fabric.hosts();
    for (int step = 0; step < 250; ++step) {
      for (std::uint32_t i = rng.below(12); i-- > 0;) {
        const auto src = static_cast<std::uint16_t>(rng.below(hosts));
        rig.send(src, static_cast<std::uint16_t>(rng.below(std::min(hosts, 3U))),
                 64 + rng.below(4096), rng.below(100), rng.below(4) == 0,
                 static_cast<std::uint8_t>(rng.below(c.planes)));
        if (rng.below(3) == 0) rig.fabric.want_room(src, 0);
      }
      rig.run(rig.queue.now() + kMicro);
      ASSERT_TRUE(rig.conserved()) << "seed " << seed << " step " << step;
    }
    rig.run();
    ASSERT_TRUE(rig.conserved()) << "seed " << seed;
    EXPECT_EQ(rig.fabric.packets_inside(), 0U) << "seed " << seed;
    lost += rig.losses.size();
  }
  EXPECT_GT(lost, 1000U);
}

}  // namespace
}  // namespace metaroce::fabric
