// RxPath against a model that keeps a set of numbers instead of a ring of bits.
#include "transport/rx_path.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/rng.h"

namespace metaroce {
namespace {

// A pool for one path.
struct OneRing {
  RxRingPool pool{1};
  RxPath::Rings rings{pool, 7};
};

// Numbers are unwrapped to 64 bits, so that the model needs no serial arithmetic.
struct Model {
  std::int64_t first = 0, cum = 0, highest = 0;  // below `first` all count as arrived
  std::set<std::int64_t> seen;                   // within [cum - 256, cum + 256)
  std::uint32_t late = 0, received = 0, ce = 0;

  void start(std::int64_t initial) {
    first = cum = initial;
    highest = initial - 1;
  }
  void settle() {
    while (seen.count(cum) != 0) ++cum;
    while (!seen.empty() && *seen.begin() < cum - 256) seen.erase(seen.begin());
  }
  void raise_floor(std::int64_t pseq, std::uint8_t delta) {
    cum = std::max(cum, pseq - delta);
    settle();
  }
  RxPath::Arrival accept(std::int64_t pseq, bool marked) {
    ++received;
    ce += marked ? 1 : 0;
    if (pseq < cum - 256 || pseq < first || seen.count(pseq) != 0)
      return RxPath::Arrival::kRepeated;
    RxPath::Arrival a = RxPath::Arrival::kInOrder;
    if (pseq > highest) {
      if (pseq > std::max(highest + 1, cum)) a = RxPath::Arrival::kGap;
      highest = pseq;
    } else {
      ++late;
      a = pseq < cum ? RxPath::Arrival::kLate : RxPath::Arrival::kFill;
    }
    seen.insert(pseq);
    settle();
    return a;
  }
};

// A sender that abandons, a network that loses, repeats and reorders. [MR-2.3.2] [MR-2.3.3]
// [MR-2.3.6] [MR-3.6.3]
TEST(RxPath, accept__agrees_with_a_set) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    // Wraps within the run in most seeds.
    const std::int64_t initial = 0xffffffff - rng.below(3000);
    OneRing ring;
    RxPath path;
    path.start(PathSeq{static_cast<std::uint32_t>(initial)});
    Model model;
    model.start(initial);
    struct Packet {
      std::int64_t pseq;
      std::uint8_t delta;
    };
    std::vector<Packet> flying;
    std::int64_t next = initial, floor = initial;
    const std::uint32_t loss = rng.below(300000), spread = 1 + rng.below(seed % 3 == 0 ? 400 : 40);
    for (int step = 0; step < 6000; ++step) {
      if (rng.below(3) != 0 || flying.empty()) {
        if (next - floor >= 255) floor = next - rng.below(200);
        if (rng.below(20) == 0) floor += rng.below(static_cast<std::uint32_t>(next - floor + 1));
        const Packet p{next, static_cast<std::uint8_t>(next - floor)};
        ++next;
        if (!rng.chance_ppm(loss)) flying.push_back(p);
        if (rng.chance_ppm(50000)) flying.push_back(p);
        continue;
      }
      const std::size_t at =
          rng.below(std::min<std::uint32_t>(static_cast<std::uint32_t>(flying.size()), spread));
      const Packet p = flying[at];
      if (!rng.chance_ppm(100000)) flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(at));
      const PathSeq pseq{static_cast<std::uint32_t>(p.pseq)};
      if (!path.plausible(pseq)) continue;
      const bool ce = rng.below(10) == 0;
      path.raise_floor(ring.rings, pseq, p.delta);
      model.raise_floor(p.pseq, p.delta);
      ASSERT_EQ(path.accept(ring.rings, pseq, WireTime{1}, ce, step), model.accept(p.pseq, ce))
          << step;
      ASSERT_EQ(path.cum().v, static_cast<std::uint32_t>(model.cum)) << step;
      ASSERT_EQ(path.highest().v, static_cast<std::uint32_t>(model.highest)) << step;
      ASSERT_EQ(path.late(), static_cast<std::uint16_t>(model.late)) << step;
      ASSERT_EQ(path.received(), model.received);
      ASSERT_EQ(path.ce_packets(), model.ce);
      const SackVector sack = path.sack();
      for (unsigned i = 0; i < 256; ++i)
        ASSERT_EQ(sack.test(i), model.seen.count(model.cum + i) != 0) << step << " bit " << i;
    }
    EXPECT_GT(model.received, 1000U);
  }
}

// Jumps of the floor beyond the ring: nothing of the old numbers may shine through.
TEST(RxPath, raise_floor__far_jumps_agree_with_a_set) {
  Rng rng(3);
  std::int64_t at = 0xfffff000;
  OneRing ring;
  RxPath path;
  path.start(PathSeq{static_cast<std::uint32_t>(at)});
  Model model;
  model.start(at);
  for (int step = 0; step < 3000; ++step) {
    at += rng.below(rng.below(4) == 0 ? 1200 : 300);
    const auto delta = static_cast<std::uint8_t>(rng.below(256));
    const PathSeq pseq{static_cast<std::uint32_t>(at)};
    ASSERT_TRUE(path.plausible(pseq));
    path.raise_floor(ring.rings, pseq, delta);
    model.raise_floor(at, delta);
    ASSERT_EQ(path.accept(ring.rings, pseq, WireTime{}, false, 0), model.accept(at, false)) << step;
    ASSERT_EQ(path.cum().v, static_cast<std::uint32_t>(model.cum)) << step;
    for (unsigned i = 0; i < 256; ++i)
      ASSERT_EQ(path.sack().test(i), model.seen.count(model.cum + i) != 0);
    // What lies behind is repeated exactly when the model remembers it.
    const std::int64_t back = model.cum - 1 - rng.below(300);
    ASSERT_EQ(
        path.accept(ring.rings, PathSeq{static_cast<std::uint32_t>(back)}, WireTime{}, false, 0),
        model.accept(back, false));
    ASSERT_EQ(path.late(), static_cast<std::uint16_t>(model.late)) << step;
  }
}

// [MR-2.3.7] Below cum nothing is acknowledged again; the second copy does not count as late.
TEST(RxPath, accept__late_once_then_repeated) {
  OneRing ring;
  RxPath p;
  p.start(PathSeq{100});
  p.raise_floor(ring.rings, PathSeq{110}, 0);  // 100 .. 109 abandoned
  EXPECT_EQ(p.accept(ring.rings, PathSeq{110}, WireTime{}, false, 0), RxPath::Arrival::kInOrder);
  EXPECT_EQ(p.cum(), PathSeq{111});
  EXPECT_EQ(p.accept(ring.rings, PathSeq{105}, WireTime{}, false, 0), RxPath::Arrival::kLate);
  EXPECT_EQ(p.accept(ring.rings, PathSeq{105}, WireTime{}, false, 0), RxPath::Arrival::kRepeated);
  EXPECT_EQ(p.late(), 1);
  EXPECT_EQ(p.cum(), PathSeq{111});
  EXPECT_FALSE(p.sack().any());
}

// [MR-4.2.1]
TEST(RxPath, plausible__4096_either_way) {
  OneRing ring;
  RxPath p;
  p.start(PathSeq{0});  // highest is 0xffffffff
  EXPECT_TRUE(p.plausible(PathSeq{4095}));
  EXPECT_FALSE(p.plausible(PathSeq{4096}));
  EXPECT_TRUE(p.plausible(PathSeq{0xffffffffU - 4096}));
  EXPECT_FALSE(p.plausible(PathSeq{0xffffffffU - 4097}));
  EXPECT_FALSE(p.plausible(PathSeq{0x7fffffffU}));
}

// Rejected packets are seen although they are not recorded as received.
TEST(RxPath, plausible__follows_rejected_packets) {
  OneRing ring;
  RxPath p;
  p.start(PathSeq{0xfffffff0});
  for (std::uint32_t i = 0; i < 10000; ++i) {
    const PathSeq s{0xfffffff0 + i};
    ASSERT_TRUE(p.plausible(s)) << i;
    p.raise_floor(ring.rings, s, static_cast<std::uint8_t>(i < 3 ? i : 3));
    p.count_reject();
  }
  EXPECT_FALSE(p.any());
}

// [MR-4.2.3] modulo 256.
TEST(RxPath, classify__current_next_old_bad) {
  OneRing ring;
  RxPath p;
  p.start(PathSeq{0});
  for (int round = 0; round < 300; ++round) {
    const std::uint8_t e = p.epoch();
    unsigned bad = 0;
    for (unsigned x = 0; x < 256; ++x) {
      const auto c = p.classify(static_cast<std::uint8_t>(x));
      if (x == e)
        EXPECT_EQ(c, RxPath::Epoch::kCurrent);
      else if (x == static_cast<std::uint8_t>(e + 1))
        EXPECT_EQ(c, RxPath::Epoch::kNext);
      else if (x == static_cast<std::uint8_t>(e - 1))
        EXPECT_EQ(c, RxPath::Epoch::kOld);
      else
        bad += c == RxPath::Epoch::kBad ? 1 : 0;
    }
    EXPECT_EQ(bad, 253U);
    p.begin_epoch(ring.pool, static_cast<std::uint8_t>(e + 1),
                  PathSeq{static_cast<std::uint32_t>(round)}, 0);
  }
}

// [MR-9.3.3] cum and bits start anew, [MR-9.3.7] counters and numbers run on.
TEST(RxPath, begin_epoch__clears_bits_and_keeps_counters) {
  OneRing ring;
  RxPath p;
  p.start(PathSeq{0xfffffffe});
  for (const std::uint32_t s : {0xfffffffeU, 0U, 5U})
    p.accept(ring.rings, PathSeq{s}, WireTime{}, true, 0);
  EXPECT_TRUE(p.sack().any());
  p.begin_epoch(ring.pool, 1, PathSeq{20}, 3);
  EXPECT_EQ(p.cum(), PathSeq{17});
  EXPECT_EQ(p.highest(), PathSeq{16});
  EXPECT_FALSE(p.sack().any());
  EXPECT_FALSE(p.any());
  EXPECT_EQ(p.received(), 3U);
  EXPECT_EQ(p.ce_packets(), 3U);
  EXPECT_EQ(p.accept(ring.rings, PathSeq{20}, WireTime{}, false, 0), RxPath::Arrival::kGap);
  EXPECT_EQ(p.received(), 4U);
}

// [MR-3.6.2] [MR-3.6.4] [MR-3.6.5] byte by byte.
TEST(RxPath, write_block__bytes) {
  OneRing ring;
  RxPath p;
  p.start(PathSeq{0x01020300});
  std::uint8_t out[64];
  p.accept(ring.rings, PathSeq{0x01020300}, WireTime{0x0a0b0c0d}, false, 64000);
  ASSERT_EQ(p.write_block(out, PathId{7}, 64000 + 64 * 0x1234), 32U);  // nothing above cum: no SACK
  const std::uint8_t plain[32] = {7,    0,    0, 0, 1, 2, 3, 1, 1, 2, 3, 0, 0x0a, 0x0b, 0x0c, 0x0d,
                                  0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0,    0,    1};
  EXPECT_EQ(std::memcmp(out, plain, 32), 0);

  p.accept(ring.rings, PathSeq{0x01020303}, WireTime{0x11223344}, true, 64000);   // cum + 2
  p.accept(ring.rings, PathSeq{0x01020302}, WireTime{0x55555555}, false, 64000);  // cum + 1, late
  p.accept(ring.rings, PathSeq{0x01020301 + 255}, WireTime{0x99999999}, false, 64000);
  p.count_reject();
  ASSERT_EQ(p.write_block(out, PathId{7}, 64000 + 64LL * 0xffff), 64U);
  const std::uint8_t full[32] = {7,    0,    1, 0, 1, 2, 3, 1, 1, 2, 4, 0, 0x99, 0x99, 0x99, 0x99,
                                 0xff, 0xff, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0,    0,    0,    4};
  EXPECT_EQ(std::memcmp(out, full, 32), 0);
  std::uint8_t sack[32] = {};
  sack[0] = 0x06;
  sack[31] = 0x80;
  EXPECT_EQ(std::memcmp(out + 32, sack, 32), 0);
}

// [MR-7.2.1] Without a received packet there is nothing to measure.
TEST(RxPath, write_block__no_sample_before_the_first_packet) {
  OneRing ring;
  RxPath p;
  p.start(PathSeq{1});
  std::uint8_t out[64];
  ASSERT_EQ(p.write_block(out, PathId{0}, 100), 32U);
  EXPECT_EQ(out[16], 0xff);
  EXPECT_EQ(out[17], 0xff);
  EXPECT_EQ(out[11], 0);  // highest = cum - 1
}

// A ring while something is missing and until 256 numbers without a hole have passed. [MR-2.3.6]
TEST(RxPath, ring__only_while_there_is_something_to_remember) {
  OneRing ring;
  RxPath p;
  p.start(PathSeq{0xfffffff0});
  std::uint32_t n = 0xfffffff0;
  for (int i = 0; i < 1000; ++i, ++n) {
    p.raise_floor(ring.rings, PathSeq{n}, 0);
    ASSERT_EQ(p.accept(ring.rings, PathSeq{n}, WireTime{}, false, 0), RxPath::Arrival::kInOrder);
  }
  EXPECT_EQ(ring.pool.used(), 0U);
  ++n;
  EXPECT_EQ(p.accept(ring.rings, PathSeq{n}, WireTime{}, false, 0), RxPath::Arrival::kGap);
  EXPECT_EQ(ring.pool.used(), 1U);
  EXPECT_EQ(p.accept(ring.rings, PathSeq{n - 1}, WireTime{}, false, 0), RxPath::Arrival::kFill);
  EXPECT_EQ(ring.pool.used(), 0U) << "nothing is missing";
  n += 2;  // one that never comes
  for (int i = 0; i < 256; ++i, ++n) {
    EXPECT_EQ(ring.pool.used(), i == 0 ? 0U : 1U) << i;
    p.raise_floor(ring.rings, PathSeq{n}, 0);
    ASSERT_EQ(p.accept(ring.rings, PathSeq{n}, WireTime{}, false, 0), RxPath::Arrival::kInOrder);
  }
  EXPECT_EQ(ring.pool.used(), 0U);
  EXPECT_EQ(p.cum(), PathSeq{n});
}

// Without a ring nothing beyond a hole is acknowledged, and the path goes on when the hole is
// filled or given up.
TEST(RxPath, ring__none_is_free) {
  RxRingPool none(0);
  const RxPath::Rings rings{none, 1};
  RxPath p;
  p.start(PathSeq{100});
  EXPECT_EQ(p.accept(rings, PathSeq{101}, WireTime{}, false, 0), RxPath::Arrival::kUnrecorded);
  EXPECT_EQ(p.cum(), PathSeq{100});
  EXPECT_EQ(p.highest(), PathSeq{99});
  EXPECT_FALSE(p.sack().any());
  EXPECT_EQ(p.accept(rings, PathSeq{100}, WireTime{}, false, 0), RxPath::Arrival::kInOrder);
  p.raise_floor(rings, PathSeq{104}, 1);
  EXPECT_EQ(p.cum(), PathSeq{103});
  EXPECT_EQ(p.accept(rings, PathSeq{102}, WireTime{}, false, 0), RxPath::Arrival::kRepeated);
  EXPECT_EQ(p.accept(rings, PathSeq{103}, WireTime{}, false, 0), RxPath::Arrival::kInOrder);
  EXPECT_EQ(p.late(), 0);
  EXPECT_EQ(none.refused(), 2U);
}

// After long silence: what lay beyond the hole is not acknowledged any more, and may come again.
TEST(RxPath, forget__beyond_the_hole) {
  OneRing ring;
  RxPath p;
  p.start(PathSeq{100});
  p.accept(ring.rings, PathSeq{102}, WireTime{}, false, 0);
  p.forget(ring.pool);
  EXPECT_EQ(ring.pool.used(), 0U);
  EXPECT_EQ(p.cum(), PathSeq{100});
  EXPECT_EQ(p.highest(), PathSeq{99});
  EXPECT_FALSE(p.sack().any());
  EXPECT_EQ(p.accept(ring.rings, PathSeq{102}, WireTime{}, false, 0), RxPath::Arrival::kGap);
}

}  // namespace
}  // namespace metaroce
