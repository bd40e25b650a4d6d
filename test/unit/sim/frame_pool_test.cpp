#include "sim/frame_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"

namespace metaroce::sim {
namespace {

struct Held {
  std::uint32_t handle;
  std::vector<std::uint8_t> header;
};

void expect_same(const FramePool& pool, const Held& h) {
  ASSERT_EQ(pool.info(h.handle).header_bytes, h.header.size());
  EXPECT_EQ(std::memcmp(pool.header(h.handle), h.header.data(), h.header.size()), 0);
}

// Takes, copies and gives back in any order: every frame keeps its bytes, no two share a buffer.
TEST(FramePool, frames_keep_their_bytes) {
  FramePool pool;
  Rng rng(3);
  std::vector<Held> held;
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t dice = rng.below(5);
    if (dice < 2 || held.empty()) {
      Held h{0, std::vector<std::uint8_t>(1 + rng.below(FramePool::kMaxHeader))};
      for (auto& b : h.header) b = static_cast<std::uint8_t>(rng.next());
      FrameInfo info;
      info.header_bytes = static_cast<std::uint16_t>(h.header.size());
      info.payload_bytes = static_cast<std::uint32_t>(i);
      h.handle = pool.take(info, h.header.data());
      held.push_back(std::move(h));
    } else {
      const std::uint32_t at = rng.below(static_cast<std::uint32_t>(held.size()));
      if (dice == 2 && held.size() < 3000) {
        held.push_back(Held{pool.copy(held[at].handle), held[at].header});
        EXPECT_EQ(pool.info(held.back().handle).payload_bytes,
                  pool.info(held[at].handle).payload_bytes);
      } else {
        expect_same(pool, held[at]);
        pool.give(held[at].handle);
        held[at] = std::move(held.back());
        held.pop_back();
      }
    }
  }
  std::set<std::uint32_t> handles;
  for (const Held& h : held) {
    expect_same(pool, h);
    EXPECT_TRUE(handles.insert(h.handle).second);
  }
  EXPECT_EQ(pool.used(), held.size());
  for (const Held& h : held) pool.give(h.handle);
  EXPECT_EQ(pool.used(), 0U);
}

TEST(FramePool, a_copy_outlives_its_original) {
  FramePool pool;
  FrameInfo info;
  info.header_bytes = 4;
  info.src_port = 77;
  const std::uint8_t first[4] = {1, 2, 3, 4}, second[4] = {9, 9, 9, 9};
  const std::uint32_t original = pool.take(info, first), copy = pool.copy(original);
  pool.give(original);
  const std::uint32_t next = pool.take(info, second);
  EXPECT_NE(next, copy);
  EXPECT_EQ(std::memcmp(pool.header(copy), first, 4), 0);
  EXPECT_EQ(pool.info(copy).src_port, 77);
}

}  // namespace
}  // namespace metaroce::sim
