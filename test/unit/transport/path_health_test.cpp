// Each arrow of the state diagram in doc/path-management.md, and that nothing else moves a path.
#include "transport/path_health.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace metaroce {
namespace {

PathHealth active() {
  PathHealth h;
  h.state = PathState::kActive;
  return h;
}
// FAILED at `now` after three silences while others were heard.
PathHealth failed(Nanos now) {
  PathHealth h = active();
  EXPECT_FALSE(h.silent(now - 300, 0));
  EXPECT_FALSE(h.silent(now - 200, now - 100));
  EXPECT_TRUE(h.silent(now, now - 100));
  return h;
}

// [MR-9.1.7] One full-size answer.
TEST(PathHealth, new__full_size_reply_makes_it_active) {
  PathHealth h;
  EXPECT_TRUE(h.hopeful());
  EXPECT_FALSE(h.carries());
  const PathHealth::Ask a = h.ask(1000, 50);
  EXPECT_TRUE(a.full);
  EXPECT_FALSE(a.new_port);
  EXPECT_EQ(h.next, 1050);
  EXPECT_TRUE(h.reply(1020));
  EXPECT_TRUE(h.carries());
  EXPECT_EQ(h.next, kNever);
}

TEST(PathHealth, new__three_unanswered_tries_fail_it) {
  PathHealth h;
  Nanos now = 1000, wait = 0;
  h.ask(now, 50);
  for (unsigned i = 1; i < PathHealth::kNewTries; ++i) {
    EXPECT_GT(h.next - now, wait);
    wait = h.next - now;
    now = h.next;
    const PathHealth::Ask a = h.ask(now, 50);
    EXPECT_TRUE(a.new_port);
    EXPECT_FALSE(a.full) << "a dead route is not asked with 4 KiB again";
    EXPECT_EQ(h.state, PathState::kNew);
  }
  h.ask(h.next, 50);
  EXPECT_EQ(h.state, PathState::kProbing);
  EXPECT_EQ(h.fault, PathFault::kSilent);
  EXPECT_FALSE(h.hopeful());
}

// [MR-9.4.2] [MR-9.4.3]
TEST(PathHealth, silent__third_in_a_row_fails_while_others_are_heard) {
  PathHealth h = active();
  EXPECT_FALSE(h.silent(1000, 500));
  EXPECT_EQ(h.state, PathState::kSuspect);
  EXPECT_TRUE(h.heard());
  EXPECT_TRUE(h.carries());
  EXPECT_FALSE(h.silent(2000, 500));
  EXPECT_FALSE(h.silent(3000, 2500));
  EXPECT_TRUE(h.heard());
  EXPECT_FALSE(h.silent(4000, 3900)) << "not in a row";
  EXPECT_FALSE(h.silent(5000, 4900));
  EXPECT_TRUE(h.silent(6000, 5900));
  EXPECT_EQ(h.state, PathState::kFailed);
  EXPECT_EQ(h.next, 6000) << "another route is tried at once";
  EXPECT_FALSE(h.heard()) << "a late word does not bring it back";
  EXPECT_EQ(h.state, PathState::kFailed);
}

// A peer that pauses is no broken path: eight silences when nothing at all is heard.
TEST(PathHealth, silent__of_the_whole_peer_takes_eight) {
  PathHealth h = active();
  for (unsigned i = 1; i < PathHealth::kSilencesOfAll; ++i) EXPECT_FALSE(h.silent(1000 * i, 900));
  EXPECT_EQ(h.state, PathState::kSuspect);
  EXPECT_TRUE(h.silent(9000, 900));
}

// [MR-9.4.4] New port per try, 1 to 100 ms apart, for ever.
TEST(PathHealth, probing__backs_off_to_100_ms_on_new_ports) {
  PathHealth h = failed(kSecond);
  Nanos want = PathHealth::kBackoffMin;
  for (unsigned i = 0; i < 1000; ++i) {
    const Nanos now = h.next;
    const PathHealth::Ask a = h.ask(now, 50);
    EXPECT_TRUE(a.new_port);
    EXPECT_FALSE(a.full);
    EXPECT_EQ(h.state, PathState::kProbing);
    EXPECT_EQ(h.next - now, want);
    want = std::min(2 * want, PathHealth::kBackoffMax);
  }
}

// [MR-9.4.4] Three answers to full-size PROBEs, on one port.
TEST(PathHealth, probing__three_full_replies_on_one_port) {
  PathHealth h = failed(kSecond);
  Nanos now = h.next;
  EXPECT_TRUE(h.ask(now, 50).new_port);
  EXPECT_FALSE(h.reply(now + 10));  // the small one
  for (unsigned i = 1; i <= PathHealth::kReplies; ++i) {
    now = h.next;
    const PathHealth::Ask a = h.ask(now, 50);
    EXPECT_TRUE(a.full);
    EXPECT_FALSE(a.new_port);
    EXPECT_EQ(h.reply(now + 10), i == PathHealth::kReplies);
  }
  EXPECT_TRUE(h.carries());
  EXPECT_EQ(h.fault, PathFault::kNone);
}

TEST(PathHealth, probing__an_unanswered_try_starts_the_count_again) {
  PathHealth h = failed(kSecond);
  h.ask(h.next, 50);
  h.reply(h.next - 10);
  h.ask(h.next, 50);
  h.reply(h.next - 10);
  EXPECT_EQ(h.replies, 1);
  h.ask(h.next, 50);
  const PathHealth::Ask a = h.ask(h.next, 50);  // in vain
  EXPECT_TRUE(a.new_port);
  EXPECT_FALSE(a.full);
  EXPECT_EQ(h.replies, 0);
}

// The MTU: small ones pass, full-size ones do not, several times in a row; named once.
TEST(PathHealth, probing__names_an_mtu_that_is_too_small) {
  PathHealth h = failed(kSecond);
  unsigned found = 0;
  for (unsigned round = 0; round < 10; ++round) {
    h.ask(h.next, 50);                    // small
    h.reply(h.next - 10);                 // passes
    EXPECT_TRUE(h.ask(h.next, 50).full);  // lost
    const PathHealth::Ask a = h.ask(h.next, 50);
    found += a.mtu_found ? 1 : 0;
    EXPECT_EQ(h.fault == PathFault::kMtu, round + 1 >= PathHealth::kFullLosses);
    h.unsent();
  }
  EXPECT_EQ(found, 1U);
}

TEST(PathHealth, suspend__keeps_failed_paths_failed) {
  PathHealth a = active(), f = failed(kSecond);
  a.suspend();
  f.suspend();
  EXPECT_EQ(a.state, PathState::kSuspect);
  EXPECT_EQ(f.state, PathState::kFailed);
  EXPECT_TRUE(a.heard());
}

// [MR-9.5.2]
TEST(PathHealth, hurry__resets_the_back_off) {
  PathHealth h = failed(kSecond);
  for (unsigned i = 0; i < 10; ++i) h.ask(h.next, 50);
  const Nanos now = h.next - 90 * kMillisecond;
  h.hurry(now);
  EXPECT_EQ(h.next, now + PathHealth::kBackoffMin);
  EXPECT_EQ(h.interval, PathHealth::kBackoffMin);
  PathHealth n;  // never asked, outside the active set
  n.hurry(now);
  EXPECT_EQ(n.next, kNever);
}

// Whatever happens in whatever order: a path that does not carry has a time at which it is asked,
// is SUSPECT (asked by its probe timeout), or was never wanted.
TEST(PathHealth, random_events__never_stuck) {
  Rng rng(3);
  for (unsigned run = 0; run < 200; ++run) {
    PathHealth h;
    Nanos now = 1000;
    h.ask(now, 1000);
    for (unsigned i = 0; i < 500; ++i) {
      now += rng.below(3000000);
      switch (rng.below(6)) {
        case 0:
          if (!h.asks()) h.silent(now, rng.below(2) != 0 ? now : 0);
          break;
        case 1:
          h.heard();
          break;
        case 2:
          if (h.asks() && h.asking) h.reply(now);
          break;
        case 3:
          h.suspend();
          break;
        case 4:
          h.hurry(now);
          break;
        default:
          if (h.asks() && now >= h.next) h.ask(now, 1000);
      }
      ASSERT_TRUE(h.carries() || h.state == PathState::kSuspect || h.next != kNever);
      ASSERT_TRUE(!h.asks() || h.next <= now + PathHealth::kBackoffMax);
      ASSERT_FALSE(h.carries() && h.asking);
    }
  }
}

}  // namespace
}  // namespace metaroce
