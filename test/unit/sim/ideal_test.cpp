#include "sim/ideal.h"

#include <gtest/gtest.h>

#include "sim/workload.h"

namespace metaroce::sim {
namespace {

IdealFabric ls64() {
  IdealFabric f;
  f.hops = [](std::uint16_t a, std::uint16_t b) { return a / 8 == b / 8 ? 2U : 4U; };
  return f;
}

double ideal_us(const WorkloadSpec& spec) {
  const auto result = generate(spec, {64, 8, 400000, 1});
  return ideal_run_ns(std::get<Workload>(result), ls64()) / 1000;
}

TEST(Ideal, is_that_of_the_published_figures) {
  const IdealFabric f = ls64();
  EXPECT_NEAR(f.packet_ns(), 83.2, 1e-9);
  EXPECT_NEAR(f.sender_ns(4096, 4), 8337.92, 0.01);      // base RTT across leaves
  EXPECT_NEAR(f.sender_ns(4096, 6), 12506.88, 0.01);     // across pods
  EXPECT_NEAR(f.sender_ns(2 << 20, 4), 50853.12, 0.01);  // 512 S + 3 S + 8 us + 5.12 ns
  EXPECT_EQ(f.packets(4097), 2);

  WorkloadSpec s;
  s.kind = WorkloadKind::kIncast;
  s.senders = 63;
  s.bytes = 1 << 20;
  EXPECT_NEAR(ideal_us(s), (63 * 256 + 3) * 0.0832 + 8 + 0.00512, 0.001);
  s.kind = WorkloadKind::kAllToAll;
  s.bytes = 128 << 10;
  s.window = 8;
  EXPECT_NEAR(ideal_us(s), 175.99, 0.01);
  s.kind = WorkloadKind::kAllReduce;
  s.bytes = 1 << 20;
  s.forward_at = DependencyAt::kSender;
  EXPECT_NEAR(ideal_us(s), 3711.3, 0.1);
}

TEST(Ideal, slices_overlap) {
  WorkloadSpec whole;
  whole.kind = WorkloadKind::kAllReduce;
  whole.bytes = 1 << 20;
  WorkloadSpec sliced = whole;
  sliced.slices = 16;
  // 126 x 256 packets at line rate are the floor of both.
  EXPECT_GT(ideal_us(whole), ideal_us(sliced));
  EXPECT_GE(ideal_us(sliced), 126 * 256 * 0.0832);
}

TEST(Spread, of_values) {
  const Spread s = spread({3, 1, 2, 4});
  EXPECT_EQ(s.mean, 2.5);
  EXPECT_EQ(s.max, 4);
  EXPECT_EQ(s.p50, 2);
  EXPECT_EQ(spread({}).max, 0);
}

TEST(Jain, one_for_equal_and_one_in_n_for_a_single_winner) {
  const double equal[] = {5, 5, 5, 5}, single[] = {9, 0, 0, 0};
  EXPECT_DOUBLE_EQ(jain(equal), 1);
  EXPECT_DOUBLE_EQ(jain(single), 0.25);
  EXPECT_DOUBLE_EQ(jain({}), 1);
}

TEST(MaxMin, fills_the_narrowest_link_first) {
  // Links 0: 10, 1: 100. A crosses 0 and 1, B crosses 0, C crosses 1, D wants 3 of link 1.
  const std::vector<std::uint32_t> routes[] = {{0, 1}, {0}, {1}, {1}};
  const double demands[] = {1000, 1000, 1000, 3}, capacities[] = {10, 100};
  const auto rates = max_min(routes, demands, capacities);
  EXPECT_NEAR(rates[0], 5, 1e-6);
  EXPECT_NEAR(rates[1], 5, 1e-6);
  EXPECT_NEAR(rates[2], 92, 1e-6);
  EXPECT_NEAR(rates[3], 3, 1e-6);
}

TEST(LongestBelow, counts_whole_intervals) {
  GoodputSamples g;
  g.interval = 10;
  g.bytes = {5, 1, 1, 5, 1, 1, 1, 5};
  EXPECT_EQ(longest_below(g, 2), 30);
  EXPECT_EQ(longest_below(g, 1), 0);
  EXPECT_EQ(longest_below(g, 6), 80);
}

}  // namespace
}  // namespace metaroce::sim
