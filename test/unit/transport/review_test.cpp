// Regressions of the data path: states that stuck, events of a former owner, ranges of serial
// numbers. Each test names the sequence that once went wrong.
#include <sys/mman.h>

#include "support/world.h"

namespace metaroce::test {
namespace {

constexpr std::uint32_t kSrcKey = (1 << 12) | 5, kDstKey = (2 << 12) | 9;

WorkRequest write_of(const World& w, std::uint32_t stream, const Host::Memory& src,
                     const Host::Memory& dst, std::uint32_t length, std::uint64_t id = 1) {
  WorkRequest r{};
  r.wr_id = id;
  r.op = static_cast<std::uint8_t>(WorkOp::kWrite);
  r.flags = kWorkSignaled;
  r.local_addr = src.va;
  r.lkey = src.key;
  r.remote_addr = dst.va;
  r.rkey = dst.key;
  r.length = length;
  r.stream = w.handle(stream);
  return r;
}

WorkRequest send_of(const World& w, std::uint32_t stream, const Host::Memory& src,
                    std::uint32_t length, std::uint64_t id = 1) {
  WorkRequest r = write_of(w, stream, src, src, length, id);
  r.op = static_cast<std::uint8_t>(WorkOp::kSend);
  return r;
}

WorkRequest receive_of(const World& w, std::uint32_t stream, const Host::Memory& dst,
                       std::uint32_t length) {
  WorkRequest r{};
  r.stream = w.handle(stream);
  r.local_addr = dst.va;
  r.lkey = dst.key;
  r.length = length;
  return r;
}

wire::Type type_of(const Frame& f) { return static_cast<wire::Type>(f.bytes[0] & 0x0f); }

struct Pair {
  explicit Pair(const WorldOptions& o)
      : w(o),
        src(w.a.add_memory(1 << 16, kSrcKey, kAccessLocalWrite)),
        dst(w.b.add_memory(1 << 16, kDstKey, kAccessLocalWrite | kAccessRemoteWrite)) {
    for (std::size_t i = 0; i < src.bytes.size(); ++i)
      src.bytes[i] = static_cast<std::uint8_t>(mix64(i) | 1);
  }
  void run(Nanos t, Nanos step = 20 * kMicrosecond) {
    for (const Nanos end = w.now + t; w.now < end;) w.step(step);
  }
  [[nodiscard]] std::size_t failures() const {
    std::size_t n = 0;
    for (const auto& e : w.a.events) n += e.kind == TxToControlKind::kConnFailed ? 1 : 0;
    return n;
  }
  World w;
  Host::Memory &src, &dst;
};

// A keepalive whose answer was lost must not count against a peer that acknowledged data since.
TEST(Review, keepalive__lost_probe_then_light_traffic_is_alive) {
  WorldOptions o;
  o.config.keepalive = 100 * kMillisecond;
  o.config.dead_peer_timeout = 400 * kMillisecond;
  Pair p(o);
  bool lose = true;
  p.w.ab.drop_if = [&](const Frame& f) { return lose && type_of(f) == wire::Type::kProbe; };
  p.run(130 * kMillisecond);
  ASSERT_GT(p.w.a.tx.counters().probes, 0U);
  lose = false;
  for (std::uint64_t i = 0; i < 60; ++i) {
    ASSERT_TRUE(p.w.a.sends.push(write_of(p.w, 0, p.src, p.dst, 100, i)));
    p.run(10 * kMillisecond);
  }
  EXPECT_EQ(p.failures(), 0U);
  EXPECT_EQ(p.w.a.sent_completions.size(), 60U);
  for (const auto& c : p.w.a.sent_completions) EXPECT_EQ(c.status, 0);
}

// A silent path that a probe's answer revives carries new data again, though no ACK ever comes.
TEST(Review, probe_reply__opens_the_path) {
  WorldOptions o;
  o.paths = 1;
  o.streams = 2;
  o.config.keepalive = 0;
  Pair p(o);
  ASSERT_TRUE(p.w.a.sends.push(write_of(p.w, 0, p.src, p.dst, 100)));
  ASSERT_TRUE(p.w.a.sends.push(send_of(p.w, 0, p.src, 100)));  // no receive: it asks for credit
  p.w.ba.drop_if = [](const Frame& f) { return type_of(f) != wire::Type::kProbeReply; };
  const auto stuck = [&] {
    const auto* c = p.w.a.tx.conn(ConnIndex{1});
    return p.w.a.sent_completions.size() == 1 && c->unresolved == 0 && c->waiting == 0 &&
           p.w.a.tx.path(ConnIndex{1}, 0).health.carries() &&
           p.w.a.tx.path(ConnIndex{1}, 0).timeouts != 0;
  };
  ASSERT_TRUE(p.w.run_until(stuck, 500 * kMillisecond));
  p.w.ba.drop_if = nullptr;
  ASSERT_TRUE(p.w.a.sends.push(write_of(p.w, 1, p.src, p.dst, 100)));
  EXPECT_TRUE(p.w.run_until([&] { return p.w.a.sent_completions.size() == 2; }, 20 * kMillisecond));
}

Command change_port() {
  Command k;
  k.kind = CommandKind::kChangePort;
  k.id = 1;
  return k;
}

// The peer follows one epoch at a time: two changes without a packet in between are one epoch.
TEST(Review, port_change__twice_while_idle) {
  WorldOptions o;
  o.paths = 1;
  Pair p(o);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(p.w.a.to_tx(change_port()).ok);
  ASSERT_TRUE(p.w.a.sends.push(write_of(p.w, 0, p.src, p.dst, 5000)));
  EXPECT_TRUE(
      p.w.run_until([&] { return p.w.a.sent_completions.size() == 1; }, 100 * kMillisecond));
}

// Nor may a second change come before the peer has seen the first.
TEST(Review, port_change__again_while_the_first_is_unseen) {
  WorldOptions o;
  o.paths = 1;
  Pair p(o);
  ASSERT_TRUE(p.w.a.to_tx(change_port()).ok);
  p.w.ab.drop_if = [](const Frame&) { return true; };
  ASSERT_TRUE(p.w.a.sends.push(write_of(p.w, 0, p.src, p.dst, 100)));
  p.run(5 * kMillisecond);
  ASSERT_TRUE(p.w.a.to_tx(change_port()).ok);
  p.run(5 * kMillisecond);
  p.w.ab.drop_if = nullptr;
  EXPECT_TRUE(
      p.w.run_until([&] { return p.w.a.sent_completions.size() == 1; }, 500 * kMillisecond));
  ASSERT_TRUE(p.w.a.sends.push(write_of(p.w, 0, p.src, p.dst, 100)));
  EXPECT_TRUE(
      p.w.run_until([&] { return p.w.a.sent_completions.size() == 2; }, 500 * kMillisecond));
  EXPECT_GE(p.w.a.tx.counters().epoch_changes, 1U);
  EXPECT_FALSE(p.w.a.tx.path(ConnIndex{1}, 0).draining);
}

// What RX said of a connection that is gone must not touch the one that has its index now.
TEST(Review, feedback__of_a_former_owner_is_ignored) {
  WorldOptions o;
  Pair p(o);
  RxToTx e;
  e.kind = RxToTxKind::kPathAck;
  e.conn = ConnIndex{1};
  e.generation = 0x5a;
  e.path = 200;  // it had more paths
  p.w.a.queues.rx_to_tx.push(e);
  e.path = 0;
  e.generation = 0x5b;
  p.w.a.queues.rx_to_tx.push(e);
  p.w.step();
  EXPECT_FALSE(p.w.a.tx.conn(ConnIndex{1})->ever_answered);
}

// More streams have news than one ACK has room for: the rest follows at once.
TEST(Review, stream_blocks__beyond_one_ack_are_not_forgotten) {
  WorldOptions o;
  o.streams = 60;
  Pair p(o);
  ASSERT_TRUE(p.w.b.sends.push(write_of(p.w, 0, p.dst, p.src, 0)));  // b's peer is known by then
  ASSERT_TRUE(p.w.a.sends.push(write_of(p.w, 0, p.src, p.dst, 0)));
  p.run(kMillisecond);
  p.w.b.starve_replies = true;
  for (std::uint32_t s = 0; s < 60; ++s) {
    ASSERT_TRUE(p.w.b.receives.push(receive_of(p.w, s, p.dst, 100)));
  }
  p.run(100 * kMicrosecond);
  p.w.b.starve_replies = false;
  p.run(100 * kMicrosecond);
  for (std::uint32_t s = 0; s < 60; ++s) {
    EXPECT_EQ(p.w.a.tx.stream(p.w.handle(s))->credit_limit(), RecvNumber{1}) << "stream " << s;
  }
}

// A buffer that a port still holds delays its own region's removal, not everybody's commands.
TEST(Review, remove_region__held_by_a_port_blocks_nobody_else) {
  Pair p(WorldOptions{});
  ASSERT_TRUE(p.w.a.sends.push(write_of(p.w, 0, p.src, p.dst, 100)));
  p.w.a.tx_io.busy_works = {0};
  p.run(kMillisecond);
  Command k;
  k.kind = CommandKind::kRemoveRegion;
  k.id = kSrcKey;
  EXPECT_FALSE(p.w.a.to_tx(k).ok);  // no result yet
  EXPECT_TRUE(p.w.a.to_tx(change_port()).ok);
  p.w.a.tx_io.busy_works.clear();
  p.w.now += kMillisecond;
  p.w.a.tx.poll(p.w.now);
  p.w.a.tx.poll(p.w.now);
  TxToControl e;
  bool done = false;
  while (p.w.a.queues.tx_to_control.pop(e))
    done |= e.kind == TxToControlKind::kResult && e.result.ok;
  EXPECT_TRUE(done);
}

// Long requests posted far ahead: their packets must not span half of the spn space.
TEST(Review, submissions__packets_ahead_stay_comparable) {
  WorldOptions o;
  o.mtu = 1024;
  o.send_depth = 2048;
  World w(o);
  constexpr std::size_t kLength = std::size_t{1} << 31;
  void* zeros =
      mmap(nullptr, kLength, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  RegionParams region{kSrcKey, ClientId{1}, 1, 0x1000, static_cast<std::uint8_t*>(zeros), kLength,
                      0};
  Command k;
  k.kind = CommandKind::kAddRegion;
  k.region = &region;
  ASSERT_TRUE(w.a.to_tx(k).ok);
  w.ab.drop_if = [](const Frame&) { return true; };
  std::uint32_t posted = 0;
  for (int i = 0; i < 2000 && !::testing::Test::HasFailure(); ++i) {
    WorkRequest r{};
    r.stream = w.handle(0);
    r.local_addr = 0x1000;
    r.lkey = kSrcKey;
    r.length = 1U << 31;
    while (posted < 2000 && w.a.sends.push(r)) ++posted;
    w.step();
    const SendStream& s = *w.a.tx.stream(w.handle(0));
    EXPECT_GE(s.end_spn() - s.cum(), 0);
  }
  EXPECT_GT(w.a.tx.counters().timeouts, 0U);  // resends looked their requests up
  munmap(zeros, kLength);
}

// A stream that waits for credit asks on every path in turn: one of them may be dead.
TEST(Review, credit_probe__does_not_insist_on_a_dead_path) {
  WorldOptions o;
  o.paths = 2;
  o.config.keepalive = 0;
  Pair p(o);
  ASSERT_TRUE(p.w.a.sends.push(send_of(p.w, 0, p.src, 100)));
  p.run(kMillisecond);
  const std::uint8_t dead = p.w.a.tx.conn(ConnIndex{1})->current_path;
  const auto on_dead_path = [dead](const Frame& f) { return f.bytes[2] == dead; };
  p.w.ab.drop_if = on_dead_path;
  p.w.ba.drop_if = [](const Frame&) { return true; };
  ASSERT_TRUE(p.w.b.receives.push(receive_of(p.w, 0, p.dst, 100)));
  p.run(2 * kMillisecond);
  p.w.ba.drop_if = on_dead_path;
  EXPECT_TRUE(
      p.w.run_until([&] { return p.w.a.sent_completions.size() == 1; }, 300 * kMillisecond));
}

// Requests that wait for a peer's receives leave room in the pool for other clients.
TEST(Review, work_pool__one_client_does_not_take_all) {
  WorldOptions o;
  o.limits.work_requests = 64;
  o.config.max_clients = 4;
  o.send_depth = 128;
  Pair p(o);
  for (std::uint64_t i = 0; i < 100; ++i)
    ASSERT_TRUE(p.w.a.sends.push(send_of(p.w, 0, p.src, 100, i)));
  p.run(kMillisecond);
  SpscRing<WorkRequest> sends(16);
  ClientParams client{ClientId{2}, sends.consumer()};
  Command k;
  k.kind = CommandKind::kAddClient;
  k.client = &client;
  ASSERT_TRUE(p.w.a.to_tx(k).ok);
  StreamParams s = p.w.a.tx.stream(p.w.handle(0))->params;
  s.client = ClientId{2};
  s.own_number = s.peer_number = 1;
  s.handle = p.w.handle(1);
  k = {};
  k.kind = CommandKind::kAddStream;
  k.stream = &s;
  ASSERT_TRUE(p.w.a.to_tx(k).ok);
  ASSERT_TRUE(p.w.b.to_rx(k).ok);
  ASSERT_TRUE(sends.push(write_of(p.w, 1, p.src, p.dst, 100)));
  EXPECT_TRUE(p.w.run_until([&] { return p.w.a.sent_completions.size() == 1; }, 5 * kMillisecond));
}

// What is left in the ring for a closed stream whose queue is gone blocks no other stream.
TEST(Review, submissions__of_a_closed_stream_without_a_queue_are_dropped) {
  WorldOptions o;
  o.streams = 2;
  Pair p(o);
  Command k;
  k.kind = CommandKind::kStopStream;
  k.id = p.w.handle(0);
  ASSERT_TRUE(p.w.a.to_tx(k).ok);
  ASSERT_TRUE(p.w.a.to_rx(k).ok);
  k.kind = CommandKind::kRemoveCq;
  k.id = 0;
  ASSERT_TRUE(p.w.a.to_tx(k).ok);
  ASSERT_TRUE(p.w.a.to_rx(k).ok);
  ASSERT_TRUE(p.w.a.sends.push(write_of(p.w, 0, p.src, p.dst, 100)));
  ASSERT_TRUE(p.w.a.receives.push(receive_of(p.w, 0, p.src, 100)));
  p.run(kMillisecond);
  EXPECT_EQ(p.w.a.sends.room(1024), 1024U);
  EXPECT_EQ(p.w.a.receives.room(1024), 1024U);
}

// [MR-6.6.6]
TEST(Review, bad_stream__is_a_remote_invalid_request) {
  Pair p(WorldOptions{});
  Command k;
  k.kind = CommandKind::kStopStream;
  k.id = p.w.handle(0);
  ASSERT_TRUE(p.w.b.to_rx(k).ok);
  ASSERT_TRUE(p.w.a.sends.push(write_of(p.w, 0, p.src, p.dst, 100)));
  ASSERT_TRUE(p.w.run_until([&] { return p.w.a.sent_completions.size() == 1; }, 20 * kMillisecond));
  EXPECT_EQ(p.w.a.sent_completions[0].status,
            static_cast<std::uint8_t>(WorkStatus::kRemoteInvalidRequest));
}

// Takes the frames of one message off the link, for the test to change and deliver.
std::vector<Frame> capture(Pair& p, const WorkRequest& r) {
  std::vector<Frame> frames;
  p.w.ab.drop_if = [&](const Frame& f) {
    if (type_of(f) == wire::Type::kData && (f.bytes[1] & wire::kFlagRtx) == 0) frames.push_back(f);
    return true;
  };
  EXPECT_TRUE(p.w.a.sends.push(r));
  p.run(20 * kMicrosecond, kMicrosecond);
  p.w.ab.drop_if = nullptr;
  return frames;
}
void deliver(Pair& p, const std::vector<Frame>& frames) {
  p.w.b.rx.begin_burst(p.w.now);
  for (const Frame& f : frames) p.w.b.deliver(f, p.w.a.ip);
  p.w.b.rx.take_receives();
  p.w.b.rx.end_burst(true, true);
}

// [MR-4.5.1]
TEST(Review, length__above_the_longest_message_fails) {
  Pair p(WorldOptions{});
  std::vector<Frame> frames = capture(p, write_of(p.w, 0, p.src, p.dst, 2000));
  ASSERT_EQ(frames.size(), 2U);
  for (Frame& f : frames)
    reinterpret_cast<wire::Write*>(f.bytes.data())->message_length = (1U << 31) + 1;
  deliver(p, frames);
  EXPECT_EQ(p.w.b.placed, 0U);
  EXPECT_GE(p.w.b.rx.counters().drops.n[static_cast<std::size_t>(DropReason::kLength)], 1U);
}

// A Send that a peer marks ORD needs the receive's rights, not those of a Write.
TEST(Review, ordered_send__is_placed_with_local_rights) {
  Pair p(WorldOptions{});
  auto& local = p.w.b.add_memory(4096, (7 << 12) | 3, kAccessLocalWrite);
  WorkRequest r = receive_of(p.w, 0, local, 4096);
  ASSERT_TRUE(p.w.b.receives.push(r));
  ASSERT_TRUE(p.w.a.sends.push(write_of(p.w, 0, p.src, p.dst, 0)));
  p.run(kMillisecond);
  std::vector<Frame> frames = capture(p, send_of(p.w, 0, p.src, 2000));
  ASSERT_EQ(frames.size(), 2U);
  frames[1].bytes[1] |= wire::kFlagOrd;
  std::swap(frames[0], frames[1]);
  deliver(p, frames);
  EXPECT_TRUE(std::equal(p.src.bytes.begin(), p.src.bytes.begin() + 2000, local.bytes.begin()));
}

}  // namespace
}  // namespace metaroce::test
