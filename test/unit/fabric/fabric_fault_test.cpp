// Random faults: how often, whom, and what the owner sees.
#include <gtest/gtest.h>

#include <cmath>

#include "rig.h"

namespace metaroce::fabric {
namespace {

Fault make(FaultKind kind, std::uint32_t probability, Target target = {}) {
  Fault f;
  f.kind = kind;
  f.probability = probability;
  f.target = target;
  return f;
}

// Five standard deviations of a binomial count.
void expect_share(std::size_t count, std::size_t n, double p) {
  const double mean = static_cast<double>(n) * p;
  EXPECT_NEAR(static_cast<double>(count), mean, 5 * std::sqrt(mean * (1 - p)) + 1e-9);
}

// `n` data and `n` control packets, one of each at a time.
void traffic(Rig& rig, std::size_t n, std::uint16_t src, std::uint16_t dst) {
  for (std::uint32_t i = 0; i < n; ++i) {
    rig.send(src, dst, 1000, i);
    rig.send(src, dst, 100, i, true);
    rig.run();
  }
}

TEST(FabricFault, loss_end_to_end_is_exact_however_long_the_route) {
  for (const Traffic whom : {Traffic::kData, Traffic::kControl, Traffic::kAll}) {
    Rig rig(ft128());
    Fault loss = make(FaultKind::kLoss, 50'000'000);  // 5 %
    loss.traffic = whom;
    EXPECT_TRUE(rig.fabric.apply(loss));
    traffic(rig, 20'000, 0, 127);
    std::size_t data = 0;
    for (const Rig::LostPacket& l : rig.losses) data += l.packet.control ? 0 : 1;
    expect_share(data, 20'000, whom == Traffic::kControl ? 0 : 0.05);
    expect_share(rig.losses.size() - data, 20'000, whom == Traffic::kData ? 0 : 0.05);
    EXPECT_EQ(rig.lost_as(Loss::kRandom), rig.losses.size());
    EXPECT_TRUE(rig.conserved());

    rig.losses.clear();
    loss.probability = 0;
    EXPECT_TRUE(rig.fabric.apply(loss));
    traffic(rig, 100, 0, 127);
    EXPECT_TRUE(rig.losses.empty());
  }
}

TEST(FabricFault, loss_on_one_route_only) {
  Rig rig(ls64());
  const std::uint32_t bad = rig.link("leaf0->spine3");
  EXPECT_TRUE(rig.fabric.apply(make(FaultKind::kLoss, kCertain, {Scope::kLink, 0, bad})));
  traffic(rig, 4000, 0, 63);
  const std::size_t there = rig.losses.size();
  expect_share(there, 4000, 1.0 / 8);
  EXPECT_EQ(rig.fabric.counters(bad).drops[static_cast<std::size_t>(Loss::kRandom)], there);
  rig.losses.clear();
  traffic(rig, 500, 63, 0);  // the other direction is sound
  traffic(rig, 500, 8, 63);
  EXPECT_TRUE(rig.losses.empty());
}

TEST(FabricFault, plane_scope) {
  FabricConfig c = plain(2);
  c.planes = 2;
  c.faults = {make(FaultKind::kLoss, kCertain, {Scope::kPlane, 1})};
  Rig rig(c);
  rig.send(0, 1, 1000, 0, false, 0);
  rig.send(0, 1, 1000, 0, false, 1);
  rig.run();
  ASSERT_EQ(rig.losses.size(), 1U);
  EXPECT_EQ(rig.losses[0].packet.plane, 1);
}

// Mean loss and mean length of a burst as the two-state model has them.
TEST(FabricFault, gilbert_elliott) {
  for (const bool on_link : {false, true}) {
    Rig rig(plain(2));
    Fault f = make(FaultKind::kBurstLoss, 0);
    if (on_link) f.target = {Scope::kLink, 0, rig.link("switch0->host1")};
    f.burst.to_bad = 10'000'000;    // 1 %
    f.burst.to_good = 250'000'000;  // bursts of 4
    EXPECT_TRUE(rig.fabric.apply(f));
    const std::uint64_t n = 60'000;
    for (std::uint64_t i = 0; i < n; ++i) {
      rig.send(0, 1, 100);
      rig.run();
    }
    std::uint64_t bursts = 0, last = 0;
    for (const Rig::LostPacket& l : rig.losses) {
      bursts += l.packet.user == last + 1 ? 0 : 1;
      last = l.packet.user;
    }
    EXPECT_EQ(rig.lost_as(Loss::kBurst), rig.losses.size());
    EXPECT_NEAR(static_cast<double>(rig.losses.size()) / n, 0.01 / 0.26, 0.006);
    EXPECT_NEAR(static_cast<double>(rig.losses.size()) / static_cast<double>(bursts), 4, 0.5);
  }
}

TEST(FabricFault, corruption_is_told_or_dropped) {
  for (const bool fcs : {false, true}) {
    FabricConfig c = plain(2);
    c.fcs_check = fcs;
    c.faults = {make(FaultKind::kCorrupt, 100'000'000)};
    Rig rig(c);
    traffic(rig, 5000, 0, 1);
    std::size_t corrupt = 0;
    for (const Rig::Out& o : rig.delivered) corrupt += o.packet.corrupt ? 1 : 0;
    expect_share(fcs ? rig.lost_as(Loss::kCorrupt) : corrupt, 5000, 0.1);
    EXPECT_EQ(fcs ? corrupt : rig.losses.size(), 0U);
    EXPECT_EQ(rig.fabric.totals().corrupted, fcs ? rig.losses.size() : corrupt);
  }
}

TEST(FabricFault, corrupt_on_a_link_dies_at_the_next_node) {
  FabricConfig c = ls64();
  c.fcs_check = true;
  Rig rig(c);
  const std::uint32_t first = rig.link("host0->leaf0");
  rig.fabric.apply(make(FaultKind::kCorrupt, kCertain, {Scope::kLink, 0, first}));
  rig.send(0, 63, 1000);
  rig.run();
  ASSERT_EQ(rig.lost_as(Loss::kCorrupt), 1U);
  EXPECT_EQ(rig.losses[0].at, 20'000 + kMicro);
}

TEST(FabricFault, duplicates) {
  for (const bool on_link : {false, true}) {
    Rig rig(plain(2));
    Fault f = make(FaultKind::kDuplicate, 200'000'000);
    f.delay_ns = 500;
    if (on_link) f.target = {Scope::kLink, 0, rig.link("host0->switch0")};
    EXPECT_TRUE(rig.fabric.apply(f));
    traffic(rig, 3000, 0, 1);
    expect_share(rig.fabric.totals().duplicated, 3000, 0.2);
    EXPECT_EQ(rig.delivered.size(), 6000 + rig.fabric.totals().duplicated);
    for (std::size_t i = 1; i < rig.delivered.size(); ++i) {
      if (rig.delivered[i].packet.user != rig.delivered[i - 1].packet.user) continue;
      EXPECT_EQ(rig.delivered[i].at - rig.delivered[i - 1].at, 500'000);
    }
    EXPECT_TRUE(rig.conserved());
  }
}

// A sink with duplicate() owns what the copy refers to.
struct Owner {
  void deliver(Picos, std::uint16_t, const Packet& p) { seen.push_back(p.user); }
  void lost(Picos, const Packet&, Loss) {}
  void nic_ready(Picos, std::uint16_t, std::uint8_t) {}
  std::uint64_t duplicate(const Packet& p) { return p.user + 1000; }
  std::vector<std::uint64_t> seen;
};
TEST(FabricFault, duplicate_asks_for_a_reference_of_its_own) {
  FabricConfig c = plain(2);
  c.faults = {make(FaultKind::kDuplicate, kCertain)};
  EventQueue queue;
  Owner owner;
  Fabric<Owner> fabric(c, 1, queue, owner);
  Packet p;
  p.user = 7;
  p.bytes = 100;
  p.dst = 1;
  fabric.send(p);
  Event e{};
  while (queue.pop(e, kNever - 1)) fabric.handle(e);
  EXPECT_EQ(owner.seen, (std::vector<std::uint64_t>{7, 1007}));
}

std::size_t out_of_order(const Rig& rig) {
  std::size_t n = 0;
  for (std::size_t i = 1; i < rig.delivered.size(); ++i)
    n += rig.delivered[i].packet.user < rig.delivered[i - 1].packet.user ? 1 : 0;
  return n;
}

TEST(FabricFault, reordering_and_jitter) {
  for (const bool on_link : {false, true}) {
    const auto run = [&](Fault f) {
      Rig rig(plain(2));
      if (on_link) f.target = {Scope::kLink, 0, rig.link("host0->switch0")};
      EXPECT_TRUE(rig.fabric.apply(f));
      for (int i = 0; i < 2000; ++i) rig.send(0, 1, 1000);
      rig.run();
      EXPECT_EQ(rig.delivered.size(), 2000U);
      EXPECT_GT(rig.fabric.totals().delayed, 0U);
      // Nothing is later than the undisturbed end of the train and the longest delay.
      EXPECT_LE(rig.queue.now(), 2001 * 20'000 + 2 * kMicro + 300'000 + (on_link ? kMicro : 0));
      return out_of_order(rig);
    };
    Fault reorder = make(FaultKind::kReorder, 10'000'000);
    reorder.delay_ns = 300;
    EXPECT_GT(run(reorder), 5U);
    Fault jitter = make(FaultKind::kJitter, 0);
    jitter.delay_ns = 300;
    EXPECT_GT(run(jitter), 500U);
    jitter.keep_order = true;
    EXPECT_EQ(run(jitter), 0U);
  }
}

TEST(FabricFault, blackhole_in_one_direction) {
  FabricConfig c = plain(3);
  c.planes = 2;
  c.faults = {make(FaultKind::kBlackhole, kCertain, {Scope::kPair, 1, 0, 0, 1})};
  Rig rig(c);
  for (std::uint8_t plane = 0; plane < 2; ++plane) {
    rig.send(0, 1, 100, 0, false, plane);
    rig.send(1, 0, 100, 0, false, plane);
    rig.send(0, 2, 100, 0, true, plane);
  }
  rig.run();
  EXPECT_EQ(rig.delivered.size(), 5U);
  ASSERT_EQ(rig.lost_as(Loss::kBlackhole), 1U);
  EXPECT_EQ(rig.losses[0].packet.plane, 1);
  EXPECT_TRUE(rig.fabric.apply(make(FaultKind::kBlackhole, 0, {Scope::kPair, 1, 0, 0, 1})));
  rig.send(0, 1, 100, 0, false, 1);
  rig.run();
  EXPECT_EQ(rig.delivered.size(), 6U);
}

TEST(FabricFault, targets_that_do_not_exist_are_refused) {
  Rig rig(plain(2));
  for (const FaultKind kind : {FaultKind::kLoss, FaultKind::kDown, FaultKind::kRate}) {
    EXPECT_FALSE(rig.fabric.apply(make(kind, 1, {Scope::kLink, 0, 4})));
    EXPECT_FALSE(rig.fabric.apply(make(kind, 1, {Scope::kCable, 0, 4})));
    EXPECT_FALSE(rig.fabric.apply(make(kind, 1, {Scope::kSwitch, 0, 1})));
    EXPECT_FALSE(rig.fabric.apply(make(kind, 1, {Scope::kHost, 0, 2})));
    EXPECT_FALSE(rig.fabric.apply(make(kind, 1, {Scope::kPlane, 1})));
    EXPECT_FALSE(rig.fabric.apply(make(kind, 1, {Scope::kPair, 0, 0, 0, 1})));
  }
  EXPECT_FALSE(rig.fabric.apply(make(FaultKind::kBlackhole, 1)));
  EXPECT_FALSE(rig.fabric.apply(make(FaultKind::kBlackhole, 1, {Scope::kPair, 0, 0, 0, 2})));
  EXPECT_FALSE(rig.fabric.apply(make(FaultKind::kRehash, 1, {Scope::kHost, 0, 0})));
}

}  // namespace
}  // namespace metaroce::fabric
