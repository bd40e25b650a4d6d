// Cases small enough to be computed by hand: S = 100 ns, links of 1 us, acknowledgments of 10 ns,
// so over 2 links 2.2 us there, 2.02 us back and 4.22 us per round trip.
#include "oracle/oracle.h"

#include <gtest/gtest.h>

#include <sstream>

#include "sim/workload.h"

namespace metaroce::oracle {
namespace {

constexpr Picos kSend = 100'000, kThere = 2'200'000, kRtt = 4'220'000;
constexpr std::uint32_t kMtu = 4096;

sim::IdealFabric fabric() {
  sim::IdealFabric f;
  f.gbps = 8;
  f.payload = 96;  // 100 bytes at a byte per ns
  f.header = 4;
  f.ack = 10;
  f.propagation_ns = 1000;
  f.hops = [](std::uint16_t, std::uint16_t) { return 2U; };
  return f;
}

sim::Flow flow(std::uint16_t src, std::uint16_t dst, std::uint32_t packets,
               std::uint32_t dep = sim::kNoFlow, bool at_receiver = true) {
  sim::Flow f;
  f.src = src;
  f.dst = dst;
  f.bytes = std::uint64_t{packets} * kMtu;
  f.dep = dep;
  f.dep_at_receiver = at_receiver;
  return f;
}

sim::Workload workload(std::vector<sim::Flow> flows) {
  sim::Workload w;
  w.hosts = 4;
  w.flows = std::move(flows);
  for (std::uint32_t i = 0; i < w.flows.size(); ++i) w.flows[i].id = i;
  return w;
}

Answer ask(const sim::Workload& w, const Losses& losses = {}) {
  return oracle::ask(w, fabric(), kMtu, losses);
}

TEST(Oracle, no_loss) {
  const Answer a = ask(workload({flow(0, 1, 4)}));
  EXPECT_EQ(a.receiver_done[0], 3 * kSend + kThere);
  EXPECT_EQ(a.last, 3 * kSend + kRtt);
  EXPECT_EQ(a.sent, 4U);
  EXPECT_EQ(a.lost, 0U);
}

TEST(Oracle, one_loss_is_resent_a_round_trip_after_sending) {
  Losses losses;
  losses.add(0, 1, 1);
  const Answer a = ask(workload({flow(0, 1, 4)}), losses);
  EXPECT_EQ(a.receiver_done[0], 1 * kSend + kRtt + kThere);
  EXPECT_EQ(a.sent, 5U);
  EXPECT_EQ(a.lost, 1U);
}

TEST(Oracle, loss_of_the_resend) {
  Losses losses;
  losses.add(0, 1, 1);
  losses.add(0, 1, 2);
  losses.add(0, 2, 2);  // never asked for
  const Answer a = ask(workload({flow(0, 1, 4)}), losses);
  EXPECT_EQ(a.receiver_done[0], 1 * kSend + 2 * kRtt + kThere);
  EXPECT_EQ(a.sent, 6U);
  EXPECT_EQ(a.lost, 2U);
}

// 60 packets take 6 us: the loss of the first is known while packet 42 is on the link, and takes
// the place of packet 43.
TEST(Oracle, a_resend_goes_before_what_waits) {
  Losses losses;
  losses.add(0, 0, 1);
  const Answer a = ask(workload({flow(0, 1, 60)}), losses);
  EXPECT_EQ(a.receiver_done[0], 60 * kSend + kThere);
  losses.add(0, 0, 2);  // sent at 4.3 us, known at 8.52 us
  EXPECT_EQ(ask(workload({flow(0, 1, 60)}), losses).receiver_done[0], 43 * kSend + kRtt + kThere);
}

TEST(Oracle, a_chunk_is_forwarded_when_complete_at_the_receiver) {
  const sim::Workload w = workload({flow(0, 1, 4), flow(1, 2, 4, 0)});
  EXPECT_EQ(ask(w).receiver_done[1], 2 * (3 * kSend + kThere));
  Losses losses;
  losses.add(0, 3, 1);
  losses.add(1, 0, 1);
  EXPECT_EQ(ask(w, losses).receiver_done[1], 3 * kSend + kRtt + kThere + kRtt + kThere);
}

TEST(Oracle, or_when_acknowledged) {
  const Answer a = ask(workload({flow(0, 1, 4), flow(1, 2, 4, 0, false)}));
  EXPECT_EQ(a.receiver_done[1], 3 * kSend + kRtt + 3 * kSend + kThere);
}

TEST(Oracle, flows_of_a_host_share_its_link_in_order) {
  sim::Workload w = workload({flow(0, 1, 4), flow(0, 2, 2), flow(0, 3, 1)});
  w.flows[2].start = 5000;
  const Answer a = ask(w);
  EXPECT_EQ(a.receiver_done[0], 3 * kSend + kThere);
  EXPECT_EQ(a.receiver_done[1], 5 * kSend + kThere);
  EXPECT_EQ(a.receiver_done[2], 5'000'000 + kThere);
}

TEST(Oracle, is_the_ideal_of_the_report_without_loss) {
  sim::WorkloadSpec spec;
  spec.kind = sim::WorkloadKind::kAllReduce;
  spec.bytes = 64 * kMtu;
  const auto w = std::get<sim::Workload>(sim::generate(spec, {16, 8, 400'000, 1}));
  sim::IdealFabric f;
  f.hops = [](std::uint16_t a, std::uint16_t b) { return a / 8 == b / 8 ? 2U : 4U; };
  EXPECT_NEAR(static_cast<double>(oracle::ask(w, f, kMtu, {}).last) / 1000, sim::ideal_run_ns(w, f),
              1);
}

std::string read(const std::string& text, Losses& losses) {
  std::istringstream in(text);
  return read_losses(in, kMtu, workload({flow(0, 1, 4), flow(0, 1, 2)}), losses);
}

TEST(Oracle, reads_a_list_of_losses) {
  const std::string header = "time_ns,flow,offset,transmission,cause\n";
  Losses losses;
  EXPECT_EQ(read(header + "7,2,4096,3,random\n9,1,0,1,queue full\n", losses), "");
  EXPECT_EQ(losses.size(), 2U);
  EXPECT_TRUE(losses.contains(1, 1, 3));
  EXPECT_TRUE(losses.contains(0, 0, 1));
  EXPECT_FALSE(losses.contains(0, 0, 2));
  EXPECT_EQ(read("id,src\n", losses), "line 1: not a list of losses");
  EXPECT_EQ(read(header + "7,2,x,3,random\n", losses), "line 2: not a loss");
  for (const char* line :
       {"7,3,0,1,r\n", "7,0,0,1,r\n", "7,2,8192,1,r\n", "7,1,5,1,r\n", "7,1,0,0,r\n"})
    EXPECT_EQ(read(header + line, losses), "line 2: not of this workload") << line;
}

TEST(Oracle, refuses_windowed_lists) {
  sim::Workload w = workload({flow(0, 1, 1)});
  EXPECT_EQ(why_not(w), "");
  w.window_lists = 1;
  EXPECT_NE(why_not(w), "");
}

}  // namespace
}  // namespace metaroce::oracle
