// A megabyte through the real wire format.
#include "support/world.h"

namespace metaroce::test {

TEST(ThinSlice, write_moves_a_megabyte) {
  WorldOptions o;
  o.mtu = 4096;
  World w(o);
  w.check_invariants = true;
  auto& src = w.a.add_memory(1 << 20, (1 << 12) | 5, kAccessLocalWrite);
  auto& dst = w.b.add_memory(1 << 20, (2 << 12) | 9, kAccessLocalWrite | kAccessRemoteWrite);
  for (std::size_t i = 0; i < src.bytes.size(); ++i)
    src.bytes[i] = static_cast<std::uint8_t>(mix64(i));
  WorkRequest r{};
  r.wr_id = 77;
  r.local_addr = src.va;
  r.lkey = src.key;
  r.remote_addr = dst.va;
  r.rkey = dst.key;
  r.length = 1 << 20;
  r.stream = w.handle(0);
  r.flags = kWorkSignaled;
  ASSERT_TRUE(w.a.sends.push(r));
  ASSERT_TRUE(w.run_until([&] { return !w.a.sent_completions.empty(); }, 50 * kMillisecond));
  EXPECT_EQ(w.a.sent_completions[0].wr_id, 77U);
  EXPECT_EQ(w.a.sent_completions[0].status, 0);
  EXPECT_EQ(src.bytes, dst.bytes);
  EXPECT_EQ(w.b.placed, 1U << 20);
  EXPECT_EQ(w.a.tx.counters().resent_packets, 0U);
  EXPECT_TRUE(w.a.tx.quiet());
}

}  // namespace metaroce::test
