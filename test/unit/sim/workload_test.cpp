#include "sim/workload.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/rng.h"

namespace metaroce::sim {
namespace {

constexpr Bytes kKiB = 1 << 10, kMiB = 1 << 20;

WorkloadContext hosts(std::uint32_t n, std::uint32_t group = 1) { return {n, group, 400000, 7}; }

WorkloadSpec of(WorkloadKind kind) {
  WorkloadSpec s;
  s.kind = kind;
  return s;
}

Workload made(const WorkloadSpec& spec, const WorkloadContext& context) {
  auto result = generate(spec, context);
  if (const auto* error = std::get_if<WorkloadError>(&result)) {
    ADD_FAILURE() << error->what;
    return {};
  }
  return std::get<Workload>(std::move(result));
}

std::string refused(const WorkloadSpec& spec, const WorkloadContext& context) {
  const auto result = generate(spec, context);
  const auto* error = std::get_if<WorkloadError>(&result);
  return error != nullptr ? error->what : std::string();
}

TEST(Permutation, everyone_sends_and_receives_once_across_groups) {
  for (std::uint64_t seed = 1; seed < 50; ++seed) {
    WorkloadSpec s = of(WorkloadKind::kPermutation);
    s.seed = seed;
    const Workload w = made(s, hosts(24, 4));
    std::set<std::uint16_t> to;
    for (const Flow& f : w.flows) {
      EXPECT_NE(f.src / 4, f.dst / 4);
      to.insert(f.dst);
    }
    EXPECT_EQ(to.size(), 24U);
  }
}

TEST(Workload, a_flow_is_one_message) {
  WorkloadSpec s = of(WorkloadKind::kPermutation);
  s.bytes = Bytes{1} << 31;
  EXPECT_EQ(made(s, hosts(4)).flows.size(), 4U);
  ++s.bytes;
  EXPECT_EQ(refused(s, hosts(4)), "flow 1 has 2147483649 bytes; a message has 1 to 2^31");
}

TEST(Permutation, seed_of_the_run_counts_unless_the_spec_has_its_own) {
  WorkloadSpec s = of(WorkloadKind::kPermutation);
  WorkloadContext a = hosts(64, 8), b = a;
  b.seed = 8;
  EXPECT_NE(to_csv(made(s, a)), to_csv(made(s, b)));
  s.seed = 3;
  EXPECT_EQ(to_csv(made(s, a)), to_csv(made(s, b)));
}

TEST(Permutation, messages_of_a_pair_go_one_at_a_time) {
  WorkloadSpec s = of(WorkloadKind::kPermutation);
  s.messages = 5;
  const Workload w = made(s, hosts(8, 2));
  ASSERT_EQ(w.flows.size(), 40U);
  for (const Flow& f : w.flows) {
    if (f.id < 8) {
      EXPECT_EQ(f.dep, kNoFlow);
      continue;
    }
    EXPECT_EQ(f.dep, f.id - 8);
    EXPECT_FALSE(f.dep_at_receiver);
    EXPECT_EQ(w.flows[f.dep].src, f.src);
    EXPECT_EQ(w.flows[f.dep].dst, f.dst);
  }
}

TEST(Permutation, streams_of_a_pair_take_turns) {
  WorkloadSpec s = of(WorkloadKind::kPermutation);
  s.messages = 6;
  s.streams = 3;
  const Workload w = made(s, hosts(4, 2));
  for (const Flow& f : w.flows) {
    EXPECT_EQ(f.stream, f.id / 4 % 3);
    EXPECT_EQ(f.dep, f.id < 12 ? kNoFlow : f.id - 12);  // one at a time on each
  }
}

TEST(Permutation, refuses_groups_that_no_permutation_leaves) {
  EXPECT_NE(refused(of(WorkloadKind::kPermutation), hosts(8, 5)), "");
  EXPECT_NE(refused(of(WorkloadKind::kPermutation), hosts(1)), "");
  EXPECT_EQ(refused(of(WorkloadKind::kPermutation), hosts(2, 1)), "");
}

TEST(Ring, a_slice_waits_for_the_same_slice_of_the_step_before) {
  WorkloadSpec s = of(WorkloadKind::kAllReduce);
  s.bytes = kMiB + 1;
  s.slices = 16;
  const Workload w = made(s, hosts(4));
  ASSERT_EQ(w.flows.size(), 6U * 4 * 16);
  std::map<std::pair<std::uint16_t, std::uint16_t>, std::uint64_t> bytes;
  for (const Flow& f : w.flows) {
    bytes[{f.src, f.dst}] += f.bytes;
    if (f.dep == kNoFlow) {
      EXPECT_LT(f.id, 64U);
      continue;
    }
    EXPECT_TRUE(f.dep_at_receiver);
    EXPECT_EQ(w.flows[f.dep].dst, f.src);
    EXPECT_EQ(w.flows[f.dep].bytes, f.bytes);
    EXPECT_EQ(f.dep % 16, f.id % 16);
  }
  EXPECT_EQ(bytes.size(), 4U);  // one successor each
  for (const auto& [pair, sum] : bytes) EXPECT_EQ(sum, 6U * (kMiB + 1));
}

TEST(Ring, all_gather_has_half_the_steps) {
  EXPECT_EQ(made(of(WorkloadKind::kAllGather), hosts(16)).flows.size(), 15U * 16);
}

TEST(AllToAll, every_pair_once_and_a_list_per_source) {
  WorkloadSpec s = of(WorkloadKind::kAllToAll);
  s.window = 4;
  s.slices = 3;
  s.bytes = 10;
  const Workload w = made(s, hosts(5));
  EXPECT_EQ(w.window, 4U);
  EXPECT_EQ(w.window_lists, 5U);
  std::map<std::pair<std::uint16_t, std::uint16_t>, std::uint64_t> bytes;
  for (const Flow& f : w.flows) {
    EXPECT_EQ(f.window_list, f.src);
    bytes[{f.src, f.dst}] += f.bytes;
  }
  EXPECT_EQ(bytes.size(), 20U);
  for (const auto& [pair, sum] : bytes) EXPECT_EQ(sum, 10U);
  s.window = 0;
  EXPECT_NE(refused(s, hosts(5)), "");
}

TEST(Fan, every_sender_to_every_receiver) {
  WorkloadSpec s = of(WorkloadKind::kFan);
  s.senders = 3;
  s.receivers = 5;
  const Workload w = made(s, hosts(8));
  std::set<std::pair<std::uint16_t, std::uint16_t>> pairs;
  for (const Flow& f : w.flows) {
    EXPECT_LT(f.src, 3);
    EXPECT_GE(f.dst, 3);
    pairs.insert({f.src, f.dst});
  }
  EXPECT_EQ(pairs.size(), 15U);
  EXPECT_NE(refused(s, hosts(7)), "");
}

TEST(Storage, requests_of_a_sender_have_one_size_and_add_up) {
  WorkloadSpec s = of(WorkloadKind::kStorage);
  s.senders = 6;
  s.window = 8;
  s.sizes = {4 * kKiB, 8 * kMiB};
  s.bytes = 16 * kMiB;
  const Workload w = made(s, hosts(7));
  std::map<std::uint16_t, std::uint64_t> bytes;
  for (const Flow& f : w.flows) {
    bytes[f.src] += f.bytes;
    EXPECT_EQ(f.dst, 0);
    EXPECT_EQ(f.tag, (f.src - 1) % 2);
    EXPECT_EQ(f.bytes, static_cast<std::uint64_t>(s.sizes[f.tag]));
  }
  EXPECT_EQ(bytes.size(), 6U);
  for (const auto& [src, sum] : bytes) EXPECT_EQ(sum, 16U << 20);
}

TEST(Distribution, offers_the_load_and_repeats_by_seed) {
  WorkloadSpec s = of(WorkloadKind::kDistribution);
  s.text = "1000 0.5\n1000 1\n";
  s.count = 200000;
  s.load_permille = 400;
  const WorkloadContext c = hosts(16);
  const Workload w = made(s, c);
  std::vector<std::uint32_t> sent(16), received(16);
  for (const Flow& f : w.flows) {
    ++sent[f.src];
    ++received[f.dst];
    EXPECT_EQ(f.bytes, 1000U);
  }
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(sent[i], 12500, 600);
    EXPECT_NEAR(received[i], 12500, 600);
  }
  // 200,000 x 8,000 bits at 0.4 x 16 x 400 Gb/s.
  EXPECT_NEAR(static_cast<double>(w.flows.back().start), 200000.0 * 8000 / (0.4 * 16 * 400), 6000);
  EXPECT_EQ(to_csv(made(s, c)), to_csv(w));
}

TEST(Matrix, rows_are_sources) {
  WorkloadSpec s = of(WorkloadKind::kMatrix);
  s.file = "m.txt";
  s.text = "# three hosts\n0 5 0\n0 0 7\r\n1, 0, 0\n";
  const Workload w = made(s, hosts(3));
  ASSERT_EQ(w.flows.size(), 3U);
  EXPECT_EQ(to_csv(w), "id,src,dst,bytes,start_us,dep\n1,0,1,5,0,\n2,1,2,7,0,\n3,2,0,1,0,\n");
  for (const char* bad : {"1 0 0\n0 0 0\n0 0 0\n", "0 1\n1 0\n", "0 x 0\n0 0 0\n0 0 0\n", "",
                          "0 0 0\n0 0 0\n0 0 0\n"}) {
    s.text = bad;
    EXPECT_NE(refused(s, hosts(3)), "") << bad;
  }
}

TEST(FlowList, ids_are_free_and_dependencies_look_back) {
  WorkloadSpec s = of(WorkloadKind::kFlows);
  s.file = "f.csv";
  s.text = "id,src,dst,bytes,start_us,dep\n70,0,1,4096,1.25,\n9,1,0,1,0,70\n";
  const Workload w = made(s, hosts(2));
  ASSERT_EQ(w.flows.size(), 2U);
  EXPECT_EQ(w.flows[0].start, 1250);
  EXPECT_EQ(w.flows[1].dep, 0U);
  EXPECT_EQ(w.flows[1].id, 1U);
}

TEST(FlowList, names_the_line_that_is_wrong) {
  WorkloadSpec s = of(WorkloadKind::kFlows);
  s.file = "f.csv";
  const std::string good = "1,0,1,4096,0,\n";
  for (const char* bad :
       {"2,0,1,1,0", "2,0,1,-1,0,", "2,0,2,1,0,", "1,0,1,1,0,", "2,0,1,1,0,2", "2,0,1,1,0,3",
        "2,0,1,1,0,x", "2,0,1,99999999999999999999,0,", "2,0,1,1,1.2345,", "nonsense"}) {
    s.text = good + bad + "\n" + good;
    EXPECT_NE(refused(s, hosts(2)).find("f.csv: line 2 "), std::string::npos)
        << bad << ": " << refused(s, hosts(2));
  }
  for (const char* bad : {"2,1,1,1,0,\n", "2,0,1,0,0,\n", ""}) {
    s.text = bad;
    EXPECT_NE(refused(s, hosts(2)), "") << bad;
  }
}

TEST(FlowList, windowed_lists_count_their_positions) {
  WorkloadSpec s = of(WorkloadKind::kFlows);
  s.window = 2;
  s.text = "1,0,1,5,0,1\n2,1,0,5,0,1\n3,0,1,5,0,2\n";
  const Workload w = made(s, hosts(2));
  EXPECT_EQ(w.flows[2].window_list, 0U);
  EXPECT_EQ(w.window, 2U);
  s.text = "1,0,1,5,0,2\n";
  EXPECT_NE(refused(s, hosts(2)), "");
}

TEST(Generate, bounds_what_a_scenario_can_ask_for) {
  WorkloadSpec s = of(WorkloadKind::kAllToAll);
  s.window = 1;
  EXPECT_NE(refused(s, hosts(65535)), "");
  s = of(WorkloadKind::kPermutation);
  s.messages = 4000000000U;
  EXPECT_NE(refused(s, hosts(64, 8)), "");
  s = of(WorkloadKind::kIncast);
  s.senders = 64;
  EXPECT_NE(refused(s, hosts(64)), "");
  s.senders = 8;
  s.bytes = 0;
  EXPECT_NE(refused(s, hosts(64)), "");
}

// Whatever the spec holds, generate() answers, and what it makes obeys the engine's rules.
TEST(Generate, any_spec_is_answered) {
  Rng rng(42);
  int good = 0;
  for (int i = 0; i < 3000; ++i) {
    WorkloadSpec s = of(static_cast<WorkloadKind>(rng.below(11)));
    s.bytes = rng.below(3) == 0 ? rng.below(5) : rng.below(1 << 24);
    s.messages = rng.below(4);
    s.streams = rng.below(4);
    s.group = rng.below(8);
    s.senders = rng.below(20);
    s.receivers = rng.below(6);
    s.window = rng.below(4);
    s.slices = rng.below(5);
    s.sizes.assign(rng.below(3), 4096);
    s.count = rng.below(100);
    s.text = rng.below(2) == 0 ? "1 0.5\n500 1\n" : "1,0,1,4096,0,\n";
    const std::uint32_t n = rng.below(80);
    const auto result = generate(s, {n, 1 + rng.below(8), 400000, rng.next()});
    if (const auto* w = std::get_if<Workload>(&result)) {
      ++good;
      ASSERT_FALSE(w->flows.empty());
      for (std::uint32_t k = 0; k < w->flows.size(); ++k) {
        const Flow& f = w->flows[k];
        ASSERT_TRUE(f.id == k && f.src < n && f.dst < n && f.src != f.dst && f.bytes > 0);
        ASSERT_TRUE(f.dep == kNoFlow || f.dep < k);
      }
    } else {
      ASSERT_FALSE(std::get<WorkloadError>(result).what.empty());
    }
  }
  EXPECT_GT(good, 500);
}

}  // namespace
}  // namespace metaroce::sim
