// metaroce-sim from arguments to output, over a runner that makes results up.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "metaroce-sim/metrics.h"
#include "metaroce-sim/sim_main.h"

namespace metaroce::simapp {
namespace {

namespace fs = std::filesystem;

// Every flow takes 100 us and the seed's number of packets is resent.
sim::RunResult made_up(const sim::Scenario& s, const sim::Workload& w, const sim::RunHooks& hooks) {
  sim::RunResult r;
  r.flows.resize(w.flows.size());
  for (auto& f : r.flows) f = {1000, 101000, 100000, 512, 1};
  r.totals.delivered_packets = 10000;
  r.totals.data_sent = 10000 + s.seed;
  r.totals.retransmitted = s.seed;
  r.totals.data_lost = 2;
  r.lost = {{"random", 2}};
  r.virtual_time = 101000;
  r.recovery.add(9000);
  if (hooks.series) hooks.series(5, "host0.rate_mbps", 400000);
  if (hooks.loss) hooks.loss({9, 1, 4096, 2, "random"});
  const std::uint8_t frame[60] = {1, 2, 3};
  if (hooks.capture) hooks.capture(kSecond + 7, 0, 0, frame);
  if (hooks.stop != nullptr && hooks.stop->load() != 0) r.outcome = sim::Outcome::kStopped;
  if (s.canary != sim::Canary::kNone) {
    r.outcome = sim::Outcome::kViolation;
    r.violation_count = 1;
    r.violations.emplace_back("byte 7 of flow 3 was placed twice \xff");
  }
  return r;
}

struct Output {
  int code;
  std::string out, err;
};

class SimApp : public ::testing::Test {
 protected:
  SimApp() {
    std::string name = (fs::temp_directory_path() / "metaroce-sim-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    std::ofstream(path("s.yaml")) << "name: s\ndescription: two hosts\nseed: 3\n";
    std::ofstream(path("bad.yaml")) << "name: s\nfabric: {planes: 99}\n";
  }
  ~SimApp() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

  Output run(std::vector<std::string> args, int signal = 0) {
    const std::atomic<int> stop{signal};
    app::Io io;
    io.out = std::tmpfile();
    io.err = std::tmpfile();
    io.stop = &stop;
    std::vector<const char*> argv{"metaroce-sim"};
    for (const auto& a : args) argv.push_back(a.c_str());
    const int code = sim_main(static_cast<int>(argv.size()), argv.data(), io, made_up);
    return {code, text_of(io.out), text_of(io.err)};
  }
  static std::string read(const std::string& file) {
    std::ostringstream out;
    out << std::ifstream(file, std::ios::binary).rdbuf();
    return out.str();
  }

 private:
  static std::string text_of(std::FILE* f) {
    std::string text(static_cast<std::size_t>(std::ftell(f)), '\0');
    std::rewind(f);
    text.resize(std::fread(text.data(), 1, text.size(), f));
    std::fclose(f);
    return text;
  }
  fs::path folder_;
};

TEST_F(SimApp, bad_arguments_exit_with_2_and_one_line) {
  const std::vector<std::vector<std::string>> bad = {
      {},
      {"fly"},
      {"run"},
      {"run", path("none.yaml")},
      {"run", path("bad.yaml")},
      {"run", path("s.yaml"), "--seed", "x"},
      {"run", path("s.yaml"), "--seed", "-1"},
      {"run", path("s.yaml"), "--seeds", "0"},
      {"run", path("s.yaml"), "--seeds", "3", "--csv", path("f.csv")},
      {"run", path("s.yaml"), "--replay", "1", "--seed", "2"},
      {"run", path("s.yaml"), "--timing"},
      {"run", path("s.yaml"), "--set", "nonsense"},
      {"run", path("s.yaml"), "--set", "fabric.plains=2"},
      {"run", path("s.yaml"), "--csv", path("no/such/folder.csv")},
      {"check", path("s.yaml"), path("bad.yaml")},
      {"list", path("none")},
  };
  for (const auto& args : bad) {
    const Output o = run(args);
    EXPECT_EQ(o.code, 2) << (args.empty() ? "" : args.back()) << o.out << o.err;
    EXPECT_TRUE(o.err.starts_with("metaroce-sim: ")) << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
}

TEST_F(SimApp, json_is_one_document_whatever_happens) {
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"run", path("s.yaml"), "--json"},
           {"run", path("s.yaml"), "--json", "--set", "canary=double_placement"},
           {"run", path("bad.yaml"), "--json"},
           {"run", "--json"},
           {"run", path("s.yaml"), "--json", "--seeds", "5", "--timing"}}) {
    const Output o = run(args);
    const auto json = nlohmann::json::parse(o.out, nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << o.out;
    EXPECT_EQ(json["exit_code"], o.code);
    EXPECT_EQ(json["tool"], "metaroce-sim");
    EXPECT_EQ(json.contains("error"), o.code == 2);
  }
}

TEST_F(SimApp, json_of_equal_seeds_is_equal_and_has_no_clock) {
  const Output a = run({"run", path("s.yaml"), "--json"}),
               b = run({"run", path("s.yaml"), "--json"});
  EXPECT_EQ(a.out, b.out);
  const auto json = nlohmann::json::parse(a.out);
  EXPECT_EQ(json["runs"][0]["seed"], 3);
  EXPECT_FALSE(json["runs"][0].contains("timing"));
  EXPECT_EQ(json["runs"][0]["outcome"], "complete");
  EXPECT_EQ(json["runs"][0]["lost"]["random"], 2);
  EXPECT_EQ(json["transport"]["hash"].get<std::string>().size(), 16U);
}

TEST_F(SimApp, medians_over_seeds) {
  const auto json = nlohmann::json::parse(
      run({"run", path("s.yaml"), "--json", "--seeds", "5", "--seed", "10"}).out);
  EXPECT_EQ(json["runs"].size(), 5U);
  EXPECT_EQ(json["runs"][4]["seed"], 14);
  EXPECT_EQ(json["median"]["retransmitted"], 12.0);
  EXPECT_EQ(json["median"]["retransmitted_per_lost"], 6.0);
}

TEST_F(SimApp, a_violation_exits_with_3_and_says_how_to_replay) {
  const Output o = run({"run", path("s.yaml"), "--set", "canary=double_placement"});
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.out.find("placed twice"), std::string::npos);
  EXPECT_NE(o.out.find("--replay 3"), std::string::npos);
}

TEST_F(SimApp, a_signal_ends_with_a_summary) {
  const Output o = run({"run", path("s.yaml"), "--seeds", "9"}, 2);
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.out.find("stopped"), std::string::npos);
  EXPECT_EQ(o.out.find("seed 4"), std::string::npos);  // no further seed was begun
}

TEST_F(SimApp, files_beside_the_run) {
  const Output o = run({"run", path("s.yaml"), "--csv", path("f.csv"), "--series", path("t.csv"),
                        "--losses", path("l.csv"), "--pcap", path("p.pcap")});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(read(path("t.csv")), "time_ns,name,value\n5,host0.rate_mbps,400000\n");
  EXPECT_EQ(read(path("l.csv")), "time_ns,flow,offset,transmission,cause\n9,2,4096,2,random\n");
  const std::string flows = read(path("f.csv"));
  EXPECT_TRUE(flows.starts_with("id,src,dst,bytes,tag,start_ns,")) << flows;
  EXPECT_EQ(std::count(flows.begin(), flows.end(), '\n'), 3);
  const std::string pcap = read(path("p.pcap"));
  ASSERT_EQ(pcap.size(), 24U + 16 + 60);
  EXPECT_EQ(pcap.substr(0, 4), "\x4d\x3c\xb2\xa1");
  EXPECT_EQ(pcap.substr(24, 8), std::string("\1\0\0\0\7\0\0\0", 8));
}

TEST_F(SimApp, check_and_list) {
  EXPECT_NE(run({"check", path("s.yaml")}).out.find(": ok, 2 hosts, 2 flows, transport "),
            std::string::npos);
  const Output o = run({"list", path("")});
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.out.find("two hosts"), std::string::npos);
  EXPECT_EQ(o.out.find("bad.yaml"), std::string::npos);
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_NE(run({"run", "--help"}).out.find("Exit codes"), std::string::npos);
  EXPECT_NE(run({"--version"}).out.find("metaroce-sim "), std::string::npos);
}

double figure(const Metrics& m, const std::string& name) {
  for (const auto& [n, v] : m)
    if (n == name) return v;
  ADD_FAILURE() << name;
  return -1;
}

TEST(Metrics, of_a_flow_as_fast_as_can_be) {
  scenario::Loaded l;
  sim::Scenario& s = l.scenario;
  s.fabric = fabric::ls64();
  s.workload.kind = sim::WorkloadKind::kFan;
  s.workload.senders = 1;
  s.workload.receivers = 63;
  l.workload = std::get<sim::Workload>(make_workload(s));
  l.workload.flows.erase(l.workload.flows.begin(), l.workload.flows.end() - 1);
  l.workload.flows[0].id = 0;
  sim::RunResult r;
  r.flows = {{0, 50853, 46848, 512, 0}};
  const Metrics m = metrics_of(l, r);
  EXPECT_NEAR(figure(m, "slowdown_mean"), 1, 1e-4);
  EXPECT_NEAR(figure(m, "efficiency"), 1, 1e-4);
  EXPECT_NEAR(base_rtt_ns(l), 8337.92, 0.01);
}

TEST(Metrics, outage_of_a_plane) {
  scenario::Loaded l;
  sim::Scenario& s = l.scenario;
  s.fabric.hosts = 2;
  s.fabric.planes = 4;
  l.workload = std::get<sim::Workload>(make_workload(s));
  fabric::Fault f;
  f.kind = fabric::FaultKind::kDown;
  f.target.scope = fabric::Scope::kPlane;
  f.at_ns = 100000 + s.host.warm_idle;
  s.fabric.faults.push_back(f);
  f.kind = fabric::FaultKind::kUp;
  f.at_ns = 400000 + s.host.warm_idle;
  s.fabric.faults.push_back(f);
  sim::RunResult r;
  r.flows.assign(2, {0, 1000000, 1000000, 512, 0});
  r.goodput.interval = 4000;
  for (Nanos t = 0; t < 1000000; t += 4000) {
    std::uint64_t bytes = 1000;
    if (t >= 100000 && t < 112000) bytes = 0;
    if (t >= 112000 && t < 450000) bytes = 750;
    r.goodput.bytes.push_back(bytes);
  }
  const Metrics m = metrics_of(l, r);
  EXPECT_NEAR(figure(m, "outage_rtt"), 12000 / base_rtt_ns(l), 1e-6);
  EXPECT_NEAR(figure(m, "rate_during_fault"), 1, 1e-6);
  // 2 hosts x 1.6 Tb/s x 4 us, of which 4,096 of 4,160 bytes are payload.
  EXPECT_NEAR(figure(m, "rate_before_fault"), 1000 / (2 * 800000 * 4096.0 / 4160), 1e-6);
  EXPECT_NEAR(figure(m, "return_ms"), 0.08, 0.01);
}

TEST(Metrics, storage_shares_against_max_min) {
  scenario::Loaded l;
  sim::Scenario& s = l.scenario;
  s.fabric.hosts = 3;
  s.workload.kind = sim::WorkloadKind::kStorage;
  s.workload.senders = 2;
  s.workload.window = 2;
  s.workload.bytes = 1 << 20;
  s.workload.sizes = {256 << 10};
  s.host.line_rates = {400000, 100000, 400000};  // hosts 0, 1, 2
  l.workload = std::get<sim::Workload>(make_workload(s));
  const double payload = 4096.0 / 4182;
  sim::RunResult r;
  r.flows.resize(8);
  for (std::uint32_t i = 0; i < 8; ++i) {
    const double gbps = (i < 4 ? 100 : 300) * payload;
    const double bytes = 262144.0 * (i % 4 + 1);
    r.flows[i].start = 0;
    r.flows[i].receiver_done = r.flows[i].sender_done = static_cast<Nanos>(bytes * 8 / gbps);
  }
  const Metrics m = metrics_of(l, r);
  EXPECT_NEAR(figure(m, "max_min_error"), 0, 1e-3);
  EXPECT_NEAR(figure(m, "receiver_use"), 1, 1e-3);
}

TEST(Metrics, median_of_even_and_odd) {
  EXPECT_EQ(figure(medians({{{"a", 3}}, {{"a", 1}}, {{"a", 2}, {"b", 9}}}), "a"), 2);
  const Metrics two = medians({{{"a", 1}}, {{"a", 2}}});
  EXPECT_EQ(figure(two, "a"), 1.5);
}

}  // namespace
}  // namespace metaroce::simapp
