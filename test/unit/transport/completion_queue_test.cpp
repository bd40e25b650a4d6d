#include "transport/completion_queue.h"

#include <gtest/gtest.h>

#include <sys/eventfd.h>

#include <deque>

#include "base/rng.h"

namespace metaroce {
namespace {

class CompletionQueuesTest : public ::testing::Test {
 protected:
  bool add(std::uint32_t id, SpscRing<Completion>& ring,
           std::atomic<std::uint32_t>* armed = nullptr, int fd = -1) {
    CqParams p;
    p.cq = id;
    p.client = ClientId{1};
    p.ring = ring.producer();
    p.armed = armed;
    p.event_fd = fd;
    return cqs_.add(p);
  }
  static Completion numbered(std::uint64_t n) { return Completion{n, 0, 0, 0, 0, 0, 0, 0, 0}; }
  CompletionQueues cqs_{4};
};

// [MR-4.6.2] A reservation always has room, whatever the application does: none is lost.
TEST_F(CompletionQueuesTest, reserve__never_overflows) {
  for (const std::uint32_t capacity : {1U, 2U, 8U, 64U}) {
    CompletionQueues cqs(1);
    SpscRing<Completion> ring(capacity);
    CqParams p;
    p.ring = ring.producer();
    ASSERT_TRUE(cqs.add(p));
    Rng rng(capacity);
    std::uint32_t reserved = 0, in_ring = 0, staged = 0, full = 0;
    std::uint64_t written = 0, read = 0;
    for (int i = 0; i < 100000; ++i) {
      switch (rng.below(5)) {
        case 0:
        case 1: {
          const bool ok = cqs.reserve(0);
          ASSERT_EQ(ok, reserved + in_ring + staged < capacity);
          reserved += ok ? 1 : 0;
          full += ok ? 0 : 1;
          break;
        }
        case 2:
          if (reserved == 0) break;
          --reserved;
          if (rng.below(4) == 0) {
            cqs.unreserve(0);
            break;
          }
          cqs.complete(0, numbered(written++));
          ++staged;
          break;
        case 3:
          cqs.flush();
          in_ring += staged;
          staged = 0;
          break;
        default: {
          Completion c;
          if (!ring.pop(c)) {
            ASSERT_EQ(in_ring, 0U);
            break;
          }
          ASSERT_EQ(c.wr_id, read++);
          --in_ring;
        }
      }
    }
    EXPECT_GT(full, 100U);
    EXPECT_GT(read, 1000U);
  }
}

TEST_F(CompletionQueuesTest, add__valid_once_within_the_table) {
  SpscRing<Completion> ring(4);
  EXPECT_FALSE(add(4, ring));
  EXPECT_TRUE(add(3, ring));
  EXPECT_FALSE(add(3, ring));
  EXPECT_TRUE(cqs_.valid(3));
  EXPECT_FALSE(cqs_.valid(2));
  EXPECT_FALSE(cqs_.reserve(2));
  EXPECT_FALSE(cqs_.remove(2));
  EXPECT_TRUE(cqs_.remove(3));
  EXPECT_FALSE(cqs_.reserve(3));
  cqs_.complete(3, numbered(1));  // its client is gone: nowhere to write
  cqs_.flush();
  Completion c;
  EXPECT_FALSE(ring.pop(c));
}

// Nothing is visible before flush(); an armed queue is woken once.
TEST_F(CompletionQueuesTest, flush__publishes_and_wakes_the_armed) {
  SpscRing<Completion> ring(4);
  std::atomic<std::uint32_t> armed{0};
  const int fd = eventfd(0, EFD_NONBLOCK);
  ASSERT_GE(fd, 0);
  ASSERT_TRUE(add(0, ring, &armed, fd));
  std::uint64_t n = 0;
  Completion c;
  ASSERT_TRUE(cqs_.reserve(0));
  cqs_.complete(0, numbered(1));
  EXPECT_FALSE(ring.pop(c));
  cqs_.flush();
  EXPECT_TRUE(ring.pop(c));
  EXPECT_LT(read(fd, &n, sizeof n), 0) << "not armed: no system call";
  armed = 1;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(cqs_.reserve(0));
    cqs_.complete(0, numbered(2));
  }
  cqs_.flush();
  EXPECT_EQ(armed.load(), 0U);
  ASSERT_EQ(read(fd, &n, sizeof n), static_cast<ssize_t>(sizeof n));
  EXPECT_EQ(n, 1U);
  armed = 1;
  cqs_.flush();
  EXPECT_EQ(armed.load(), 1U) << "nothing new: still armed";
  close(fd);
}

}  // namespace
}  // namespace metaroce
