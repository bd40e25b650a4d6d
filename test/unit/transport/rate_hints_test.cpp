// The hint engine of one port, without packets: bytes, demand and time go in, hints come out.
#include "transport/rate_hints.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace metaroce {
namespace {

constexpr Mbps kLine = 400000;
constexpr std::uint8_t kBulk = 24;  // 8 to 16 MiB wait

class RateHints : public ::testing::Test {
 protected:
  RateHints() { port.configure(config, kLine); }

  static IpAddress host(std::uint32_t n) {
    return IpAddress::v4(10, 0, static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n));
  }
  void add(std::uint32_t conn, std::uint32_t of_host, Mbps line = kLine) {
    port.add(conn, PortHints::Peer{host(of_host), 8 * kMicrosecond, line, 1});
    rate[conn] = 0;
    demand[conn] = kBulk;
  }
  void packet(std::uint32_t conn, std::uint8_t d, std::uint32_t bytes = 4182) {
    port.count(bytes);
    port.data(conn, bytes, d, static_cast<std::uint8_t>(conn % 4));
  }
  void poll() {
    port.poll(now, pressed, [&](std::uint32_t conn, std::uint8_t path) {
      EXPECT_EQ(path, conn % 4);
      pushed.push_back(conn);
      port.tell(conn);
    });
  }
  // Every sender sends at its rate (Mb/s), for `time`, a step of 1 us at a time.
  void run(Nanos time) {
    for (const Nanos end = now + time; now < end;) {
      now += kMicrosecond;
      for (auto& [conn, r] : rate) {
        owed[conn] += std::uint64_t{r} * 1000 / 8;  // 1/1000 byte
        while (owed[conn] >= 4182000) {
          owed[conn] -= 4182000;
          packet(conn, demand[conn]);
        }
      }
      port.count(other * 1000 / 8000);
      poll();
    }
  }
  // As run(), but senders obey: min(line, hint) one RTT later.
  void run_obeying(Nanos time, Mbps line = kLine) {
    for (const Nanos end = now + time; now < end;) {
      run(4 * kMicrosecond);
      for (auto& [conn, r] : rate) {
        if (r == 0) continue;
        const Mbps h = port.hint(conn);
        r = h == 0 ? line : std::min(h, line);
      }
    }
  }

  TransportConfig config;
  PortHints port;
  Nanos now = kMillisecond;
  std::map<std::uint32_t, Mbps> rate;
  std::map<std::uint32_t, std::uint8_t> demand;
  std::map<std::uint32_t, std::uint64_t> owed;
  bool pressed = false;
  std::uint64_t other = 0;  // Mb/s of control and foreign frames
  std::vector<std::uint32_t> pushed;
};

// [MR-8.4.22] The first of a crowd is answered at once, for it is alone; the others, who come
// before the next computation, when it is done, with the share of all of them.
TEST_F(RateHints, crowd__is_answered_when_it_is_counted) {
  for (std::uint32_t c = 0; c < 8; ++c) add(c, c);
  packet(0, kBulk, 86);
  EXPECT_TRUE(port.answers_later(0));
  EXPECT_LE(port.answer_due(), now);
  poll();
  EXPECT_EQ(pushed, std::vector<std::uint32_t>{0});
  EXPECT_EQ(port.hint(0), 0U);
  EXPECT_EQ(port.answer_due(), kNever);
  now += 100;
  for (std::uint32_t c = 1; c < 8; ++c) {
    packet(c, kBulk, 86);
    EXPECT_TRUE(port.answers_later(c));
  }
  pushed.clear();
  poll();
  EXPECT_TRUE(pushed.empty());
  const Nanos due = port.answer_due();
  EXPECT_LE(due - now, config.hint_interval / 8);
  now = due;
  poll();
  EXPECT_EQ(pushed.size(), 7U);  // the first was told something a moment ago
  for (std::uint32_t c = 0; c < 8; ++c)
    EXPECT_EQ(port.hint(c), kLine / 1000 * config.hint_capacity_permille / 8);
  // Known by now, or without work: nothing to wait for.
  EXPECT_FALSE(port.answers_later(3));
  add(9, 9);
  packet(9, 0, 86);
  EXPECT_FALSE(port.answers_later(9));
}

TEST_F(RateHints, crowd__does_not_wait_where_hints_are_off) {
  config.rate_hints = false;
  port.configure(config, kLine);
  add(1, 1);
  packet(1, kBulk, 86);
  EXPECT_FALSE(port.answers_later(1));
}

// [MR-8.4.11]
TEST_F(RateHints, lone_sender__none) {
  add(3, 1);
  rate[3] = kLine;
  run(200 * kMicrosecond);
  EXPECT_EQ(port.hint(3), 0U);
  EXPECT_TRUE(pushed.empty());
  EXPECT_GE(port.load(), 250);
}

// [MR-8.4.21] [MR-8.4.11] The host takes less than the port carries: a hint even for one sender,
// that of its rate; none any more when it keeps up again.
TEST_F(RateHints, lone_sender__of_a_slow_host) {
  add(3, 1);
  rate[3] = 200000;
  run(100 * kMicrosecond);
  EXPECT_EQ(port.hint(3), 0U);
  pressed = true;
  run(20 * kMicrosecond);
  EXPECT_NEAR(static_cast<double>(port.hint(3)), 198000, 6000);
  EXPECT_EQ(pushed, (std::vector<std::uint32_t>{3}));
  pressed = false;
  run(500 * kMicrosecond);
  EXPECT_EQ(port.hint(3), 0U);
}

// A limit of before the port fell idle says nothing about the host of now.
TEST_F(RateHints, slow_host__forgotten_while_nothing_arrives) {
  add(3, 1);
  rate[3] = 100000;
  run(100 * kMicrosecond);
  pressed = true;
  run(20 * kMicrosecond);
  ASSERT_NE(port.hint(3), 0U);
  pressed = false;
  now += 10 * kMillisecond;
  poll();
  rate[3] = kLine;
  run(20 * kMicrosecond);
  EXPECT_EQ(port.hint(3), 0U);
}

// [MR-8.4.21] Two senders share what the host takes.
TEST_F(RateHints, slow_host__shared) {
  add(1, 1);
  add(2, 2);
  rate[1] = rate[2] = 50000;
  run(100 * kMicrosecond);
  pressed = true;
  run(20 * kMicrosecond);
  EXPECT_NEAR(static_cast<double>(port.hint(1)), 49000, 2500);
  EXPECT_EQ(port.hint(1), port.hint(2));
}

// [MR-8.4.1] At once, not at the end of the interval; [MR-8.4.2] 0.99 of the line.
TEST_F(RateHints, second_sender__halves_at_once_and_pushes) {
  add(1, 1);
  add(2, 2);
  rate[1] = kLine;
  run(101 * kMicrosecond);
  now += 2 * kMicrosecond;
  packet(2, kBulk);
  poll();
  EXPECT_EQ(port.hint(1), kLine * 99 / 100 / 2);
  EXPECT_EQ(port.hint(2), kLine * 99 / 100 / 2);
  EXPECT_EQ(pushed, (std::vector<std::uint32_t>{1, 2}));  // [MR-8.4.5]
}

TEST_F(RateHints, demands_fit__none) {
  add(1, 1);
  add(2, 2);
  demand[1] = demand[2] = 0;
  rate[1] = rate[2] = 100000;
  run(300 * kMicrosecond);
  EXPECT_EQ(port.hint(1), 0U);
  EXPECT_EQ(port.active(), 2U);
}

// [MR-8.4.3] Hosts first: three connections of one host share what one connection of the other has.
TEST_F(RateHints, hosts_first_then_connections) {
  add(1, 1);
  add(2, 1);
  add(3, 1);
  add(9, 2);
  for (const std::uint32_t c : {1U, 2U, 3U, 9U}) packet(c, kBulk);
  poll();
  EXPECT_EQ(port.hint(9), 198000U);
  for (const std::uint32_t c : {1U, 2U, 3U}) EXPECT_EQ(port.hint(c), 66000U);
}

// [MR-8.4.3] [MR-8.4.9] [MR-8.4.10] A sender with 4 KiB left does not hold a share.
TEST_F(RateHints, backlog_caps_the_demand) {
  for (std::uint32_t c = 0; c < 4; ++c) {
    add(c, c);
    packet(c, c < 2 ? kBulk : 12);  // 2 to 4 KiB: 4 KiB in 10 us = 3276 Mb/s
  }
  poll();
  const Mbps small = 4096 * 8000 / 10000;
  EXPECT_EQ(port.hint(0), (396000 - 2 * small) / 2);
  EXPECT_EQ(port.hint(2), port.hint(0));  // the level, not the cap
}

TEST_F(RateHints, slower_senders__max_min) {
  add(1, 1, 100000);
  add(2, 2, 200000);
  add(3, 3, 400000);
  for (const std::uint32_t c : {1U, 2U, 3U}) packet(c, kBulk);
  poll();
  EXPECT_EQ(port.hint(3), 148000U);
  EXPECT_EQ(port.hint(2), 148000U);
}

// [MR-8.4.9] A sender that another port limits announces much and sends little: the rest is not
// kept for it.
TEST_F(RateHints, unused_share__goes_to_the_others) {
  add(1, 1);
  add(2, 2);
  rate[1] = 20000;
  rate[2] = 300000;
  run(500 * kMicrosecond);
  EXPECT_GE(port.hint(2), 396000U - 50000U);
  EXPECT_GT(port.hint(1), 40000U);
}

// [MR-8.4.8] Idle connections are no senders.
TEST_F(RateHints, idle_connections__do_not_count) {
  for (std::uint32_t c = 0; c < 1000; ++c) add(c, c);
  packet(5, kBulk);
  packet(7, kBulk);
  poll();
  EXPECT_EQ(port.hint(5), 198000U);
  EXPECT_EQ(port.hint(6), 0U);
}

// [MR-8.4.1] The end of one is the news of the others.
TEST_F(RateHints, finished__share_is_free_at_once) {
  for (std::uint32_t c = 0; c < 3; ++c) {
    add(c, c);
    packet(c, kBulk);
  }
  poll();
  EXPECT_EQ(port.hint(0), 132000U);
  now += 3 * kMicrosecond;
  packet(2, 0);
  poll();
  EXPECT_EQ(port.hint(0), 198000U);  // the port has room: up to twofold at once
}

TEST_F(RateHints, silent__forgotten) {
  add(1, 1);
  add(2, 2);
  rate[1] = rate[2] = kLine / 2;
  run(100 * kMicrosecond);
  EXPECT_NE(port.hint(1), 0U);
  rate[2] = 0;
  run(60 * kMicrosecond);
  EXPECT_EQ(port.active(), 1U);
  EXPECT_EQ(port.hint(1), 0U);
}

// [MR-8.4.4] While the port is full a share that grows is handed over in steps of a quarter per
// RTT.
TEST_F(RateHints, full_port__rises_by_a_quarter_per_rtt) {
  for (std::uint32_t c = 0; c < 8; ++c) {
    add(c, c);
    rate[c] = kLine / 8;
  }
  run(400 * kMicrosecond);
  const Mbps before = port.hint(0);
  EXPECT_NEAR(before, 396000 / 8, 1000);
  rate.erase(6);
  rate.erase(7);
  rate[0] = rate[1] = kLine / 4;  // the queue keeps the port full
  Mbps last = before;
  for (int k = 0; k < 12; ++k) {
    run(10 * kMicrosecond);
    ASSERT_LE(port.hint(0), last + last / 4 + 1);
    last = port.hint(0);
  }
  EXPECT_GE(last, Mbps{396000 / 6 - 1000});
}

// [MR-8.4.2]
TEST_F(RateHints, control_and_foreign_bytes__are_not_shared_out) {
  add(1, 1);
  add(2, 2);
  rate[1] = rate[2] = 180000;
  other = 40000;
  run(600 * kMicrosecond);
  EXPECT_NEAR(port.hint(1), (396000 - 40000) / 2, 2000);
}

// [MR-8.4.5] No push for what changed by less than an eighth; nor twice within half an interval.
TEST_F(RateHints, push__only_above_an_eighth) {
  for (std::uint32_t c = 0; c < 10; ++c) {
    add(c, c);
    rate[c] = kLine / 10;
  }
  run(200 * kMicrosecond);
  pushed.clear();
  add(10, 10);  // 1/10 -> 1/11: a change by a tenth
  packet(10, kBulk);
  now += 5 * kMicrosecond;
  poll();
  EXPECT_EQ(pushed, std::vector<std::uint32_t>{10});
}

TEST_F(RateHints, epoch__changes_with_the_hint) {
  add(1, 1);
  add(2, 2);
  const std::uint8_t before = port.epoch(1);
  packet(1, kBulk);
  packet(2, kBulk);
  poll();
  EXPECT_NE(port.epoch(1), before);
}

TEST_F(RateHints, off__none) {
  config.rate_hints = false;
  port.configure(config, kLine);
  add(1, 1);
  add(2, 2);
  rate[1] = rate[2] = kLine / 2;
  run(100 * kMicrosecond);
  EXPECT_EQ(port.hint(1), 0U);
  EXPECT_GE(port.load(), 250);  // the load is told all the same
}

TEST_F(RateHints, removed__index_is_used_again) {
  add(1, 1);
  add(2, 2);
  packet(1, kBulk);
  packet(2, kBulk);
  poll();
  port.remove(2);
  port.remove(2);
  now += 2 * kMicrosecond;
  poll();
  EXPECT_EQ(port.active(), 1U);
  EXPECT_EQ(port.hint(1), 0U);
  add(2, 3);
  EXPECT_EQ(port.hint(2), 0U);
  packet(2, kBulk);
  now += 2 * kMicrosecond;
  poll();
  EXPECT_EQ(port.hint(2), 198000U);
}

// A low hint leaves more than an RTT between two packets: that is not silence.
TEST_F(RateHints, incast_of_1000__nobody_is_forgotten) {
  for (std::uint32_t c = 0; c < 1000; ++c) {
    add(c, c);
    packet(c, kBulk);
    rate[c] = 390;
    owed[c] = std::uint64_t{c} * 4182;
  }
  poll();
  EXPECT_EQ(port.hint(999), 396U);
  for (int k = 0; k < 20; ++k) {
    run(50 * kMicrosecond);
    ASSERT_GE(port.active(), 990U);
  }
  EXPECT_LE(port.hint(5), 420U);
}

// The whole loop in a fluid model: fair and full from the first RTTs on.
TEST_F(RateHints, incast__fair_and_full) {
  for (std::uint32_t c = 0; c < 32; ++c) {
    add(c, c);
    rate[c] = kLine / 20;
    packet(c, kBulk);
  }
  poll();
  run_obeying(20 * kMicrosecond);
  for (int k = 0; k < 50; ++k) {
    run_obeying(10 * kMicrosecond);
    double sum = 0, squares = 0;
    for (const auto& [conn, r] : rate) {
      sum += r;
      squares += double(r) * r;
    }
    ASSERT_GE(sum * sum / (32 * squares), 0.98);
    ASSERT_GE(sum, 0.97 * kLine);
    ASSERT_LE(sum, 1.01 * kLine);
  }
}

}  // namespace
}  // namespace metaroce
