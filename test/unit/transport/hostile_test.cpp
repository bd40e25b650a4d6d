// Packets that an honest peer would not send, recorded from a real run and damaged on purpose.
#include "support/workload.h"

namespace metaroce::test {
namespace {

struct Recorder {
  std::vector<Frame> to_a, to_b;
  void attach(World& w) {
    w.ab.drop_if = [this](const Frame& f) {
      keep(to_b, f);
      return false;
    };
    w.ba.drop_if = [this](const Frame& f) {
      keep(to_a, f);
      return false;
    };
  }
  static void keep(std::vector<Frame>& all, const Frame& f) {
    if (all.size() < 4000) all.push_back(f);
  }
};

// Bits, bytes, fields of the common header and beyond, cuts, growth.
void mutate(Frame& f, Rng& rng) {
  for (std::uint32_t n = 1 + rng.below(4); n != 0 && !f.bytes.empty(); --n) {
    const auto size = static_cast<std::uint32_t>(f.bytes.size());
    const std::uint32_t at = rng.below(std::min(size, rng.below(3) == 0 ? size : 96U));
    switch (rng.below(6)) {
      case 0:
        f.bytes[at] ^= static_cast<std::uint8_t>(1U << rng.below(8));
        break;
      case 1:
        f.bytes[at] = static_cast<std::uint8_t>(rng.next());
        break;
      case 2: {  // a whole field, to values at the edges
        constexpr std::uint32_t kEdges[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x00ffffff};
        const std::uint32_t v = kEdges[rng.below(6)];
        for (std::uint32_t k = 0; k < 4 && (at & ~3U) + k < size; ++k)
          f.bytes[(at & ~3U) + k] = static_cast<std::uint8_t>(v >> (24 - 8 * k));
        break;
      }
      case 3: {  // a field moved a little: numbers around the live ones
        const std::uint32_t i = at & ~3U;
        if (i + 4 > size) break;
        wire::Be32 v;
        std::memcpy(&v, f.bytes.data() + i, 4);
        v = v + rng.below(600) - 300;
        std::memcpy(f.bytes.data() + i, &v, 4);
        break;
      }
      case 4:
        f.bytes.resize(rng.below(size + 1));
        break;
      default:
        f.bytes.resize(size + rng.below(80), 0xff);
        break;
    }
  }
}

void inject(Host& h, const Frame& f, const IpAddress& from) {
  const Frame copy = f;  // on the heap, of exactly its size: the sanitizer sees one byte too many
  h.deliver(copy, from);
}

// [MR-4.1.4] [MR-4.1.5] [MR-10.2.1] [MR-10.2.5] Everything goes in, also what only an on-path
// attacker could send: nothing stops, invariants hold, pools keep their bounds.
TEST(Hostile, anything__stops_nobody) {
  std::uint64_t injected = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    WorldOptions o;
    o.seed = seed;
    o.streams = 2;
    o.ordered = seed % 2 == 0;
    World w(o);
    w.check_invariants = true;
    Recorder r;
    r.attach(w);
    Workload load(w, 40);
    Rng rng(seed);
    for (unsigned step = 0; step < 400 && !::testing::Test::HasFatalFailure(); ++step) {
      load.feed();
      w.step();
      for (const bool to_b : {true, false}) {
        const auto& all = to_b ? r.to_b : r.to_a;
        if (all.empty()) continue;
        const auto size = static_cast<std::uint32_t>(all.size());
        Frame f =
            all[rng.below(2) != 0 ? rng.below(size) : size - 1 - rng.below(std::min(size, 16U))];
        if (rng.below(8) != 0) mutate(f, rng);
        inject(to_b ? w.b : w.a, f, to_b ? w.a.ip : w.b.ip);
        ++injected;
      }
      const RxConn* c = w.b.rx.conn(ConnIndex{1});
      ASSERT_LE(c->held, w.config.ordered_hold_packets);
      ASSERT_LE(c->ack_streams.size(), RxConn::kMaxAckStreams);
      ASSERT_LE(w.a.queues.rx_to_tx.room(), o.queues.rx_to_tx);
    }
    ASSERT_EQ(w.a.tx.validate(), nullptr) << w.replay();
    ASSERT_EQ(w.b.tx.validate(), nullptr) << w.replay();
    w.run_for(seed % 20 == 0 ? 5 * kSecond : 10 * kMillisecond);  // finishes or fails
  }
  EXPECT_GT(injected, 10000U);
}

// [MR-3.2.2] [MR-3.2.3] [MR-4.1.3] [MR-4.1.6] With the trailer, damage of any kind and any number
// of replays beside an honest transfer: every byte in its place, once.
TEST(Hostile, damage_and_replays__with_crc_change_nothing) {
  std::uint64_t injected = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    WorldOptions o;
    o.seed = seed;
    o.streams = 2;
    o.crc = true;
    World w(o);
    w.check_invariants = true;
    w.ab.faults.loss_ppm = w.ba.faults.loss_ppm = 10000;
    Recorder r;
    r.attach(w);
    Workload load(w, 40);
    Rng rng(seed);
    const bool finished = w.run_until(
        [&] {
          load.feed();
          for (const bool to_b : {true, false}) {
            const auto& all = to_b ? r.to_b : r.to_a;
            if (all.empty()) continue;
            const auto size = static_cast<std::uint32_t>(all.size());
            for (unsigned k = 0; k < 4; ++k) {
              Frame f = all[rng.below(size)];
              if (rng.below(3) != 0) mutate(f, rng);
              inject(to_b ? w.b : w.a, f, to_b ? w.a.ip : w.b.ip);
              ++injected;
            }
          }
          return load.done();
        },
        3 * kSecond);
    ASSERT_TRUE(finished) << w.replay();
    load.check();
  }
  EXPECT_GT(injected, 10000U);
}

// [MR-10.1.4] [MR-4.1.2] [MR-4.1.3] [MR-4.2.1] [MR-4.2.4] Without the trailer: what a sender that
// sees no traffic can do. He misses at least one of the numbers; each packet is one drop, named.
TEST(Hostile, off_path__misses_are_dropped_by_name) {
  std::uint64_t injected = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    WorldOptions o;
    o.seed = seed;
    World w(o);
    w.check_invariants = true;
    Recorder r;
    r.attach(w);
    Workload load(w, 30);
    Rng rng(seed);
    const bool finished = w.run_until(
        [&] {
          load.feed();
          if (r.to_b.empty()) return load.done();
          Frame f = r.to_b[rng.below(static_cast<std::uint32_t>(r.to_b.size()))];
          auto& c = *reinterpret_cast<wire::Common*>(f.bytes.data());
          const bool numbered = c.type() == wire::Type::kData || c.type() == wire::Type::kFlush;
          IpAddress from = w.a.ip;
          DropReason want{};
          const RxPath& path = w.b.rx.conn(ConnIndex{1})->paths[c.path];
          switch (rng.below(numbered ? 9U : 7U)) {
            case 0:
              c.dcid = c.dcid ^ (1U + rng.below(255));
              want = DropReason::kStaleConn;
              break;
            case 1:
              c.dcid = (2 + rng.below(0x00fffffd)) << 8 | 0x5a;
              want = DropReason::kUnknownConn;
              break;
            case 2:
              c.path = static_cast<std::uint8_t>(4 + rng.below(252));
              want = DropReason::kPath;
              break;
            case 3:
              from = IpAddress::v4(10, 0, 0, 9);
              want = DropReason::kSourceAddress;
              break;
            case 4:
              c.ver_type = static_cast<std::uint8_t>(c.ver_type ^ (1U + rng.below(15)) << 4);
              want = DropReason::kVersion;
              break;
            case 5:
              c.ver_type = static_cast<std::uint8_t>((wire::kVersion << 4) | (8 + rng.below(8)));
              want = DropReason::kType;
              break;
            case 6:
              f.bytes.resize(rng.below(16));
              want = DropReason::kTooShort;
              break;
            case 7:
              c.epoch = static_cast<std::uint8_t>(2 + rng.below(253));
              want = DropReason::kPathEpoch;
              break;
            default:
              c.pseq = path.highest().v + 5000 + rng.below(0xffffffffU - 10000);
              want = DropReason::kPathSeq;
          }
          const std::uint64_t before = w.b.rx.counters().drops[want], sent = w.ba.sent;
          const std::uint64_t acks = w.b.rx.counters().acks_sent;
          std::uint64_t all = 0, after = 0;
          for (const auto n : w.b.rx.counters().drops.n) all += n;
          inject(w.b, f, from);
          for (const auto n : w.b.rx.counters().drops.n) after += n;
          EXPECT_EQ(w.b.rx.counters().drops[want], before + 1)
              << kDropReasonInfo[static_cast<std::size_t>(want)].name;
          EXPECT_EQ(after, all + 1);
          EXPECT_EQ(w.ba.sent, sent) << "answered";  // [MR-4.1.6] [MR-7.1.8]
          EXPECT_EQ(w.b.rx.counters().acks_sent, acks);
          ++injected;
          return load.done();
        },
        3 * kSecond);
    ASSERT_TRUE(finished) << w.replay();
    load.check();
  }
  EXPECT_GT(injected, 1000U);
}

}  // namespace
}  // namespace metaroce::test
