#include "dataplane/eal.h"

#include <sched.h>

#include <algorithm>

#include "eal_environment.h"

namespace metaroce {
namespace {

HostFacts host(std::uint64_t free_mb = 0, bool mounted = false) {
  return {{2, 3, 5}, free_mb << 20, 2 << 20, mounted};
}
bool has(const std::vector<std::string>& v, const std::string& x) {
  return std::find(v.begin(), v.end(), x) != v.end();
}

}  // namespace

TEST(build_eal_arguments, auto__follows_the_free_hugepages) {
  EalConfig c;
  std::vector<std::string> a;
  ASSERT_TRUE(build_eal_arguments(c, host(512), a).ok());
  EXPECT_TRUE(has(a, "--in-memory"));
  EXPECT_FALSE(has(a, "--no-huge"));
  ASSERT_TRUE(build_eal_arguments(c, host(511), a).ok());
  EXPECT_TRUE(has(a, "--no-huge") && has(a, "--no-shconf"));
  EXPECT_FALSE(has(a, "--in-memory"));  // together EAL refuses them
}

TEST(build_eal_arguments, missing_memory_is_one_line_that_says_what_to_do) {
  EalConfig c;
  c.memory = MemoryMode::kInMemory;
  std::vector<std::string> a;
  Status s = build_eal_arguments(c, host(100), a);
  EXPECT_EQ(s.code, Errc::kNoMemory);
  EXPECT_NE(s.message.find("512 MB wanted, 100 MB free"), std::string::npos) << s.message;
  EXPECT_NE(s.message.find("vm.nr_hugepages=256"), std::string::npos) << s.message;
  c.memory = MemoryMode::kFilePrefix;
  EXPECT_EQ(build_eal_arguments(c, host(1024, true), a).code, Errc::kInvalid);
  c.file_prefix = "mr";
  s = build_eal_arguments(c, host(1024, false), a);
  EXPECT_NE(s.message.find("mount -t hugetlbfs"), std::string::npos) << s.message;
  EXPECT_TRUE(build_eal_arguments(c, host(1024, true), a).ok());
  EXPECT_TRUE(has(a, "--file-prefix=mr"));
  c.memory_mb = 0;
  EXPECT_EQ(build_eal_arguments(c, host(), a).code, Errc::kInvalid);
}

TEST(build_eal_arguments, lcores__main_gets_the_cpus_that_nobody_polls_on) {
  EalConfig c;
  c.workers = {{1, 3}, {2, 5}};
  std::vector<std::string> a;
  ASSERT_TRUE(build_eal_arguments(c, host(), a).ok());
  EXPECT_TRUE(has(a, "0@(2),1@3,2@5"));
  c.workers.push_back({3, 2});
  ASSERT_TRUE(build_eal_arguments(c, host(), a).ok());
  EXPECT_TRUE(has(a, "0@(2,3,5),1@3,2@5,3@2"));
}

TEST(build_eal_arguments, lcores__are_checked_before_eal) {
  std::vector<std::string> a;
  const auto refused = [&](std::vector<LcorePin> w) {
    EalConfig c;
    c.workers = std::move(w);
    return build_eal_arguments(c, host(), a).message;
  };
  EXPECT_NE(refused({{RTE_MAX_LCORE, 2}}).find("out of range"), std::string::npos);
  EXPECT_NE(refused({{1, 2}, {1, 3}}).find("named twice"), std::string::npos);
  EXPECT_NE(refused({{0, 2}}).find("main lcore"), std::string::npos);
  EXPECT_NE(refused({{1, 4}}).find("CPUs 2,3,5 only"), std::string::npos);
}

TEST(build_eal_arguments, extra__may_not_contradict) {
  std::vector<std::string> a;
  EalConfig c;
  for (const char* e : {"--proc-type=secondary", "-l", "--in-memory", "--file-prefix=x"}) {
    c.extra = {e};
    EXPECT_EQ(build_eal_arguments(c, host(), a).code, Errc::kInvalid) << e;
  }
  c.extra = {"--force-max-simd-bitwidth=512"};
  ASSERT_TRUE(build_eal_arguments(c, host(), a).ok());
  EXPECT_EQ(a.back(), c.extra[0]);
}

TEST(init_eal, leaves_the_affinity_of_the_caller_as_it_was) {
  const HostFacts now = read_host_facts();
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(static_cast<std::size_t>(CPU_COUNT(&set)), now.allowed_cpus.size());
  EXPECT_EQ(EalEnvironment::info().housekeeping_cpus, now.allowed_cpus);
  EXPECT_EQ(EalEnvironment::info().memory, MemoryMode::kNoHuge);
}

TEST(init_eal, a_second_time_is_refused) { EXPECT_EQ(init_eal({}).code, Errc::kBusy); }

}  // namespace metaroce
