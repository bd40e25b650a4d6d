// Planes that die and return as a whole; ports that go down; all of it at random.
#include "support/pair.h"
#include "support/workload.h"

namespace metaroce::test {
namespace {

constexpr Nanos kRtt = 8 * kMicrosecond;

// As in the simulator: 4 planes, 8 us, floor of the probe timeout 10 us.
WorldOptions fabric(std::uint32_t planes = 4, std::uint32_t paths_per_plane = 4) {
  WorldOptions o;
  o.planes = planes;
  o.paths = planes * paths_per_plane;
  o.delay = kRtt / 2 - 200;
  o.config.probe_timeout_floor = 10 * kMicrosecond;
  o.config.max_window = 128 * 1024;  // about the product of bandwidth and delay
  return o;
}

// Keeps the sender busy with Writes of 16 KiB; remembers the longest time without a completion.
struct Busy {
  explicit Busy(Pair& pair) : p(pair) {}
  void run(Nanos t) {
    const Nanos end = p.now + t;
    while (p.now < end && !::testing::Test::HasFatalFailure()) {
      while (posted < p.a.sent_completions.size() + 60) {
        p.write(posted, 16384, posted % 64 * 16384);
        ++posted;
      }
      const std::size_t before = p.a.sent_completions.size();
      p.step(500);
      if (p.a.sent_completions.size() != before) {
        longest = std::max(longest, p.now - last);
        last = p.now;
      }
    }
  }
  void forget() {
    longest = 0;
    last = p.now;
  }
  Pair& p;
  std::uint64_t posted = 0;
  Nanos last = 0, longest = 0;
};

Command port_state(std::uint8_t plane, std::uint8_t bits) {
  Command k;
  k.kind = CommandKind::kPortState;
  k.id = 1;
  k.path = plane;
  k.status = bits;
  return k;
}

// [MR-9.5.1] [MR-9.5.2] One of four planes dies, in both directions or in one, and returns.
// In-order completions of one stream stand still for the whole outage: it must be under 5 RTT.
TEST(Planes, dies_and_returns) {
  for (const int direction : {0, 1, 2}) {
    SCOPED_TRACE(direction);
    Pair p(fabric());
    Busy busy(p);
    busy.run(300 * kMicrosecond);
    const PlaneHealth& plane = p.conn().planes[2];
    const Bytes window = p.conn().cc.window;
    bool dead = true;
    std::uint64_t on_dead = 0;
    p.ab.drop_if = [&](const Frame& f) {
      if (f.plane != 2) return false;
      on_dead += Pair::is(f, wire::Type::kData) ? 1 : 0;
      return dead && direction != 1;
    };
    p.ba.drop_if = [&](const Frame& f) { return dead && direction != 0 && f.plane == 2; };
    const Nanos from = p.now;
    busy.forget();
    ASSERT_TRUE(p.run_until(
        [&] {
          busy.run(500);
          return !plane.up();
        },
        10 * kRtt));
    EXPECT_LT(p.now - from, 4 * kRtt);
    EXPECT_EQ(plane.unresolved, 0U) << "all of it at once";
    busy.run(100 * kMicrosecond);
    on_dead = 0;
    busy.run(kMillisecond);
    EXPECT_LT(busy.longest, 5 * kRtt);
    EXPECT_EQ(on_dead, 0U);
    EXPECT_EQ(p.a.tx.counters().planes_lost, 1U);
    EXPECT_EQ(p.a.tx.counters().paths_failed, 0U);
    dead = false;
    const Nanos back = p.now;
    ASSERT_TRUE(p.run_until(
        [&] {
          busy.run(500);
          return plane.up();
        },
        10 * kMillisecond));
    EXPECT_LT(p.now - back, 5 * kMillisecond);
    busy.run(std::min(back + 10 * kMillisecond, p.now + kMillisecond) - p.now);
    on_dead = 0;
    const std::uint64_t all = p.conn().packets;
    busy.run(kMillisecond);
    // The others have grown into its share of the greatest window, which is small here.
    EXPECT_GT(on_dead * 7, p.conn().packets - all) << "a quarter of the load, nearly";
    EXPECT_GE(p.conn().cc.window * 2, window);
    EXPECT_EQ(p.a.tx.counters().planes_lost, 1U);
    for (const auto& c : p.a.sent_completions) ASSERT_EQ(c.status, 0);
  }
}

// Messages one at a time: no other plane has a pulse, so the timer finds it. No data is lost.
TEST(Planes, dies__between_single_messages) {
  Pair p(fabric());
  p.write(1, 16384);
  ASSERT_TRUE(p.finish(1));
  p.ab.drop_if = [&](const Frame& f) { return f.plane == 1; };
  for (std::uint64_t i = 2; i < 40; ++i) {
    p.write(i, 16384, i * 16384);
    ASSERT_TRUE(p.finish(i, kMillisecond)) << i;
  }
  EXPECT_EQ(p.a.tx.counters().planes_lost, 1U);
}

// [MR-9.4.5] Uniform loss is nobody's failure.
TEST(Planes, uniform_loss__loses_none) {
  for (const std::uint32_t ppm : {1000U, 10000U, 50000U}) {
    WorldOptions o = fabric();
    o.seed = ppm;
    Pair p(o);
    p.ab.faults.loss_ppm = p.ba.faults.loss_ppm = ppm;
    Busy busy(p);
    busy.run(2 * kMillisecond);
    EXPECT_EQ(p.a.tx.counters().planes_lost, 0U) << ppm;
    EXPECT_EQ(p.a.tx.counters().paths_failed, 0U) << ppm;
  }
}

// Neither side runs for a while, then reads everything at once: no plane looks silent.
TEST(Planes, pauses__lose_none) {
  for (const bool sender : {true, false}) {
    Pair p(fabric());
    Busy busy(p);
    busy.run(kMillisecond);
    for (unsigned i = 0; i < 20; ++i) {
      const Nanos end = p.now + 100 * kMicrosecond;  // less than the probe timeouts of paths
      for (; p.now < end; p.now += kMicrosecond) {
        if (sender)
          p.b.pass(p.now, p.ab, p.a.ip);
        else
          p.a.pass(p.now, p.ba, p.b.ip);
        if (!sender) break;
      }
      p.now = std::max(p.now, end);
      busy.run(100 * kMicrosecond);
    }
    EXPECT_EQ(p.a.tx.counters().planes_lost, 0U) << sender;
    EXPECT_EQ(p.a.tx.counters().paths_failed, 0U) << sender;
  }
}

// [MR-9.5.3] [MR-9.5.4] A local port goes down: the plane is left at once, is not probed, and is
// asked when the port is up.
TEST(Planes, port_down__drops_the_plane_at_once) {
  for (const std::uint8_t who : {std::uint8_t{0}, kPortOfPeer}) {
    Pair p(fabric());
    Busy busy(p);
    busy.run(100 * kMicrosecond);
    ASSERT_TRUE(p.a.to_tx(port_state(3, who)).ok);
    EXPECT_EQ(p.conn().planes[3].unresolved, 0U);
    std::uint64_t sent = 0;
    p.ab.drop_if = [&](const Frame& f) {
      sent += f.plane == 3 ? 1 : 0;
      return f.plane == 3;
    };
    busy.run(2 * kMillisecond);
    EXPECT_EQ(sent, 0U);
    p.ab.drop_if = nullptr;
    ASSERT_TRUE(p.a.to_tx(port_state(3, who | kPortUp)).ok);
    busy.run(50 * kMicrosecond);
    EXPECT_TRUE(p.conn().planes[3].up());
    EXPECT_EQ(p.a.tx.counters().planes_returned, 1U);
  }
}

// The word of the peer that its port is up again was lost: it is found all the same.
TEST(Planes, port_of_the_peer__returns_without_a_word) {
  Pair p(fabric());
  ASSERT_TRUE(p.a.to_tx(port_state(0, kPortOfPeer)).ok);
  EXPECT_FALSE(p.conn().planes[0].up());
  p.run_for(150 * kMillisecond);
  EXPECT_TRUE(p.conn().planes[0].up());
}

// All planes down: the work waits, and goes on.
TEST(Planes, all_down__waits) {
  Pair p(fabric(2));
  p.write(1, 400000);
  p.run_for(10 * kMicrosecond);
  for (const std::uint8_t plane : {0, 1}) ASSERT_TRUE(p.a.to_tx(port_state(plane, 0)).ok);
  p.run_for(500 * kMillisecond);
  EXPECT_TRUE(p.a.sent_completions.empty());
  for (const std::uint8_t plane : {0, 1}) ASSERT_TRUE(p.a.to_tx(port_state(plane, kPortUp)).ok);
  ASSERT_TRUE(p.finish(1, 10 * kMillisecond));
  EXPECT_TRUE(p.same(0, 400000));
}

// [MR-9.2.3] A plane whose windows are closed more often carries less; it does not hold the others
// back.
TEST(Planes, uneven__balanced_by_windows) {
  Pair p(fabric(2));
  Rng rng(9);
  p.ab.drop_if = [&](const Frame& f) {
    return f.plane == 1 && Pair::is(f, wire::Type::kData) && rng.chance_ppm(400000);
  };
  Busy busy(p);
  busy.run(3 * kMillisecond);
  std::uint64_t packets[2] = {0, 0};
  for (unsigned i = 0; i < p.conn().rest.size(); ++i) packets[i % 2] += p.path(i).counters.packets;
  EXPECT_GT(packets[0], 4 * packets[1]);
  EXPECT_GT(packets[1], 100U) << "it is slow, not dead";
}

// Everything at random: planes that die and return in one direction or both, black routes, ports
// down and up, planned moves, loss, small pools. All work ends well, each byte is placed once.
TEST(Planes, random_failures) {
  const auto [first, last] = seed_range(25);
  for (std::uint64_t seed = first; seed < last; ++seed) {
    Rng rng(mix64(seed));
    WorldOptions o = fabric(1 + rng.below(4), 1 + rng.below(8));
    o.seed = seed;
    o.streams = 2;
    o.verified = rng.below(2) != 0;
    o.config.packets_per_path = rng.below(3) * 2;
    if (rng.below(4) == 0) o.config.initial_window = 8192;
    if (rng.below(4) == 0) o.limits = TxLimits{64, 8, 3};
    World w(o);
    w.check_invariants = true;
    w.ab.faults.loss_ppm = w.ba.faults.loss_ppm = rng.below(2) * rng.below(50000);
    bool dead[2][4] = {};
    std::set<std::uint16_t> black;
    w.ab.drop_if = [&](const Frame& f) { return dead[0][f.plane] || black.contains(f.src_port); };
    w.ba.drop_if = [&](const Frame& f) { return dead[1][f.plane]; };
    Workload load(w, 120);
    for (unsigned round = 0; round < 60 && !load.done(); ++round) {
      const auto plane = static_cast<std::uint8_t>(rng.below(o.planes));
      const auto path = static_cast<std::uint8_t>(rng.below(o.paths));
      switch (rng.below(6)) {
        case 0:
          dead[rng.below(2)][plane] = true;
          break;
        case 1:
          for (auto& d : dead) d[plane] = false;
          break;
        case 2:
          if (black.size() < 3) black.insert(w.a.tx.path(ConnIndex{1}, path).source_port);
          break;
        case 3:
          w.a.to_tx(port_state(plane, static_cast<std::uint8_t>(rng.below(4))));
          break;
        case 4: {
          Command k;
          k.kind = CommandKind::kChangePort;
          k.id = 1;
          k.path = path;
          w.a.to_tx(k);
          break;
        }
        default:
          black.clear();
      }
      const Nanos end = w.now + rng.below(2000) * kMicrosecond / 4;
      w.run_until(
          [&] {
            load.feed();
            return w.now >= end;
          },
          kSecond);
      if (::testing::Test::HasFatalFailure()) return;
    }
    for (auto& d : dead) std::fill(std::begin(d), std::end(d), false);
    black.clear();
    for (std::uint8_t plane = 0; plane < o.planes; ++plane) {
      w.a.to_tx(port_state(plane, kPortUp));
      w.a.to_tx(port_state(plane, kPortUp | kPortOfPeer));
    }
    ASSERT_TRUE(load.run(2 * kSecond)) << w.replay();
    load.check();
    w.run_for(300 * kMillisecond);
    ASSERT_TRUE(w.a.tx.quiet()) << w.replay();
    const auto* c = w.a.tx.conn(ConnIndex{1});
    for (unsigned i = 0; i < c->active_paths; ++i)
      ASSERT_TRUE(w.a.tx.path(ConnIndex{1}, i).health.carries())
          << "path " << i << ": " << w.replay();
  }
}

}  // namespace
}  // namespace metaroce::test
