// PORT_STATUS between two control roles: dropped, repeated, late, crossed. [MR-9.5.3] [MR-9.5.4]
#include "control_net.h"

namespace metaroce::test {
namespace {

// What the TX role of the host's only connection was told last of a plane: by its own port, by the
// peer's.
struct Told {
  bool own_up = true, peer_up = true;
  bool operator==(const Told&) const = default;
};
Told told(const Host& h, std::uint8_t plane) {
  Told t;
  for (const Command& c : h.groups[0]->port_states) {
    if (c.path != plane) continue;
    ((c.status & kPortOfPeer) != 0 ? t.peer_up : t.own_up) = (c.status & kPortUp) != 0;
  }
  return t;
}

TEST(ControlPort, down_and_up__both_ends_are_told) {
  Pair p(1);
  p.open();
  p.net.run(100 * kMillisecond);
  p.a->role->port_state(PlaneId{1}, false);
  p.net.run(kMillisecond);
  EXPECT_EQ(told(*p.a, 1), (Told{false, true}));
  EXPECT_EQ(told(*p.b, 1), (Told{true, false}));
  EXPECT_EQ(told(*p.a, 0), Told{});
  EXPECT_EQ(told(*p.b, 0), Told{});
  const std::uint64_t sent = p.net.sent;
  p.a->role->port_state(PlaneId{1}, false);  // known
  p.net.run(kSecond);
  EXPECT_EQ(p.net.sent, sent) << "answered, so not repeated";
  p.a->role->port_state(PlaneId{1}, true);
  p.net.run(kMillisecond);
  EXPECT_EQ(told(*p.a, 1), Told{});
  EXPECT_EQ(told(*p.b, 1), Told{});
  EXPECT_EQ(p.a->groups[0]->port_states.size(), 2U);
  EXPECT_EQ(p.b->groups[0]->port_states.size(), 2U);
}

// It does not travel on the plane that is down.
TEST(ControlPort, down__told_on_another_plane) {
  Pair p(2, {}, 3);
  p.open();
  p.net.run(100 * kMillisecond);
  for (const std::uint8_t plane : {0, 1}) p.a->role->port_state(PlaneId{plane}, false);
  std::set<std::uint8_t> planes;
  p.net.on_send = [&](const Packet& k) { planes.insert(k.source.plane.v); };
  p.net.run(kMillisecond);
  const std::uint64_t t = p.connect(10 * kSecond, 2);
  p.accept(p.b->await_kind(ControlEventKind::kConnectRequest));
  EXPECT_EQ(p.a->await_token(t).status, ControlStatus::kOk);
  EXPECT_FALSE(planes.contains(1));
  EXPECT_EQ(told(*p.b, 0), (Told{true, false}));
  EXPECT_EQ(told(*p.b, 1), (Told{true, false}));
}

// A connection that opens while a port is down.
TEST(ControlPort, down_before_the_connection) {
  Pair p(3);
  p.b->role->port_state(PlaneId{1}, false);
  p.open();
  p.net.run(100 * kMillisecond);
  EXPECT_EQ(told(*p.b, 1), (Told{false, true}));
  EXPECT_EQ(told(*p.a, 1), (Told{true, false}));
}

// Flapping under loss, duplication and reordering: the last state wins at both ends.
TEST(ControlPort, flapping__last_state_wins) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Pair p(seed, {}, 2 + seed % 3);
    p.open();
    p.net.run(500 * kMillisecond);
    p.net.loss_ppm = 300000;
    p.net.duplicate_ppm = 300000;
    p.net.jitter_max = 40 * kMillisecond;
    std::map<std::uint8_t, bool> a, b;
    for (unsigned i = 0; i < 40; ++i) {
      const auto plane = static_cast<std::uint8_t>(p.net.random.below(2 + seed % 3));
      const bool up = p.net.random.below(2) != 0;
      (i % 2 != 0 ? p.a : p.b)->role->port_state(PlaneId{plane}, up);
      (i % 2 != 0 ? a : b)[plane] = up;
      p.net.run(p.net.random.below(30) * kMillisecond);
    }
    p.net.loss_ppm = 0;
    p.net.run(10 * kSecond);
    for (const auto& [plane, up] : a) {
      EXPECT_EQ(told(*p.a, plane).own_up, up);
      EXPECT_EQ(told(*p.b, plane).peer_up, up);
    }
    for (const auto& [plane, up] : b) {
      EXPECT_EQ(told(*p.b, plane).own_up, up);
      EXPECT_EQ(told(*p.a, plane).peer_up, up);
    }
  }
}

// [MR-5.4.3] Values, not only lengths, are checked.
TEST(ControlPort, codec__round_trip_and_bounds) {
  control::CtrlMessage m;
  m.type = wire::CtrlType::kPortStatus;
  m.ports.n = kMaxPlanes;
  for (unsigned i = 0; i < kMaxPlanes; ++i)
    m.ports.planes[i] = {PlaneId{static_cast<std::uint8_t>(i * 3)}, i % 2 == 0};
  control::CtrlBytes bytes;
  const std::uint32_t n = control::encode_ctrl(m, WireTime{}, bytes);
  control::CtrlMessage r;
  ASSERT_EQ(control::decode_ctrl({bytes.data(), n}, r), DropReason::kNone);
  ASSERT_EQ(r.ports.n, kMaxPlanes);
  for (unsigned i = 0; i < kMaxPlanes; ++i) {
    EXPECT_EQ(r.ports.planes[i].plane, m.ports.planes[i].plane);
    EXPECT_EQ(r.ports.planes[i].up, m.ports.planes[i].up);
  }
  bytes[n - 1] = 2;  // neither down nor up
  EXPECT_EQ(control::decode_ctrl({bytes.data(), n}, r), DropReason::kCtrlMalformed);
  m.ports.n = 0;
  const std::uint32_t none = control::encode_ctrl(m, WireTime{}, bytes);
  EXPECT_EQ(control::decode_ctrl({bytes.data(), none}, r), DropReason::kCtrlMalformed);
}

}  // namespace
}  // namespace metaroce::test
