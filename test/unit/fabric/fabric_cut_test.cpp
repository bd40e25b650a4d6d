// Cuts and returns, degraded rates, stalls, routing that reacts.
#include <gtest/gtest.h>

#include "rig.h"

namespace metaroce::fabric {
namespace {

constexpr Picos kSer = 4160 * 20;

Fault at(Nanos when, FaultKind kind, Target target, Mbps rate = 0) {
  Fault f;
  f.at_ns = when;
  f.kind = kind;
  f.target = target;
  f.rate_mbps = rate;
  f.probability = kCertain;
  return f;
}

TEST(FabricCut, down_drops_queued_and_in_flight_up_carries_again) {
  FabricConfig c = plain(2);
  c.faults = {at(300, FaultKind::kDown, {Scope::kHost, 0, 0}),
              at(5000, FaultKind::kUp, {Scope::kHost, 0, 0})};
  Rig rig(c);
  for (int i = 0; i < 8; ++i) rig.send(0, 1, 4160);
  rig.run(400'000);  // three sent, one in transmission, four wait
  EXPECT_FALSE(rig.fabric.link_up(0, 0));
  EXPECT_TRUE(rig.fabric.link_up(1, 0));
  EXPECT_EQ(rig.losses.size(), 4U);
  EXPECT_EQ(rig.losses[0].at, 300'000);
  rig.send(0, 1, 4160);
  EXPECT_EQ(rig.losses.size(), 5U);
  rig.run(4 * kMicro);
  EXPECT_EQ(rig.losses.size(), 9U);
  EXPECT_EQ(rig.lost_as(Loss::kLinkDown), 9U);
  EXPECT_TRUE(rig.delivered.empty());
  rig.run(6 * kMicro);
  EXPECT_TRUE(rig.fabric.link_up(0, 0));
  rig.send(0, 1, 4160);
  rig.run();
  EXPECT_EQ(rig.delivered.size(), 1U);
  EXPECT_TRUE(rig.conserved());
}

// In flight across a cut and a return: lost all the same.
TEST(FabricCut, short_cut_loses_what_was_in_flight) {
  Rig rig(plain(2));
  rig.send(0, 1, 4160);
  rig.run(500'000);
  const std::uint32_t link = rig.link("host0->switch0");
  rig.fabric.set_link_up(link, false);
  rig.fabric.set_link_up(link, true);
  rig.run();
  EXPECT_EQ(rig.lost_as(Loss::kLinkDown), 1U);
}

TEST(FabricCut, waiting_owner_is_told_when_its_link_dies) {
  Rig rig(plain(2));
  for (int i = 0; i < 20; ++i) rig.send(0, 1, 4160);
  rig.fabric.want_room(0, 0);
  rig.fabric.set_link_up(rig.link("host0->switch0"), false);
  EXPECT_EQ(rig.ready, 1U);
  EXPECT_EQ(rig.losses.size(), 19U);
}

TEST(FabricCut, plane_switch_and_cable) {
  FabricConfig c = ls64();
  c.planes = 2;
  Rig rig(c);
  const auto all_lost = [&](std::uint16_t src, std::uint16_t dst, std::uint8_t plane) {
    const std::size_t delivered = rig.delivered.size(), lost = rig.losses.size();
    for (std::uint32_t i = 0; i < 100; ++i) {
      rig.send(src, dst, 100, i, false, plane);
      rig.run();
    }
    EXPECT_EQ(rig.delivered.size() + rig.losses.size(), delivered + lost + 100);
    return rig.losses.size() - lost;
  };
  rig.fabric.apply(at(0, FaultKind::kDown, {Scope::kPlane, 1}));
  EXPECT_EQ(all_lost(0, 1, 1), 100U);
  EXPECT_EQ(all_lost(0, 63, 0), 0U);
  EXPECT_FALSE(rig.fabric.link_up(5, 1));
  rig.fabric.apply(at(0, FaultKind::kUp, {Scope::kPlane, 1}));
  EXPECT_EQ(all_lost(0, 63, 1), 0U);

  const std::uint32_t leaf = *rig.fabric.find_switch("leaf7");
  rig.fabric.apply(at(0, FaultKind::kDown, {Scope::kSwitch, 0, leaf}));
  EXPECT_EQ(all_lost(0, 63, 0), 100U);
  EXPECT_EQ(all_lost(0, 63, 1), 0U);
  EXPECT_FALSE(rig.fabric.link_up(63, 0));
  rig.fabric.apply(at(0, FaultKind::kUp, {Scope::kSwitch, 0, leaf}));

  // ECMP keeps hashing onto a dead cable.
  rig.fabric.apply(at(0, FaultKind::kDown, {Scope::kCable, 0, rig.link("spine0->leaf0")}));
  const std::size_t there = all_lost(0, 63, 0), back = all_lost(63, 0, 0);
  EXPECT_GT(there, 2U);
  EXPECT_LT(there, 30U);
  EXPECT_GT(back, 2U);
  EXPECT_LT(back, 30U);
  EXPECT_TRUE(rig.conserved());
}

// After reroute_after_ns both ends avoid the cable, also the far leaf whose own links are sound.
TEST(FabricCut, routing_reacts_when_asked) {
  for (FabricConfig c : {ls64(), ft128()}) {
    c.reroute_after_ns = 50'000;
    Rig rig(c);
    const auto last = static_cast<std::uint16_t>(rig.fabric.hosts() - 1);
    const bool tree = c.topology == Topology::kFatTree;
    const std::uint32_t cable = rig.link(tree ? "agg0->core0" : "leaf0->spine0");
    const auto lost_of_200 = [&] {
      const std::size_t before = rig.losses.size();
      for (std::uint32_t i = 0; i < 100; ++i) {
        rig.send(0, last, 100, i);
        rig.send(last, 0, 100, i);
      }
      rig.run(rig.queue.now() + 20 * kMicro);
      return rig.losses.size() - before;
    };
    EXPECT_TRUE(rig.fabric.apply(at(0, FaultKind::kDown, {Scope::kCable, 0, cable})));
    EXPECT_GT(lost_of_200(), 0U);
    rig.run(rig.queue.now() + 60 * kMicro);
    EXPECT_EQ(lost_of_200(), 0U);
    const auto sent = rig.fabric.counters(cable).packets;
    EXPECT_TRUE(rig.fabric.apply(at(0, FaultKind::kUp, {Scope::kCable, 0, cable})));
    EXPECT_EQ(lost_of_200(), 0U);
    EXPECT_EQ(rig.fabric.counters(cable).packets, sent);
    rig.run(rig.queue.now() + 60 * kMicro);
    EXPECT_EQ(lost_of_200(), 0U);
    EXPECT_GT(rig.fabric.counters(cable).packets, sent);
  }
}

TEST(FabricCut, no_route_is_a_name) {
  FabricConfig c = plain(2);
  c.reroute_after_ns = 1;
  c.faults = {at(0, FaultKind::kDown, {Scope::kLink, 0, 3})};  // switch0->host1
  Rig rig(c);
  rig.run();
  rig.send(0, 1, 100);
  rig.run();
  EXPECT_EQ(rig.lost_as(Loss::kNoRoute), 1U);
}

TEST(FabricCut, degraded_rate_and_longer_way) {
  FabricConfig c = plain(2);
  c.faults = {at(0, FaultKind::kRate, {Scope::kLink, 0, 0}, 100'000)};
  Rig rig(c);
  EXPECT_EQ(rig.fabric.link_name(0), "host0->switch0");
  rig.send(0, 1, 4160);
  rig.run();
  EXPECT_EQ(rig.queue.now(), 5 * kSer + 2 * kMicro);
  rig.fabric.apply(at(0, FaultKind::kRate, {Scope::kAll}, 0));
  Fault far = at(0, FaultKind::kPropagation, {Scope::kHost, 0, 1});
  far.delay_ns = 4'000'000;
  rig.fabric.apply(far);
  const Picos then = rig.queue.now();
  rig.send(0, 1, 4160);
  rig.run();
  EXPECT_EQ(rig.queue.now() - then, 2 * kSer + 4002 * kMicro);
}

TEST(FabricCut, stalled_receiver_holds_its_last_link) {
  FabricConfig c = plain(2);
  c.queue_bytes = 5 * 4160;
  Fault end = at(100'000, FaultKind::kStall, {Scope::kHost, 0, 1});
  end.probability = 0;
  c.faults = {at(0, FaultKind::kStall, {Scope::kHost, 0, 1}), end};
  Rig rig(c);
  for (int i = 0; i < 8; ++i) rig.send(0, 1, 4160);
  rig.run(99 * kMicro);
  EXPECT_TRUE(rig.delivered.empty());
  EXPECT_EQ(rig.lost_as(Loss::kQueueFull), 3U);
  EXPECT_EQ(rig.fabric.queue_bytes(rig.link("switch0->host1")), 5U * 4160);
  rig.run();
  EXPECT_EQ(rig.delivered.size(), 5U);
  EXPECT_EQ(rig.queue.now(), 101 * kMicro + 5 * kSer);
}

}  // namespace
}  // namespace metaroce::fabric
