// What waits, what is marked, what is dropped.
#include <gtest/gtest.h>

#include <cmath>

#include "rig.h"

namespace metaroce::fabric {
namespace {

// Hosts 0..n-1 each send one packet at the same time to host n: n - 1 wait at the switch.
void volley(Rig& rig, std::uint16_t senders, std::uint32_t bytes = 4160) {
  for (std::uint16_t h = 0; h < senders; ++h) rig.send(h, senders, bytes);
}

TEST(FabricQueue, drops_what_does_not_fit) {
  FabricConfig c = plain(11);
  c.queue_bytes = 6 * 4160;
  Rig rig(c);
  volley(rig, 10);
  rig.run();
  EXPECT_EQ(rig.delivered.size(), 7U);  // one in transmission, six wait
  EXPECT_EQ(rig.lost_as(Loss::kQueueFull), 3U);
  const LinkCounters last = rig.fabric.counters(rig.link("switch0->host10"));
  EXPECT_EQ(last.max_queue_bytes, 6U * 4160);
  EXPECT_EQ(last.packets, 7U);
  EXPECT_EQ(last.bytes, 7U * 4160);
  EXPECT_EQ(last.busy, 7 * 4160 * 20);
  EXPECT_EQ(last.drops[static_cast<std::size_t>(Loss::kQueueFull)], 3U);
  EXPECT_TRUE(rig.conserved());
}

TEST(FabricQueue, control_has_its_own_limit) {
  FabricConfig c = plain(11);
  c.queue_bytes = 4160;
  c.control_queue_bytes = 400;
  Rig rig(c);
  volley(rig, 10);
  for (std::uint16_t h = 0; h < 10; ++h) rig.send(h, 10, 100, 0, true);
  rig.run();
  EXPECT_EQ(rig.lost_as(Loss::kQueueFull), 8U);
  EXPECT_EQ(rig.lost_as(Loss::kControlFull), 6U);
  EXPECT_TRUE(rig.conserved());
}

TEST(FabricQueue, nic_is_bounded_whatever_the_owner_does) {
  FabricConfig c = plain(2);
  c.nic_hard_packets = 20;
  Rig rig(c);
  for (int i = 0; i < 30; ++i) rig.send(0, 1, 4160);
  EXPECT_EQ(rig.lost_as(Loss::kNicFull), 9U);
  for (int i = 0; i < 30; ++i) rig.send(0, 1, 100, 0, true);
  EXPECT_EQ(rig.lost_as(Loss::kNicFull), 19U);
  rig.run();
  EXPECT_TRUE(rig.conserved());
}

TEST(FabricQueue, invalid_packets_are_lost_by_name) {
  Rig rig(plain(2));
  rig.send(2, 1, 100);
  rig.send(0, 2, 100);
  rig.send(0, 1, 0);
  rig.send(0, 1, 1U << 20);
  rig.send(0, 1, 100, 0, false, 1);
  EXPECT_EQ(rig.lost_as(Loss::kInvalid), 5U);
  EXPECT_TRUE(rig.conserved());
}

// The packet that leaves sees itself and those behind it: of 10 at once, 9 wait.
TEST(FabricQueue, ecn_threshold_marks_at_dequeue) {
  FabricConfig c = plain(11);
  c.ecn = EcnMode::kThreshold;
  c.ecn_min_bytes = 4 * 4160;
  Rig rig(c);
  volley(rig, 10);
  rig.run();
  ASSERT_EQ(rig.delivered.size(), 10U);
  EXPECT_FALSE(rig.delivered[0].packet.ce);  // found the port idle
  for (std::size_t i = 1; i < 10; ++i) EXPECT_EQ(rig.delivered[i].packet.ce, i <= 6) << i;
  EXPECT_EQ(rig.fabric.counters(rig.link("switch0->host10")).ce_marks, 6U);
}

TEST(FabricQueue, only_ect_is_marked_and_control_never) {
  FabricConfig c = plain(5);
  c.ecn = EcnMode::kThreshold;
  c.ecn_min_bytes = 1;
  Rig rig(c);
  for (std::uint16_t h = 0; h < 4; ++h) {
    Packet p;
    p.user = ++rig.sent;
    p.bytes = 1000;
    p.src = h;
    p.dst = 4;
    p.ect = h != 1;
    p.control = h == 2;
    rig.fabric.send(p);
  }
  rig.run();
  for (const Rig::Out& o : rig.delivered)
    EXPECT_EQ(o.packet.ce, o.packet.src == 0 || o.packet.src == 3) << o.packet.src;
}

// A standing queue of known length is marked with the probability on the line.
TEST(FabricQueue, ecn_linear_probability) {
  for (const std::uint32_t percent : {0U, 25U, 50U, 75U, 100U}) {
    FabricConfig c = plain(3);
    c.ecn = EcnMode::kLinear;
    c.queue_bytes = 100'000;
    c.ecn_min_bytes = 20'000;
    c.ecn_max_bytes = 60'000;
    const std::uint32_t length = 20'000 + 400 * percent;  // when the first of two leaves
    Rig rig(c, 7 + percent);
    Fault stall;
    stall.kind = FaultKind::kStall;
    stall.target = {Scope::kHost, 0, 1};
    const int rounds = 2000;
    int marked = 0;
    rig.on_deliver = [&](const Packet& p) { marked += p.bytes == 1000 && p.ce ? 1 : 0; };
    for (int i = 0; i < rounds; ++i) {
      stall.probability = kCertain;
      rig.fabric.apply(stall);
      rig.send(0, 1, 1000);
      rig.send(0, 1, length - 1000);
      rig.run();
      stall.probability = 0;
      rig.fabric.apply(stall);
      rig.run();
    }
    ASSERT_EQ(rig.delivered.size(), 2U * rounds);
    const double p = percent / 100.0;
    EXPECT_NEAR(marked, rounds * p, 4 * std::sqrt(rounds * p * (1 - p)) + 0.1) << percent;
  }
}

TEST(FabricQueue, same_seed_same_trace) {
  const auto trace = [](std::uint64_t seed) {
    FabricConfig c = ls64();
    Fault loss;
    loss.probability = 10'000'000;
    c.faults.push_back(loss);
    Rig rig(c, seed);
    Rng rng(3);
    for (int round = 0; round < 20; ++round) {
      for (std::uint16_t h = 0; h < 64; ++h) {
        for (int i = 0; i < 8; ++i)
          rig.send(h, static_cast<std::uint16_t>(rng.below(8)), 4160, rng.below(1U << 30));
      }
      rig.run(rig.queue.now() + kMicro / 2);
    }
    rig.run();
    EXPECT_TRUE(rig.conserved());
    EXPECT_EQ(rig.fabric.packets_inside(), 0U);
    EXPECT_GT(rig.lost_as(Loss::kQueueFull), 0U);
    return rig.trace;
  };
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
}

}  // namespace
}  // namespace metaroce::fabric
