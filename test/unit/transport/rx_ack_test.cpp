// When a receiver acknowledges, what an ACK names, and the answer to a PROBE.
#include <map>
#include <set>

#include "support/pair.h"

namespace metaroce::test {
namespace {

WorldOptions options(std::uint32_t streams = 1, std::uint32_t paths = 4) {
  WorldOptions o;
  o.streams = streams;
  o.paths = paths;
  return o;
}

struct Block {
  std::uint8_t path;
  std::uint32_t cum;
};
std::vector<Block> blocks(const Frame& f) {
  std::vector<Block> all;
  const auto& a = *reinterpret_cast<const wire::Ack*>(f.bytes.data());
  const std::uint8_t* at = f.bytes.data() + sizeof a;
  for (unsigned i = 0; i < a.n_paths; ++i) {
    const auto& b = *reinterpret_cast<const wire::AckPath*>(at);
    all.push_back({b.path, b.cum});
    at += sizeof b + ((b.flags & wire::kAckSack) != 0 ? 32 : 0);
  }
  return all;
}

// [MR-7.1.4] [MR-7.6.3] [MR-7.1.3] The answer to a FLUSH names its path only and returns by its
// port.
TEST(RxAck, of_a_flush_stands_alone) {
  Pair p(options(1, 8));
  p.ab.faults.loss_ppm = 50000;
  std::map<std::uint16_t, std::uint8_t> port_path;
  std::set<std::pair<std::uint8_t, std::uint32_t>> flushes;
  p.ab.drop_if = [&](const Frame& f) {
    port_path[f.src_port] = f.bytes[2];
    return false;
  };
  unsigned alone = 0;
  p.ba.drop_if = [&](const Frame& f) {
    if (!Pair::is(f, wire::Type::kAck)) return false;
    const auto all = blocks(f);
    EXPECT_LE(all.size(), Host::Rx::kMaxAckPaths);
    EXPECT_TRUE(port_path.count(f.src_port) != 0)
        << "answers leave with a port of the peer's paths";
    EXPECT_EQ(port_path[f.src_port], f.bytes[2]);  // [MR-3.3.8]
    alone += all.size() == 1 && all[0].path == f.bytes[2] ? 1 : 0;
    return false;
  };
  p.write(1, 300000);
  ASSERT_TRUE(p.finish(1));
  EXPECT_GT(p.a.tx.counters().flushes, 0U);
  EXPECT_GE(alone, p.a.tx.counters().flushes / 2);
}

// [MR-7.1.1] [MR-7.1.2] A loop that stays waits for company, for the maximum ACK delay; a packet
// behind which nothing else waits is answered at once.
TEST(RxAck, waits_for_company) {
  WorldOptions o = options(1, 8);
  o.config.ack_every_packets = 128;
  o.config.max_ack_delay = 500 * kMicrosecond;
  Pair p(o);
  p.b.leaves = false;
  std::vector<Nanos> acks;
  p.ba.drop_if = [&](const Frame& f) {
    if (Pair::is(f, wire::Type::kAck)) acks.push_back(p.now);
    return false;
  };
  p.write(1, 20 * 1024);  // too few for FLUSHes at the end
  ASSERT_TRUE(p.finish(1, 200 * kMicrosecond)) << "the last packet says that nothing waits";
  EXPECT_EQ(acks.size(), 1U);
  // The last packet does not arrive: what the others are owed comes with the delay.
  acks.clear();
  unsigned sent = 0;
  Nanos first = 0;
  p.ab.drop_if = [&](const Frame& f) {
    if (!Pair::is(f, wire::Type::kData) || ++sent > 3) return true;
    if (first == 0) first = p.now;
    return false;
  };
  p.write(2, 4 * p.conn().params.payload_mtu);
  ASSERT_TRUE(p.run_until([&] { return !acks.empty(); }, 10 * kMillisecond));
  EXPECT_GE(acks[0] - first, 500 * kMicrosecond);
  EXPECT_LE(acks[0] - first, 550 * kMicrosecond);
}

// [MR-7.1.9] No buffers for answers for a while: counted, and said later.
TEST(RxAck, no_buffer_is_said_again) {
  Pair p(options());
  p.b.starve_replies = true;
  p.write(1, 100000);
  p.run_for(2 * kMillisecond);
  EXPECT_GT(p.drops_b(DropReason::kNoBuffer), 0U);
  EXPECT_TRUE(p.a.sent_completions.empty());
  p.b.starve_replies = false;
  ASSERT_TRUE(p.finish(1, 100 * kMillisecond));
  EXPECT_TRUE(p.same(0, 100000));
}

// [MR-7.1.6] More streams than an ACK has room for: each learns its cumulative number.
TEST(RxAck, stream_blocks_beyond_one_packet) {
  Pair p(options(60, 4));
  p.check_invariants = false;
  p.write(1, 10);  // the receiver learns where to answer
  ASSERT_TRUE(p.finish(1));
  std::set<std::uint16_t> told;
  p.ba.drop_if = [&](const Frame& f) {
    if (!Pair::is(f, wire::Type::kAck)) return false;
    const auto& a = *reinterpret_cast<const wire::Ack*>(f.bytes.data());
    const auto* b = reinterpret_cast<const wire::AckStream*>(f.bytes.data() + f.bytes.size() -
                                                             a.n_streams * sizeof(wire::AckStream));
    for (unsigned i = 0; i < a.n_streams; ++i) told.insert(b[i].stream);
    return false;
  };
  // Two bursts: 60 limits change nearly at once.
  for (std::uint32_t s = 0; s < 60; ++s) p.receive(s, 10, 0, s);
  p.run_for(kMillisecond);
  EXPECT_EQ(told.size(), 60U);
}

// [MR-9.6.1] [MR-3.8.1] [MR-3.8.3] [MR-9.6.2]
TEST(RxAck, probe__reply_copies_and_is_short) {
  Pair p(options(1, 2));
  Frame f;
  f.bytes.resize(sizeof(wire::Probe) + 3000);  // full-size, padded
  auto& q = *reinterpret_cast<wire::Probe*>(f.bytes.data());
  q.c.set(wire::Type::kProbe);
  q.c.path = 1;
  q.c.epoch = 77;
  q.c.dcid = (1U << 8) | 0x5a;
  q.c.timestamp = 0x01020304;
  q.nonce = 0x1122334455667788ULL;
  q.kind = 2;
  q.stream = 0;
  f.src_port = 50001;
  Frame reply;
  p.ba.drop_if = [&](const Frame& r) {
    reply = r;
    return true;
  };
  p.b.rx.begin_burst(p.now);
  p.b.deliver(f, p.a.ip);
  p.b.rx.end_burst(true, true);
  ASSERT_EQ(reply.bytes.size(), sizeof(wire::Probe) + sizeof(wire::AckStream));
  const auto& r = *reinterpret_cast<const wire::Probe*>(reply.bytes.data());
  EXPECT_EQ(r.c.type(), wire::Type::kProbeReply);
  EXPECT_EQ(r.c.path, 1);
  EXPECT_EQ(r.c.epoch, 77);
  EXPECT_EQ(r.nonce, 0x1122334455667788ULL);
  EXPECT_EQ(r.kind, 2);
  EXPECT_EQ(r.timestamp_echo, 0x01020304U);
  EXPECT_EQ(reply.src_port, 50001);
  EXPECT_EQ(p.b.rx.conn(ConnIndex{1})->paths[1].epoch(), 0)
      << "a probe changes no epoch";  // [MR-9.3.6]
}

}  // namespace
}  // namespace metaroce::test
