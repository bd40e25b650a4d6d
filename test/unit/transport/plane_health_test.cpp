#include "transport/plane_health.h"

#include <gtest/gtest.h>

namespace metaroce {
namespace {

PlaneHealth busy(Nanos since) {
  PlaneHealth h;
  h.unresolved = 1;
  h.busy_since = since;
  return h;
}

// [MR-9.5.1] Silence counts from the last progress, the first packet, or the start of the pulse,
// whichever is latest.
TEST(PlaneHealth, silence__needs_data_and_a_pulse) {
  Pulse pulse;
  pulse.beat(1000, 100);
  pulse.beat(1050, 100);
  EXPECT_EQ(pulse.since, 1000);
  PlaneHealth h = busy(900);
  EXPECT_EQ(h.silence(1100, pulse), 100);
  h.progress(1080);
  EXPECT_EQ(h.silence(1100, pulse), 20);
  h.unresolved = 0;
  EXPECT_EQ(h.silence(1100, pulse), 0);
  h.unresolved = 1;
  pulse.beat(5000, 100);  // everybody paused, then somebody is read first
  EXPECT_EQ(h.silence(5000, pulse), 0);
}

// The order in which one poll reads its events decides nothing.
TEST(PlaneHealth, doubted_before__takes_two_looks) {
  PlaneHealth h = busy(100);
  EXPECT_FALSE(h.doubted_before(500));
  EXPECT_FALSE(h.doubted_before(500));
  EXPECT_TRUE(h.doubted_before(501));
  h.progress(600);
  EXPECT_FALSE(h.doubted_before(900)) << "the doubt was answered";
}

// [MR-9.5.2] 1, 2, 4, 4 ms.
TEST(PlaneHealth, lose__probes_back_off_to_4_ms) {
  PlaneHealth h = busy(100);
  h.lose(1000);
  EXPECT_EQ(h.next, 1000);
  Nanos now = 1000;
  for (const Nanos want : {1, 2, 4, 4, 4}) {
    h.asked(now, 7);
    EXPECT_EQ(h.next - now, want * kMillisecond);
    now = h.next;
  }
  h.returned(now);
  EXPECT_TRUE(h.up());
  EXPECT_EQ(h.next, kNever);
  EXPECT_EQ(h.nonce, 0U);
}

// [MR-9.5.3]
TEST(PlaneHealth, port__down_here_is_not_probed_until_up) {
  PlaneHealth h;
  EXPECT_TRUE(h.port(1000, false, false));
  EXPECT_EQ(h.state, PlaneState::kDown);
  EXPECT_EQ(h.next, kNever);
  EXPECT_FALSE(h.port(2000, true, false)) << "lost already";
  EXPECT_FALSE(h.port(3000, false, true));
  EXPECT_EQ(h.state, PlaneState::kDown) << "the peer's port still is";
  EXPECT_NE(h.next, kNever) << "in case the peer's word that it is up was lost";
  EXPECT_FALSE(h.port(4000, true, true));
  EXPECT_EQ(h.state, PlaneState::kSuspect);
  EXPECT_EQ(h.next, 4000);
}

TEST(PlaneHealth, port__up_twice_changes_nothing) {
  PlaneHealth h;
  EXPECT_FALSE(h.port(1000, false, true));
  EXPECT_FALSE(h.port(1000, true, true));
  EXPECT_TRUE(h.up());
}

}  // namespace
}  // namespace metaroce
