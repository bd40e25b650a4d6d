// Rate hints, pacing and the start, through the roles of two hosts. A second sender into b is
// played by hand: FLUSHes of another connection that announce much demand.
#include <gtest/gtest.h>

#include "support/pair.h"

namespace metaroce::test {
namespace {

WorldOptions options(std::uint32_t gbps = 100) {
  WorldOptions o;
  o.mtu = 4096;
  o.gbps = gbps;
  o.config.line_rate = gbps * 1000;
  return o;
}

class Contended : public Pair {
 public:
  explicit Contended(const WorldOptions& o, unsigned rivals = 1) : Pair(o) {
    for (unsigned i = 0; i < rivals; ++i) add_rival(i, o);
    ba.drop_if = [this](const Frame& f) { return see_ack(f); };
  }
  void add_rival(unsigned i, const WorldOptions& o) {
    ConnParams p;
    p.index = ConnIndex{2 + i};
    p.own_dcid = p.peer_dcid = dcid(i);
    p.own_port = p.peer_port = 47910;
    p.n_paths = p.n_planes = 1;
    p.planes[0] = PlanePair{PlaneId{0}, b.ip, rival_ip(i)};
    p.payload_mtu = o.mtu;
    p.line_rate = o.gbps * 1000;
    p.handshake_rtt = 10 * kMicrosecond;
    Command k;
    k.kind = CommandKind::kAddConn;
    k.conn = &p;
    EXPECT_TRUE(b.to_rx(k).ok);
    next.push_back(initial_pseq(p.peer_pseq_seed, PathId{0}));
  }
  // A burst from each rival to b, besides what arrives by the link.
  void rivals_send(std::uint8_t demand) {
    b.now = now;
    b.rx.begin_burst(now);
    for (unsigned i = 0; i < next.size(); ++i)
      for (unsigned k = 0; k < 8; ++k) b.deliver(packet(i, demand), rival_ip(i));
    b.rx.end_burst(true, true);
  }
  Frame packet(unsigned i, std::uint8_t demand) {
    wire::Write w{};
    w.d.c.set(wire::Type::kData);
    w.d.c.dcid = dcid(i);
    w.d.c.pseq = next[i].v;
    w.d.op = static_cast<std::uint8_t>(wire::Op::kWrite);
    w.d.stream = 60;  // not open: refused, yet it arrived
    w.d.demand = demand;
    ++next[i];
    Frame f;
    f.bytes.assign(reinterpret_cast<const std::uint8_t*>(&w),
                   reinterpret_cast<const std::uint8_t*>(&w) + sizeof w);
    f.bytes.resize(sizeof w + 4096);
    f.src_port = 50000;
    f.dst_port = 47910;
    return f;
  }
  // The rivals send at 50 Gb/s each while `t` goes by.
  void run_with_rivals(Nanos t) {
    for (const Nanos end = now + t; now < end;) {
      rivals_send(30);
      run_for(5 * kMicrosecond);
    }
  }
  bool see_ack(const Frame& f) {
    if (!is(f, wire::Type::kAck)) return false;
    const auto& ack = *reinterpret_cast<const wire::Ack*>(f.bytes.data());
    if (ack.c.dcid != conn().params.peer_dcid) return true;
    ++acks;
    last_hint = ack.rate_hint;
    last_load = ack.receive_load;
    return lose_acks;
  }
  static std::uint32_t dcid(unsigned i) { return ((2U + i) << 8) | 0x77; }
  static IpAddress rival_ip(unsigned i) {
    return IpAddress::v4(10, 0, 0, static_cast<std::uint8_t>(3 + i));
  }

  std::vector<PathSeq> next;
  bool lose_acks = false;
  std::uint64_t acks = 0;
  Mbps last_hint = 0;
  std::uint8_t last_load = 0;
};

// [MR-8.4.11] [MR-8.4.12] [MR-8.4.14]
TEST(RateHintRoles, lone_sender__no_hint_full_rate) {
  Contended p(options());
  p.write(1, 1 << 20);
  ASSERT_TRUE(p.finish(1));
  EXPECT_EQ(p.last_hint, 0U);
  EXPECT_GT(p.last_load, 200);
  EXPECT_EQ(p.conn().hint_window, Host::Tx::Conn::kNoHintWindow);
}

// [MR-8.2.9] [MR-3.1.6] [MR-7.2.7] More than the first window holds: a FLUSH in the control class
// goes ahead and says how much; at each start, and not for less. Its answer is no sample of a path.
TEST(RateHintRoles, start__is_announced) {
  Contended p(options());
  std::vector<Frame> sent;
  p.ab.drop_if = [&](const Frame& f) {
    sent.push_back(f);
    return Pair::is(f, wire::Type::kData);
  };
  p.write(1, 1 << 20);
  p.run_for(kMicrosecond);
  ASSERT_GT(sent.size(), 2U);
  ASSERT_TRUE(Pair::is(sent[0], wire::Type::kFlush));
  EXPECT_TRUE(sent[0].control);
  EXPECT_EQ(reinterpret_cast<const wire::Flush*>(sent[0].bytes.data())->demand, 21);
  for (std::size_t i = 1; i < sent.size(); ++i) {
    EXPECT_TRUE(Pair::is(sent[i], wire::Type::kData));
    EXPECT_FALSE(sent[i].control);
  }
  p.run_for(14 * kMicrosecond);
  EXPECT_FALSE(p.conn().starting);
  EXPECT_FALSE(p.conn().rtt.valid());
  EXPECT_EQ(p.conn().lowest_rtt.value(), kNever);  // no hint came with it
  p.ab.drop_if = nullptr;
  ASSERT_TRUE(p.finish(1));
  for (const std::uint32_t bytes : {4096U, 1U << 20}) {
    p.run_for(3 * kMillisecond);
    sent.clear();
    p.ab.drop_if = [&](const Frame& f) {
      sent.push_back(f);
      return false;
    };
    p.write(bytes, bytes);
    p.run_for(kMicrosecond);
    ASSERT_FALSE(sent.empty());
    EXPECT_EQ(sent[0].control, bytes > 4096);
    EXPECT_EQ(Pair::is(sent[0], wire::Type::kFlush), bytes > 4096);
    ASSERT_TRUE(p.finish(p.a.sent_completions.size() + 1));
  }
}

// [MR-7.2.7] With a hint it is the length of the way.
TEST(RateHintRoles, start__announced_into_a_crowd) {
  Contended p(options());
  p.ab.drop_if = [](const Frame& f) { return Pair::is(f, wire::Type::kData); };
  p.rivals_send(30);
  p.write(1, 1 << 20);
  p.run_for(8 * kMicrosecond);
  p.rivals_send(30);
  p.run_for(5 * kMicrosecond);
  EXPECT_EQ(p.last_hint, 49500U);
  EXPECT_EQ(p.conn().pace_rate, 49500U);
  EXPECT_FALSE(p.conn().rtt.valid());
  EXPECT_NE(p.conn().lowest_rtt.value(), kNever);
  EXPECT_LT(p.conn().lowest_rtt.value(), 11 * kMicrosecond);
}

// [MR-8.4.5] The sender hears of it although nothing of its own asks for an ACK; [MR-8.4.13] and
// paces, with no more in flight than the hint fills. [MR-8.4.15]
TEST(RateHintRoles, second_sender__pushed_and_obeyed) {
  Contended p(options());
  p.write(1, 1 << 20);
  p.write(2, 1 << 20);
  p.run_for(30 * kMicrosecond);
  const std::uint64_t before = p.acks;
  p.now += 2 * kMicrosecond;  // b looked a moment ago
  p.rivals_send(30);
  EXPECT_EQ(p.acks, before + 1);
  EXPECT_EQ(p.last_hint, 49500U);
  p.run_with_rivals(30 * kMicrosecond);
  EXPECT_EQ(p.conn().pace_rate, p.last_hint);
  EXPECT_NEAR(static_cast<double>(p.conn().pace_rate), 49500, 1000);
  const Bytes whole = Bytes{49500} * 12200 / 8000;  // 10.2 us and the slack
  EXPECT_LE(p.conn().inflight, whole + 2 * 4140);
  const std::uint64_t from = p.a.tx.counters().data_bytes;
  const Nanos start = p.now;
  p.run_with_rivals(50 * kMicrosecond);
  const std::uint64_t sent = p.a.tx.counters().data_bytes - from;
  const auto due = static_cast<std::uint64_t>(p.now - start) * 49500 / 8000;
  EXPECT_LE(sent, due + 17 * 4096);  // and the bucket
  EXPECT_GE(sent, due * 9 / 10);
}

// [MR-8.4.18] [MR-8.4.20] A queue slows a hinted sender down, no queue lets it go a little faster.
TEST(RateHintRoles, pace__follows_the_queue) {
  Contended p(options());
  for (std::uint64_t i = 0; i < 8; ++i) p.write(i, 1 << 20);
  p.run_for(20 * kMicrosecond);
  p.run_with_rivals(40 * kMicrosecond);
  const auto rate = [&] {  // of the link, in Mb/s
    const std::uint64_t from = p.a.tx.counters().data_packets;
    const Nanos start = p.now;
    p.run_with_rivals(200 * kMicrosecond);
    return static_cast<double>((p.a.tx.counters().data_packets - from) * (4096 + 86) * 8000) /
           static_cast<double>(p.now - start);
  };
  const double free = rate();
  EXPECT_NEAR(free, 49500 * 65 / 64, 400);
  p.ab.extra_delay = 10 * kMicrosecond;
  p.run_with_rivals(40 * kMicrosecond);
  EXPECT_NEAR(rate(), 49500 * 7 / 8, 800);
}

// [MR-8.4.6]
TEST(RateHintRoles, hint__expires) {
  Contended p(options());
  p.write(1, 1 << 20);
  p.write(2, 1 << 20);
  p.run_for(20 * kMicrosecond);
  p.run_with_rivals(20 * kMicrosecond);
  ASSERT_NEAR(p.conn().pace_rate, 49500, 1000);
  p.lose_acks = true;
  p.run_for(90 * kMicrosecond);
  EXPECT_NEAR(p.conn().pace_rate, 49500, 1000);
  p.run_for(60 * kMicrosecond);  // 2 srtt + 100 us are over
  EXPECT_EQ(p.conn().pace_rate, 100000U);
}

TEST(RateHintRoles, rival_finishes__free_at_once) {
  Contended p(options());
  p.write(1, 1 << 20);
  p.write(2, 1 << 20);
  p.run_for(20 * kMicrosecond);
  p.run_with_rivals(20 * kMicrosecond);
  p.rivals_send(0);
  p.run_for(12 * kMicrosecond);
  EXPECT_EQ(p.conn().pace_rate, 100000U);
}

TEST(RateHintRoles, off__neither_given_nor_followed) {
  WorldOptions o = options();
  o.config.rate_hints = false;
  Contended p(o);
  p.write(1, 1 << 20);
  p.run_for(20 * kMicrosecond);
  p.run_with_rivals(30 * kMicrosecond);
  EXPECT_EQ(p.last_hint, 0U);
  EXPECT_EQ(p.conn().pace_rate, 100000U);
  // [MR-8.3.12] The line rate is what is allowed: windows still know their target.
  EXPECT_GE(p.conn().cc.target, Bytes{100000} * p.conn().lowest_rtt.value() / 8000);
}

// [MR-8.4.7] A window that CE has shrunk stays below what the hint would allow.
TEST(RateHintRoles, ce__still_shrinks_the_window) {
  Contended p(options());
  p.ab.faults.ce_ppm = 1000000;
  p.write(1, 1 << 20);
  p.write(2, 1 << 20);
  p.run_for(20 * kMicrosecond);
  const Bytes before = p.conn().cc.window;
  p.run_with_rivals(60 * kMicrosecond);
  EXPECT_GT(p.conn().hint.total(), 0U);
  EXPECT_LT(p.conn().cc.window, before);
}

// [MR-8.2.3] A hint that is still fresh says more than the start of the connection.
TEST(RateHintRoles, restart__from_a_fresh_hint) {
  WorldOptions o = options();
  o.config.idle_restart = 20 * kMicrosecond;
  Contended p(o, 2);  // with one only, it would be alone while we are idle
  p.write(1, 1 << 18);
  p.run_for(20 * kMicrosecond);
  while (p.a.sent_completions.empty()) p.run_with_rivals(5 * kMicrosecond);
  p.run_with_rivals(40 * kMicrosecond);
  ASSERT_GT(p.conn().hint.total(), 0U);
  p.write(2, 1 << 18);
  p.step();
  EXPECT_TRUE(p.conn().starting);
  EXPECT_NEAR(static_cast<double>(p.conn().cc.window), static_cast<double>(p.conn().hint_window),
              4);
}

// [MR-8.5.1] What waits besides the packet itself; the last one says that nothing does.
TEST(RateHintRoles, demand__bits_of_the_rest) {
  Pair p(options());
  std::vector<std::uint8_t> seen;
  p.ab.drop_if = [&](const Frame& f) {
    if (Pair::is(f, wire::Type::kData)) seen.push_back(Pair::data(f).demand);
    return false;
  };
  p.write(1, 3 * 4096);
  ASSERT_TRUE(p.finish(1));
  EXPECT_EQ(seen, (std::vector<std::uint8_t>{14, 13, 0}));  // 8192 and 4096 bytes wait, then none
}

// [MR-8.4.16]
TEST(RateHintRoles, host_pressure__bursts_that_leave_packets) {
  Pair p(options());
  std::uint8_t pressure = 0;
  p.ba.drop_if = [&](const Frame& f) {
    if (Pair::is(f, wire::Type::kAck))
      pressure = reinterpret_cast<const wire::Ack*>(f.bytes.data())->host_pressure;
    return false;
  };
  p.write(1, 1 << 16);
  ASSERT_TRUE(p.finish(1));
  EXPECT_EQ(pressure, 0);
  for (int k = 0; k < 60; ++k) {
    p.b.rx.begin_burst(p.now);
    p.b.rx.end_burst(false, false);
  }
  bool first = true;
  p.ba.drop_if = [&](const Frame& f) {
    if (Pair::is(f, wire::Type::kAck) && std::exchange(first, false))
      pressure = reinterpret_cast<const wire::Ack*>(f.bytes.data())->host_pressure;
    return false;
  };
  p.write(2, 4096);
  ASSERT_TRUE(p.finish(2));
  EXPECT_GT(pressure, 100);  // some empty passes since then
}

// [MR-8.2.5] [MR-8.2.7]
TEST(RateHintRoles, start__initial_window_and_no_resend_before_an_answer) {
  WorldOptions o = options();
  o.config.initial_window = 20 * 4096;
  Pair p(o);
  std::uint64_t packets = 0, resent = 0;
  Nanos first_resend = 0;
  p.ba.drop_if = [](const Frame&) { return true; };
  p.ab.drop_if = [&](const Frame& f) {
    if (!Pair::is(f, wire::Type::kData)) return false;
    ++packets;
    if ((f.bytes[1] & wire::kFlagRtx) != 0 && ++resent == 1) first_resend = p.now;
    return true;
  };
  p.write(1, 1 << 20);
  p.run_for(190 * kMicrosecond);  // below the probe timeout
  EXPECT_EQ(resent, 0U);
  EXPECT_EQ(packets, 20U);
  p.run_for(20 * kMillisecond);
  EXPECT_GE(first_resend, 200 * kMicrosecond);
  EXPECT_GT(resent, 0U);
  EXPECT_EQ(packets - resent, 20U);
  p.ba.drop_if = p.ab.drop_if = nullptr;
  ASSERT_TRUE(p.finish(1));
  EXPECT_TRUE(p.same());
}

// [MR-8.1.4] [MR-8.1.6] The bucket loses no fraction, whenever it is looked at; pacing_wake() is
// never late.
TEST(RateHintRoles, pacing__exact_over_odd_intervals) {
  WorldOptions o = options(7);  // 7 Gb/s: nothing divides evenly
  o.config.initial_window = 8 << 20;
  o.config.max_window = 64 << 20;
  Pair p(o);
  p.write(1, 1 << 20);
  p.write(2, 1 << 20);
  Rng rng(3);
  Nanos t = p.now;
  p.a.now = t;
  p.a.tx.poll(t);
  const std::uint64_t burst = p.a.tx.counters().data_packets;
  EXPECT_EQ(burst, 16U);
  const Nanos from = t;
  for (int k = 0; k < 200; ++k) {
    const Nanos wake = p.a.tx.pacing_wake();
    ASSERT_GT(wake, t);
    ASSERT_NE(wake, kNever);
    const std::uint64_t before = p.a.tx.counters().data_packets;
    if (wake - 1 > t) {
      p.a.now = t = wake - 1;
      p.a.tx.poll(t);
      ASSERT_EQ(p.a.tx.counters().data_packets, before);
    }
    p.a.now = t = wake + (k % 4 == 0 ? static_cast<Nanos>(rng.below(3000)) : 0);
    p.a.tx.poll(t);
    ASSERT_EQ(p.a.tx.counters().data_packets, before + 1);
  }
  const std::int64_t bits = (4096 + 44 + 42) * 8 * 200;
  EXPECT_NEAR(static_cast<double>(t - from), static_cast<double>(bits) / 7, 6000);
}

}  // namespace
}  // namespace metaroce::test
