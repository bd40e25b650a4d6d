// Cuts and returns, degraded rates, stalls, routing that reacts, PFC, shared buffers.
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

// --- Shared buffers

TEST(SharedBuffer, dynamic_threshold) {
  FabricConfig c = plain(42);
  c.shared_buffer = true;
  c.buffer_bytes = 20 * 4000;
  c.alpha_256 = 256;  // a lone queue may take half
  Rig rig(c);
  for (std::uint16_t h = 0; h < 40; ++h) rig.send(h, 40, 4000);
  rig.run();
  EXPECT_EQ(rig.delivered.size(), 11U);  // one never waited
  // Two queues share: a third each, as alpha x what is free.
  for (std::uint16_t h = 0; h < 40; ++h) rig.send(h, h % 2 == 0 ? 40 : 41, 4000);
  rig.run();
  EXPECT_EQ(rig.fabric.counters(rig.link("switch0->host40")).max_queue_bytes, 10U * 4000);
  EXPECT_NEAR(rig.fabric.counters(rig.link("switch0->host41")).max_queue_bytes, 20 * 4000 / 3,
              4000);
  EXPECT_TRUE(rig.conserved());
}

// --- PFC

// Everybody's owner keeps its NIC full for a while.
struct Flood {
  Rig& rig;
  std::uint64_t per_host;
  std::uint16_t to;
  std::vector<std::uint64_t> left;
  Flood(Rig& r, std::uint64_t n, std::uint16_t dst)
      : rig(r), per_host(n), to(dst), left(r.fabric.hosts(), n) {
    rig.on_ready = [this](std::uint16_t host, std::uint8_t) { fill(host); };
    for (std::uint16_t h = 0; h < rig.fabric.hosts(); ++h) {
      if (h != to) fill(h);
    }
  }
  void fill(std::uint16_t host) {
    while (left[host] > 0 && rig.fabric.nic_room(host, 0)) {
      --left[host];
      rig.send(host, to, 4160, static_cast<std::uint32_t>(left[host]));
    }
    if (left[host] > 0) rig.fabric.want_room(host, 0);
  }
};

TEST(Pfc, incast_pauses_and_loses_nothing) {
  for (const bool pfc : {true, false}) {
    FabricConfig c = ls64();
    c.pfc = pfc;
    c.ecn = EcnMode::kOff;
    Rig rig(c);
    Flood flood(rig, 100, 0);
    rig.run();
    EXPECT_EQ(rig.losses.empty(), pfc);
    EXPECT_EQ(rig.fabric.totals().pauses > 0, pfc);
    EXPECT_TRUE(rig.conserved());
    if (!pfc) continue;
    EXPECT_EQ(rig.delivered.size(), 63U * 100);
    // The receiver's link never idles while there is something to send.
    const LinkCounters last = rig.fabric.counters(rig.link("leaf0->host0"));
    EXPECT_EQ(last.busy, 6300 * kSer);
    EXPECT_LT(rig.queue.now(), 6300 * kSer + 30 * kMicro);
    // What one ingress holds is bounded by xoff and what arrives until the pause takes effect.
    EXPECT_LT(last.max_queue_bytes, 16U * (200'000 + 2 * 4160 + 2 * 1'000'000 / 20));
    for (std::uint32_t l = 0; l < rig.fabric.links(); ++l) EXPECT_EQ(rig.fabric.queue_bytes(l), 0U);
  }
}

TEST(Pfc, stalled_receiver_stops_its_senders_and_nobody_loses) {
  FabricConfig c = plain(4);
  c.pfc = true;
  Fault end = at(500'000, FaultKind::kStall, {Scope::kHost, 0, 3});
  end.probability = 0;
  c.faults = {at(0, FaultKind::kStall, {Scope::kHost, 0, 3}), end};
  Rig rig(c);
  Flood flood(rig, 500, 3);
  rig.run(400 * kMicro);
  EXPECT_TRUE(rig.delivered.empty());
  EXPECT_FALSE(rig.fabric.nic_room(0, 0));
  rig.run();
  EXPECT_EQ(rig.delivered.size(), 1500U);
  EXPECT_TRUE(rig.losses.empty());
}

TEST(Pfc, control_passes_a_paused_port) {
  FabricConfig c = plain(3);
  c.pfc = true;
  c.pfc_xoff_bytes = c.pfc_xon_bytes = 10'000;
  c.faults = {at(0, FaultKind::kStall, {Scope::kHost, 0, 2})};
  Rig rig(c);
  for (int i = 0; i < 50; ++i) rig.send(0, 2, 4160);
  rig.run(50 * kMicro);
  rig.send(0, 1, 4160);
  rig.send(0, 1, 100, 0, true);
  rig.run(100 * kMicro);
  ASSERT_EQ(rig.delivered.size(), 1U);  // data to a third host is the victim
  EXPECT_TRUE(rig.delivered[0].packet.control);
  EXPECT_EQ(rig.delivered[0].at, 52 * kMicro + 2 * 2000);
}

// --- Everything at once

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
    const PlaneShape shape = make_shape(c);
    for (int i = 0; i < 30; ++i) {
      Fault f;
      f.at_ns = rng.below(200'000);
      f.kind = static_cast<FaultKind>(rng.below(13));
      f.target.scope = static_cast<Scope>(rng.below(7));
      f.target.plane = rng.below(2) == 0 ? kAllPlanes : static_cast<std::uint8_t>(rng.below(3));
      f.target.id = rng.below(rng.below(2) == 0 ? 8 : c.planes * std::uint32_t(shape.links.size()));
      f.target.src = static_cast<std::uint16_t>(rng.below(6));
      f.target.dst = static_cast<std::uint16_t>(rng.below(6));
      f.traffic = static_cast<Traffic>(rng.below(3));
      f.probability = rng.below(3) * 200'000'000;
      f.burst.to_bad = f.burst.to_good = 100'000'000;
      f.delay_ns = rng.below(3000);
      f.keep_order = rng.below(2) == 0;
      f.rate_mbps = rng.below(2) * 100'000;
      c.faults.push_back(f);
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
