// When packets arrive, to the picosecond, and in which order.
#include <gtest/gtest.h>

#include "rig.h"

namespace metaroce::fabric {
namespace {

constexpr Picos kSer = 4160 * 20;  // 83.2 ns

// n packets over h links of equal rate: n SER + (h - 1) SER + h propagation.
Picos train_time(Picos n, Picos h) { return n * kSer + (h - 1) * kSer + h * kMicro; }

TEST(FabricTiming, one_packet_over_one_switch) {
  Rig rig(plain(2));
  rig.send(0, 1, 4160);
  rig.run();
  ASSERT_EQ(rig.delivered.size(), 1U);
  EXPECT_EQ(rig.delivered[0].at, train_time(1, 2));
  EXPECT_EQ(rig.delivered[0].host, 1);
  EXPECT_TRUE(rig.conserved());
}

TEST(FabricTiming, train_over_every_topology) {
  for (const std::uint32_t n : {1U, 2U, 100U}) {
    Rig leaf_spine(ls64()), tree(ft128());
    for (std::uint32_t i = 0; i < n; ++i) {
      leaf_spine.send(0, 63, 4160, 5);
      tree.send(0, 127, 4160, 5);
    }
    leaf_spine.run();
    tree.run();
    EXPECT_EQ(leaf_spine.delivered.back().at, train_time(n, 4));
    EXPECT_EQ(tree.delivered.back().at, train_time(n, 6));
    for (std::uint32_t i = 0; i < n; ++i) EXPECT_EQ(tree.delivered[i].packet.user, i + 1);
  }
}

TEST(FabricTiming, distance_in_a_fat_tree) {
  Rig rig(ft128());
  rig.send(0, 3, 4160);  // same edge switch
  rig.run();
  EXPECT_EQ(rig.queue.now(), train_time(1, 2));
  const Picos then = rig.queue.now();
  rig.send(0, 15, 4160);  // same pod
  rig.run();
  EXPECT_EQ(rig.queue.now() - then, train_time(1, 4));
}

TEST(FabricTiming, rates_latency_overhead) {
  FabricConfig c = plain(2);
  c.host_rate_mbps = 56'000;  // 142.857... ps per byte
  c.host_propagation_ns = 0;
  Rig odd(c);
  odd.send(0, 1, 7000);  // 1 us to the picosecond
  odd.run();
  EXPECT_EQ(odd.queue.now(), 2 * kMicro);

  c.host_rate_mbps = 100'000;  // 80 ps per byte
  c.switch_latency_ns = 300;
  c.overhead_bytes = 24;
  Rig rig(c);
  rig.send(0, 1, 1000);
  rig.run();
  EXPECT_EQ(rig.queue.now(), 2 * 1024 * 80 + 300'000);
  EXPECT_EQ(rig.fabric.counters(rig.link("host0->switch0")).busy, 1024 * 80);
}

TEST(FabricTiming, planes_are_independent_and_may_differ_in_rate) {
  FabricConfig c = ls64();
  c.planes = 2;
  c.plane_rate_mbps = {400'000, 100'000};
  Rig rig(c);
  rig.send(0, 63, 4160, 0, false, 0);
  rig.send(0, 63, 4160, 0, false, 1);
  rig.run();
  ASSERT_EQ(rig.delivered.size(), 2U);
  EXPECT_EQ(rig.delivered[0].at, 4 * kSer + 4 * kMicro);
  EXPECT_EQ(rig.delivered[1].at, 16 * kSer + 4 * kMicro);
  EXPECT_EQ(rig.delivered[1].packet.plane, 1);
}

// A port sends what it has begun, then control, then data.
TEST(FabricTiming, priority_is_strict_and_not_preemptive) {
  Rig rig(plain(2));
  for (int i = 0; i < 3; ++i) rig.send(0, 1, 4160);
  rig.send(0, 1, 100, 0, true);
  rig.run();
  ASSERT_EQ(rig.delivered.size(), 4U);
  EXPECT_EQ(rig.delivered[0].packet.user, 1U);
  EXPECT_EQ(rig.delivered[1].packet.user, 4U);
  // It waits for one packet at the NIC, and for the same one at the switch.
  EXPECT_EQ(rig.delivered[1].at, 2 * kMicro + 2 * kSer + 100 * 20);

  FabricConfig c = plain(2);
  c.strict_priority = false;
  Rig fifo(c);
  for (int i = 0; i < 3; ++i) fifo.send(0, 1, 4160);
  fifo.send(0, 1, 100, 0, true);
  fifo.run();
  EXPECT_EQ(fifo.delivered.back().packet.user, 4U);
}

TEST(FabricTiming, nic_room) {
  FabricConfig c = plain(2);
  Rig rig(c);
  int n = 0;
  while (rig.fabric.nic_room(0, 0)) {
    rig.send(0, 1, 4160);
    ASSERT_LT(++n, 100);
  }
  EXPECT_EQ(n, 9);  // one is being sent, eight wait
  rig.fabric.want_room(0, 0);
  rig.fabric.want_room(0, 0);
  rig.on_ready = [&](std::uint16_t host, std::uint8_t plane) {
    EXPECT_EQ(host, 0);
    EXPECT_TRUE(rig.fabric.nic_room(host, plane));
    EXPECT_EQ(rig.queue.now(), kSer);
    rig.send(0, 1, 4160);
  };
  rig.run();
  EXPECT_EQ(rig.ready, 1U);
  EXPECT_EQ(rig.delivered.size(), 10U);
  EXPECT_EQ(rig.queue.now(), train_time(10, 2));

  rig.on_ready = nullptr;
  rig.fabric.want_room(1, 0);  // there is room: told by an event
  EXPECT_EQ(rig.ready, 1U);
  rig.run();
  EXPECT_EQ(rig.ready, 2U);
  EXPECT_FALSE(rig.fabric.nic_room(2, 0));
  EXPECT_FALSE(rig.fabric.nic_room(0, 1));
}

}  // namespace
}  // namespace metaroce::fabric
