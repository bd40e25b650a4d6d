// Paths that fail, return, are proven, and stay out of each other's way: through both roles.
#include <map>
#include <set>

#include "support/pair.h"
#include "support/workload.h"

namespace metaroce::test {
namespace {

WorldOptions options(std::uint32_t paths = 4) {
  WorldOptions o;
  o.paths = paths;
  return o;
}
const wire::Probe& probe(const Frame& f) {
  return *reinterpret_cast<const wire::Probe*>(f.bytes.data());
}
bool full_size(const Frame& f) {
  return probe(f).kind == static_cast<std::uint8_t>(wire::ProbeKind::kFullSize);
}
// Writes of 50,000 bytes, one after the other, as long as `t` lasts.
void keep_writing(Pair& p, Nanos t) {
  static std::uint64_t id = 1000;
  const Nanos end = p.now + t;
  while (p.now < end && !::testing::Test::HasFatalFailure()) {
    const std::size_t done = p.a.sent_completions.size();
    for (unsigned k = 0; k < 4; ++k, ++id) p.write(id, 50000, id % 16 * 65536);
    ASSERT_TRUE(p.finish(done + 4, kSecond));
  }
}

// [MR-9.4.3] [MR-9.4.4] [MR-9.3.2] [MR-9.3.5] [MR-9.3.7] The route of one path is black: everything
// on it moves, the path is probed on other ports, one epoch further, and is back.
TEST(Paths, black_route__fails_and_returns_on_another_port) {
  Pair p(options());
  keep_writing(p, 300 * kMicrosecond);
  const auto path = [&] { return p.path(2); };
  const std::uint16_t bad = path().source_port;
  const std::uint8_t epoch = path().epoch;
  std::set<std::uint16_t> ports;
  std::set<std::uint8_t> epochs;
  unsigned left = 3;  // routes that are black, too
  p.ab.drop_if = [&](const Frame& f) {
    if (f.bytes[2] == 2 && f.src_port != bad && Pair::is(f, wire::Type::kProbe)) {
      epochs.insert(f.bytes[3]);
      if (ports.insert(f.src_port).second && left != 0) --left;
      return ports.size() <= 3;
    }
    return f.src_port == bad;
  };
  ASSERT_TRUE(p.run_until(
      [&] {
        keep_writing(p, 20 * kMicrosecond);
        return path().health.asks();
      },
      20 * kMillisecond));
  EXPECT_EQ(path().data_unresolved, 0U);
  EXPECT_EQ(path().health.fault, PathFault::kSilent);
  EXPECT_EQ(path().cc.window, static_cast<Bytes>(p.config.payload_mtu));
  const std::uint64_t sent = path().counters.packets;
  ASSERT_TRUE(p.run_until(
      [&] {
        if (!path().health.carries()) {
          EXPECT_EQ(path().counters.packets, sent);
        }
        return path().health.carries();
      },
      100 * kMillisecond));
  EXPECT_EQ(path().cc.window, static_cast<Bytes>(p.config.payload_mtu)) << "it returns with one";
  EXPECT_EQ(path().epoch, static_cast<std::uint8_t>(epoch + 1));
  EXPECT_EQ(epochs, (std::set<std::uint8_t>{path().epoch}));
  EXPECT_EQ(ports.size(), 4U);
  EXPECT_TRUE(ports.contains(path().source_port));
  EXPECT_EQ(p.a.tx.counters().paths_failed, 1U);
  EXPECT_EQ(p.a.tx.counters().paths_returned, 1U);
  keep_writing(p, kMillisecond);
  EXPECT_GT(path().counters.packets, sent + 50);
  EXPECT_GT(path().cc.window, 4 * static_cast<Bytes>(p.config.payload_mtu)) << "doubling per RTT";
  EXPECT_EQ(p.a.tx.counters().drops[DropReason::kAckStale], 0U);
}

// [MR-9.4.7] [MR-9.3.1] Every second packet of one path is lost, while others lose nothing: it goes
// to another port, and carries again without a probe.
TEST(Paths, lossy_route__is_left) {
  Pair p(options());
  keep_writing(p, 300 * kMicrosecond);
  const std::uint16_t bad = p.path(2).source_port;
  const std::uint8_t epoch = p.path(2).epoch;
  std::uint64_t on_bad = 0;
  p.ab.drop_if = [&](const Frame& f) {
    return Pair::is(f, wire::Type::kData) && f.src_port == bad && ++on_bad % 2 == 0;
  };
  keep_writing(p, 2 * kMillisecond);
  EXPECT_NE(p.path(2).source_port, bad);
  EXPECT_EQ(p.path(2).epoch, static_cast<std::uint8_t>(epoch + 1));
  EXPECT_LT(on_bad, 60U);
  EXPECT_EQ(p.a.tx.counters().routes_left, 1U);
  EXPECT_EQ(p.a.tx.counters().paths_failed, 0U);
  const std::uint64_t sent = p.path(2).counters.packets;
  keep_writing(p, 300 * kMicrosecond);
  EXPECT_GT(p.path(2).counters.packets, sent + 50);
}

// [MR-9.4.5] Loss that all paths have is no reason to leave any.
TEST(Paths, uniform_loss__leaves_no_route) {
  for (const std::uint32_t ppm : {10'000U, 50'000U, 100'000U}) {
    Pair p(options());
    p.ab.faults.loss_ppm = ppm;
    keep_writing(p, 5 * kMillisecond);
    EXPECT_EQ(p.a.tx.counters().routes_left, 0U) << ppm;
  }
}

// One direction only: the data arrives, its acknowledgments do not.
TEST(Paths, black_return_route__fails_and_no_byte_is_placed_twice) {
  Pair p(options());
  const std::uint16_t bad = p.path(1).source_port;
  p.ba.drop_if = [&](const Frame& f) { return f.src_port == bad && f.bytes[2] == 1; };
  for (std::uint64_t i = 0; i < 16; ++i) p.write(i, 65536, i * 65536);
  ASSERT_TRUE(p.finish(16, 50 * kMillisecond));
  EXPECT_TRUE(p.same(0, Pair::kBytes));
  for (const std::uint8_t times : p.dst.shadow) ASSERT_EQ(times, 1);
}

// A peer that stands still for ten milliseconds loses no path.
TEST(Paths, pause_of_the_peer__fails_nothing) {
  WorldOptions o = options();
  o.planes = 2;
  Pair p(o);
  keep_writing(p, 200 * kMicrosecond);
  bool pause = true;
  p.ba.drop_if = [&](const Frame&) { return pause; };
  p.write(1, 50000);
  p.run_for(10 * kMillisecond);
  pause = false;
  ASSERT_TRUE(p.run_until([&] { return p.status(1) == WorkStatus::kSuccess; }, 20 * kMillisecond));
  p.run_for(2 * kMillisecond);
  EXPECT_EQ(p.a.tx.counters().paths_failed, 0U);
  for (const auto& plane : p.conn().planes) EXPECT_TRUE(plane.up());
  for (unsigned i = 0; i < p.conn().rest.size(); ++i) EXPECT_TRUE(p.path(i).health.carries());
}

// [MR-9.1.7] [MR-3.8.3] [MR-3.8.4] No data before a full-size PROBE came back, which is as long as
// the longest DATA packet; its answer is short.
TEST(Paths, open__full_size_probe_before_data) {
  for (const bool crc : {false, true}) {
    WorldOptions o = options();
    o.verified = false;
    o.crc = crc;
    Pair p(o);
    std::set<std::uint8_t> asked, answered;
    const std::size_t trailer = crc ? wire::kCrcBytes : 0;
    p.ba.drop_if = [&](const Frame& f) {
      if (!Pair::is(f, wire::Type::kProbeReply)) return false;
      EXPECT_LE(f.bytes.size(), 48 + trailer);
      if (full_size(f)) answered.insert(f.bytes[2]);
      return false;
    };
    p.ab.drop_if = [&](const Frame& f) {
      if (Pair::is(f, wire::Type::kProbe)) {
        EXPECT_EQ(f.bytes.size(), p.config.payload_mtu + 52 + trailer);
        asked.insert(f.bytes[2]);
      }
      if (Pair::is(f, wire::Type::kData)) {
        EXPECT_TRUE(answered.contains(f.bytes[2])) << "path " << int{f.bytes[2]};
        EXPECT_LE(f.bytes.size(), p.config.payload_mtu + 52 + trailer);
      }
      return false;
    };
    // Those of the opening left before anybody looked.
    for (unsigned i = 0; i < p.conn().rest.size(); ++i)
      EXPECT_EQ(p.path(i).health.state, PathState::kNew);
    const Nanos from = p.now;
    p.write(1, 200000);
    ASSERT_TRUE(p.finish(1));
    EXPECT_LT(p.now - from, 100 * kMicrosecond) << "one round trip more";
    EXPECT_EQ(answered.size(), 4U);
    EXPECT_TRUE(p.path(0).rtt.valid());
    EXPECT_EQ(p.a.tx.counters().paths_failed, 0U);
  }
}

// [MR-9.1.7] Full-size packets do not pass on one path: it never carries data, and its statistics
// say why.
TEST(Paths, open__mtu_of_one_path_is_too_small) {
  WorldOptions o = options();
  o.verified = false;
  o.delay = 50 * kMicrosecond;  // the PROBEs of the opening are lost, too
  Pair p(o);
  std::uint64_t data = 0;
  p.ab.drop_if = [&](const Frame& f) {
    if (f.bytes[2] != 1) return false;
    data += Pair::is(f, wire::Type::kData) ? 1 : 0;
    return f.bytes.size() > 500;
  };
  // The first PROBE of path 1 is on its way already; it is not answered.
  p.ba.drop_if = [&, first = true](const Frame& f) mutable {
    if (!first || f.bytes[2] != 1) return false;
    first = false;
    return true;
  };
  p.write(1, 400000);
  ASSERT_TRUE(p.finish(1));
  ASSERT_TRUE(
      p.run_until([&] { return p.path(1).health.fault == PathFault::kMtu; }, 100 * kMillisecond));
  EXPECT_EQ(data, 0U);
  EXPECT_FALSE(p.path(1).health.carries());
  EXPECT_EQ(p.a.tx.counters().paths_mtu, 1U);
  p.ab.drop_if = nullptr;  // the fabric is repaired
  ASSERT_TRUE(p.run_until([&] { return p.path(1).health.carries(); }, 300 * kMillisecond));
  EXPECT_EQ(p.path(1).health.fault, PathFault::kNone);
}

// ... on none: the work fails after four seconds, as on a dead link. [MR-7.5.3] [MR-7.5.5]
TEST(Paths, open__no_path_can_be_proven) {
  WorldOptions o = options();
  o.verified = false;
  Pair p(o);
  p.check_invariants = false;
  p.ab.drop_if = [](const Frame& f) { return f.bytes.size() > 500; };
  p.ba.drop_if = [](const Frame& f) {
    return Pair::is(f, wire::Type::kProbeReply) && full_size(f);
  };
  const Nanos from = p.now;
  p.write(1, 5000);
  ASSERT_TRUE(p.finish(1, 5 * kSecond));
  EXPECT_GE(p.now - from, 4 * kSecond);
  EXPECT_EQ(p.status(1), WorkStatus::kRetryExceeded);
  ASSERT_EQ(p.a.events.size(), 2U);  // the connection and its stream
  for (const auto& e : p.a.events)
    EXPECT_TRUE(e.kind != TxToControlKind::kConnFailed || e.never_answered);
}

// [MR-9.1.5] As far as the range allows.
TEST(Paths, source_ports__differ_within_a_plane) {
  WorldOptions o = options(128);
  o.planes = 2;
  o.config.source_port_min = 50000;
  o.config.source_port_max = 50069;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    o.seed = seed;
    Pair p(o);
    const auto distinct = [&] {
      for (unsigned plane = 0; plane < 2; ++plane) {
        std::set<std::uint16_t> ports;
        for (unsigned i = plane; i < 128; i += 2) ports.insert(p.path(i).source_port);
        EXPECT_EQ(ports.size(), 64U);
        EXPECT_GE(*ports.begin(), 50000);
        EXPECT_LE(*ports.rbegin(), 50069);
      }
    };
    distinct();
    for (unsigned i = 0; i < 100; ++i) {
      Command k;
      k.kind = CommandKind::kChangePort;
      k.id = 1;
      k.path = static_cast<std::uint8_t>(i);
      p.a.to_tx(k);
    }
    distinct();
  }
  o.config.source_port_max = 50003;  // 64 paths on 4 ports
  Pair p(o);
  p.write(1, 200000);
  EXPECT_TRUE(p.finish(1));
}

// [MR-9.1.1] The most paths that there can be, over one plane and several, with loss.
TEST(Paths, two_hundred_and_fifty_six) {
  for (const std::uint32_t planes : {1U, 4U, 16U}) {
    for (const std::uint32_t per_path : {0U, 4U}) {
      WorldOptions o = options(256);
      o.planes = planes;
      o.seed = planes;
      o.streams = 2;
      o.verified = per_path == 0;
      o.limits.blocks = 256;
      o.config.packets_per_path = per_path;
      World w(o);
      w.check_invariants = true;
      w.ab.faults.loss_ppm = w.ba.faults.loss_ppm = 10000;
      Workload load(w, 60);
      ASSERT_TRUE(load.run(kSecond)) << w.replay();
      load.check();
    }
  }
}

// [MR-9.1.6] [MR-9.1.7] A small window uses few paths, a grown one more, each proven first; after
// idle time it starts again.
TEST(Paths, active_set__follows_the_window) {
  WorldOptions o = options(64);
  o.planes = 2;
  o.verified = false;
  o.config.initial_window = 32 * 1024;
  o.config.packets_per_path = 4;
  Pair p(o);
  EXPECT_EQ(p.conn().active_paths, 8U);
  keep_writing(p, 50 * kMicrosecond);
  std::uint32_t most = 0;
  ASSERT_TRUE(p.run_until(
      [&] {
        keep_writing(p, 100 * kMicrosecond);
        most = std::max(most, p.conn().active_paths);
        return most >= 16 && p.now > 2 * kMillisecond;
      },
      50 * kMillisecond));
  for (unsigned i = 0; i < 64; ++i) {
    const auto path = p.path(i);
    if (i >= most) {
      EXPECT_EQ(path.counters.packets, 0U) << i;
      EXPECT_EQ(path.health.state, PathState::kNew) << i;
      EXPECT_EQ(path.cc.window, 0) << i;
    } else {
      EXPECT_GE(path.cc.window, static_cast<Bytes>(o.mtu)) << i;
    }
  }
  EXPECT_GT(p.path(15).counters.packets, 0U);
  p.run_for(2 * p.config.idle_restart);
  keep_writing(p, 20 * kMicrosecond);
  EXPECT_LE(p.conn().active_paths, most);
}

// [MR-9.2.5] A set whose paths have all failed reaches over them to the others.
TEST(Paths, active_set__reaches_over_failed_paths) {
  WorldOptions o = options(16);
  o.config.initial_window = 8 * 1024;
  o.config.max_window = 16 * 1024;
  o.config.packets_per_path = 4;
  Pair p(o);
  ASSERT_EQ(p.conn().active_paths, 2U);
  p.ab.drop_if = [](const Frame& f) { return f.bytes[2] < 2; };
  for (std::uint64_t i = 0; i < 4; ++i) p.write(i, 30000, i * 32768);
  ASSERT_TRUE(p.finish(4, 500 * kMillisecond));
  EXPECT_GT(p.conn().active_paths, 2U);
  EXPECT_TRUE(p.same(0, 30000));
}

}  // namespace
}  // namespace metaroce::test
