// Shared buffers and priority flow control.
#include <gtest/gtest.h>

#include "rig.h"

namespace metaroce::fabric {
namespace {

constexpr Picos kSer = 4160 * 20;

Fault stall(Nanos when, std::uint32_t host, bool begin) {
  Fault f;
  f.at_ns = when;
  f.kind = FaultKind::kStall;
  f.target = {Scope::kHost, 0, host};
  f.probability = begin ? kCertain : 0;
  return f;
}

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
  c.faults = {stall(0, 3, true), stall(500'000, 3, false)};
  Rig rig(c);
  Flood flood(rig, 500, 3);
  rig.run(400 * kMicro);
  EXPECT_TRUE(rig.delivered.empty());
  EXPECT_FALSE(rig.fabric.nic_room(0, 0));
  rig.run();
  EXPECT_EQ(rig.delivered.size(), 1500U);
  EXPECT_TRUE(rig.losses.empty());
}

// One pause, and a gap in the traffic whose length tells at how many bytes it ended.
TEST(Pfc, sending_resumes_at_xon) {
  const auto end = [](std::uint32_t xon_packets) {
    FabricConfig c = plain(2);
    c.pfc = true;
    c.pfc_xoff_bytes = 10 * 4160;
    c.pfc_xon_bytes = xon_packets * 4160;
    c.faults = {stall(0, 1, true), stall(100'000, 1, false)};
    Rig rig(c);
    for (int i = 0; i < 50; ++i) rig.send(0, 1, 4160);
    rig.run();
    EXPECT_EQ(rig.fabric.totals().pauses, 1U);
    EXPECT_EQ(rig.delivered.size(), 50U);
    return rig.queue.now();
  };
  EXPECT_EQ(end(0) - end(5), 5 * kSer);
}

TEST(Pfc, control_passes_a_paused_port) {
  FabricConfig c = plain(3);
  c.pfc = true;
  c.pfc_xoff_bytes = c.pfc_xon_bytes = 10'000;
  c.faults = {stall(0, 2, true)};
  Rig rig(c);
  for (int i = 0; i < 50; ++i) rig.send(0, 2, 4160);
  rig.run(50 * kMicro);
  rig.send(0, 1, 4160);
  for (int i = 0; i < 3; ++i) rig.send(0, 1, 100, 0, true);
  rig.run(100 * kMicro);
  ASSERT_EQ(rig.delivered.size(), 3U);  // data to a third host is the victim
  for (const Rig::Out& o : rig.delivered) EXPECT_TRUE(o.packet.control);
  EXPECT_EQ(rig.delivered[2].at, 52 * kMicro + 4 * 2000);
}

}  // namespace
}  // namespace metaroce::fabric
