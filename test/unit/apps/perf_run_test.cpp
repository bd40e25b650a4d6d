// Both ends of metaroce-perf in one process over the fake library.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/outcome.h"
#include "fake_metaroce.h"
#include "metaroce-perf/run.h"
#include "two_ends.h"

namespace metaroce::perf {
namespace {

using Args = std::vector<std::string>;
using app::Printed;
using app::TwoEnds;
using nlohmann::json;

class PerfRun : public testing::Test {
 protected:
  void SetUp() override { fake::reset(); }
  void TearDown() override {
    EXPECT_EQ(fake::open_streams(), 0);
    EXPECT_EQ(fake::open_regions(), 0);
    EXPECT_EQ(fake::open_queues(), 0);
    fake::reset();
  }
  static Args client(const std::string& test, Args more) {
    more.insert(more.begin(), {test, "10.0.0.2"});
    return more;
  }
};

void expect_finite(const json& j) {
  if (j.is_number_float()) {
    EXPECT_TRUE(std::isfinite(j.get<double>()));
  }
  EXPECT_FALSE(j.is_null());
  if (j.is_structured())
    for (const auto& child : j) expect_finite(child);
}
json document(const Printed& p) {
  const json j = json::parse(p.out, nullptr, false);
  EXPECT_FALSE(j.is_discarded()) << p.out;
  if (!j.is_discarded()) {
    expect_finite(j);
    EXPECT_EQ(j["exit_code"], p.code);
  }
  return j;
}

TEST_F(PerfRun, all_modes__end_exactly) {
  const Args variants[] = {
      {"-s", "0", "-n", "10"},
      {"-s", "1", "-n", "1"},
      {"-s", "1000", "-n", "101", "-q", "3", "-t", "12", "-Q", "7"},
      {"-s", "1024", "-n", "1000", "-q", "5", "-t", "12"},
      {"-s", "100", "-n", "300", "-b", "-t", "83", "-r", "41"},
      {"-s", "64", "-n", "500", "-r", "1", "-b", "-q", "2"},
      {"-s", "4097", "-n", "100", "--region", "10000"},
      {"-s", "4096", "-n", "99", "--region", "4096", "-Q", "16", "-t", "16"},
      {"-s", "256", "-n", "128", "-Q", "128", "-t", "128", "--no-verify", "-b"}};
  for (const char* test : {"write_bw", "send_bw"})
    for (const Args& v : variants) {
      Args args = v;
      args.push_back("--json");
      TwoEnds ends;
      ends.run(perf_main, {test, "--json"}, client(test, args));
      SCOPED_TRACE(std::string(test) + testing::PrintToString(v));
      ASSERT_EQ(ends.client.code, 0) << ends.client.err << ends.server.err;
      ASSERT_EQ(ends.server.code, 0) << ends.server.err;
      EXPECT_TRUE(ends.client.err.empty() && ends.server.err.empty());
      const json c = document(ends.client), s = document(ends.server);
      const std::uint64_t wanted =
          c["parameters"]["streams"].get<std::uint64_t>() * std::stoull(v[3]);
      EXPECT_EQ(c["rounds"][0]["sent"]["messages"], wanted);
      EXPECT_EQ(s["rounds"][0]["received"]["messages"], wanted);
      EXPECT_EQ(s["rounds"][0]["received"]["bytes"], wanted * std::stoull(v[1]));
    }
}

TEST_F(PerfRun, latency__counts_and_checks) {
  for (const char* test : {"write_lat", "send_lat"})
    for (const Args& v :
         {Args{"-s", "1", "-n", "600"}, Args{"-s", "4096", "-n", "50", "--region", "8192"},
          Args{"-s", "64", "-n", "100", "-r", "1", "--no-verify"}}) {
      Args args = v;
      args.push_back("--json");
      TwoEnds ends;
      ends.run(perf_main, {test, "--json"}, client(test, args));
      ASSERT_EQ(ends.client.code, 0) << ends.client.err << ends.server.err;
      ASSERT_EQ(ends.server.code, 0) << ends.server.err;
      const json h = document(ends.client)["rounds"][0]["half_round_trip"];
      EXPECT_EQ(h["samples"], std::stoi(v[3]));
      EXPECT_LE(h["min_us"], h["p50_us"]);
      EXPECT_LE(h["p99_us"], h["p99_9_us"]);
      EXPECT_LE(h["p99_9_us"], h["max_us"]);
    }
}

TEST_F(PerfRun, all_sizes__rounds_of_every_power) {
  TwoEnds ends;
  ends.run(perf_main, {"send_bw"}, client("send_bw", {"-a", "-n", "3", "--json"}));
  ASSERT_EQ(ends.client.code, 0) << ends.client.err << ends.server.err;
  const json j = document(ends.client);
  ASSERT_EQ(j["rounds"].size(), 23U);
  EXPECT_EQ(j["rounds"][22]["size_bytes"], 8388608);
  EXPECT_EQ(ends.server.code, 0) << ends.server.err;
  TwoEnds latency;
  latency.run(perf_main, {"write_lat"}, client("write_lat", {"-a", "-n", "3", "--json"}));
  ASSERT_EQ(latency.client.code, 0) << latency.client.err << latency.server.err;
  EXPECT_EQ(document(latency.client)["rounds"].size(), 23U);
}

TEST_F(PerfRun, flipped_byte__located_at_both_ends) {
  const struct {
    const char* test;
    std::uint64_t offset;
  } cases[] = {{"write_bw", 0}, {"write_bw", 4095}, {"write_bw", 4096}, {"write_bw", 8999},
               {"send_bw", 0},  {"send_bw", 8999},  {"send_lat", 100},  {"write_lat", 100}};
  for (const auto& c : cases) {
    fake::Faults faults;
    faults.flip_message = 20;
    faults.flip_min_length = 9000;
    faults.flip_offset = c.offset;
    fake::reset(faults);
    TwoEnds ends;
    ends.run(perf_main, {c.test, "--json"}, client(c.test, {"-s", "9000", "-n", "50", "--json"}));
    SCOPED_TRACE(c.test);
    EXPECT_EQ(ends.client.code, app::kExitMismatch) << ends.client.err;
    EXPECT_EQ(ends.server.code, app::kExitMismatch) << ends.server.err;
    const std::string where = "offset " + std::to_string(c.offset) + ":";
    for (const Printed* p : {&ends.client, &ends.server}) {
      const std::string text = document(*p)["error"];
      EXPECT_NE(text.find(where), std::string::npos) << text;
      EXPECT_NE(text.find("expected 0x"), std::string::npos) << text;
      if (std::string(c.test).ends_with("bw")) {
        EXPECT_NE(text.find("message 20 "), std::string::npos) << text;
      }
    }
  }
}

TEST_F(PerfRun, unverified__own_overwrites_are_no_corruption) {
  TwoEnds ends;
  ends.run(perf_main, {"write_bw"},
           client("write_bw", {"-s", "512", "--region", "512", "-n", "1000", "--no-verify"}));
  EXPECT_EQ(ends.client.code, 0) << ends.client.err;
  EXPECT_EQ(ends.server.code, 0) << ends.server.err;
  EXPECT_NE(ends.client.out.find("Gb/s"), std::string::npos);
}

TEST_F(PerfRun, forever__either_signal_ends_both_with_a_summary) {
  for (const char* test : {"write_bw", "send_bw", "write_lat"})
    for (const bool at_client : {true, false}) {
      TwoEnds ends;
      ends.run(perf_main, {test, "--json"},
               client(test, {"--run_infinitely", "-s", "64", "--json"}), [&] {
                 while (fake::messages() < 2000) std::this_thread::yield();
                 (at_client ? ends.stop_client : ends.stop_server) = 15;
               });
      SCOPED_TRACE(test);
      EXPECT_EQ(ends.client.code, 0) << ends.client.err;
      EXPECT_EQ(ends.server.code, 0) << ends.server.err;
      EXPECT_TRUE(document(ends.client)["interrupted"]);
      EXPECT_GT(document(ends.client)["rounds"][0]["sent"]["messages"], 0);
      EXPECT_NE((at_client ? ends.server : ends.client).err.find("was interrupted"),
                std::string::npos);
      fake::reset();
    }
}

TEST_F(PerfRun, duration__ends_by_the_clock) {
  TwoEnds ends;
  ends.run(perf_main, {"send_bw", "--json"},
           client("send_bw", {"-D", "0.2", "-b", "--verify", "--json"}));
  EXPECT_EQ(ends.client.code, 0) << ends.client.err;
  EXPECT_EQ(ends.server.code, 0) << ends.server.err;
  EXPECT_FALSE(document(ends.client)["interrupted"]);
  EXPECT_GE(document(ends.client)["rounds"][0]["sent"]["elapsed_s"], 0.15);
  EXPECT_GT(document(ends.server)["rounds"][0]["sent"]["messages"], 0);
}

TEST_F(PerfRun, mismatched_command_lines__refused_in_one_line) {
  const struct {
    Args server, client;
    const char* says;
  } cases[] = {{{"write_bw"}, {"send_bw", "10.0.0.2"}, "another test"},
               {{"write_bw", "-s", "1024"}, {"write_bw", "10.0.0.2", "-s", "2048"}, "--size 1024"},
               {{"write_bw", "-q", "2"}, {"write_bw", "10.0.0.2"}, "--streams 2"},
               {{"write_bw", "-b"}, {"write_bw", "10.0.0.2"}, "--bidirectional"}};
  for (const auto& c : cases) {
    TwoEnds ends;
    ends.run(perf_main, c.server, c.client);
    EXPECT_NE(ends.client.code, 0);
    EXPECT_NE(ends.server.code, 0);
    EXPECT_NE(ends.client.err.find(c.says), std::string::npos) << ends.client.err;
    EXPECT_EQ(std::count(ends.client.err.begin(), ends.client.err.end(), '\n'), 1)
        << ends.client.err;
  }
}

TEST_F(PerfRun, server_memory_refused__client_is_told) {
  fake::Faults faults;
  faults.memory_limit =
      3 << 20;  // the client's 2 MiB pass, the server's are the same: both refuse above
  fake::reset(faults);
  TwoEnds ends;
  ends.run(perf_main, {"write_bw", "--json"}, client("write_bw", {"-s", "8M", "--json"}));
  EXPECT_EQ(ends.client.code, app::kExitFailure);
  EXPECT_EQ(ends.server.code, app::kExitFailure);
  EXPECT_NE(std::string(document(ends.server)["error"]).find("the client says"), std::string::npos);
}

TEST_F(PerfRun, cut_connection__peer_lost_on_both_sides) {
  fake::Faults faults;
  faults.cut_after = 300;
  fake::reset(faults);
  TwoEnds ends;
  ends.run(perf_main, {"write_bw", "--json"},
           client("write_bw", {"--run_infinitely", "-s", "64", "--json", "--timeout", "2"}));
  EXPECT_EQ(document(ends.client)["exit_code"], app::kExitPeerLost) << ends.client.err;
  EXPECT_EQ(document(ends.server)["exit_code"], app::kExitPeerLost) << ends.server.err;
}

TEST_F(PerfRun, dataplane_dies__both_end_with_a_reason) {
  TwoEnds ends;
  ends.run(perf_main, {"send_bw", "--json"}, client("send_bw", {"--run_infinitely", "--json"}),
           [&] {
             while (fake::messages() < 100) std::this_thread::yield();
             fake::kill_dataplane();
           });
  EXPECT_NE(document(ends.client)["exit_code"], 0);
  EXPECT_NE(document(ends.server)["exit_code"], 0);
}

TEST_F(PerfRun, no_server__refused_within_the_timeout) {
  const Printed p =
      app::run_program(perf_main, {"write_bw", "10.0.0.2", "--timeout", "0.2", "--json"});
  EXPECT_EQ(p.code, app::kExitPeerLost);
  document(p);
}

TEST_F(PerfRun, persistent__serves_until_the_signal) {
  std::atomic<int> stop{0};
  Printed server;
  std::thread thread([&] {
    server = app::run_program(perf_main, {"write_bw", "--persistent", "--json"}, &stop);
  });
  for (int i = 0; i < 3; ++i) {
    const Printed p = app::run_program(perf_main, client("write_bw", {"-n", "20", "-s", "64"}));
    EXPECT_EQ(p.code, 0) << p.err;
  }
  EXPECT_NE(app::run_program(perf_main, client("send_bw", {"-n", "20"})).code, 0);
  const Printed last = app::run_program(perf_main, client("write_bw", {"-n", "20", "-s", "64"}));
  EXPECT_EQ(last.code, 0) << last.err;
  stop = 2;
  thread.join();
  EXPECT_EQ(server.code, 0) << server.err;
  const json j = document(server);
  EXPECT_EQ(j["served"], 5);
  EXPECT_EQ(j["failed"], 1);
}

TEST_F(PerfRun, busy_server__second_client_is_told) {
  TwoEnds ends;
  Printed second;
  ends.run(perf_main, {"write_bw"}, client("write_bw", {"--run_infinitely", "-s", "64"}), [&] {
    while (fake::messages() < 100) std::this_thread::yield();
    second = app::run_program(perf_main, client("write_bw", {"-n", "1", "--timeout", "0.5"}));
    ends.stop_client = 2;
  });
  EXPECT_EQ(second.code, app::kExitPeerLost);
  EXPECT_NE(second.err.find("busy"), std::string::npos) << second.err;
  EXPECT_EQ(ends.client.code, 0) << ends.client.err;
  EXPECT_EQ(ends.server.code, 0) << ends.server.err;
}

TEST_F(PerfRun, short_runs__no_spurious_errors_at_the_end) {
  for (int i = 0; i < 60; ++i) {
    TwoEnds ends;
    ends.run(perf_main, {"send_bw"}, client("send_bw", {"-n", "3", "-s", "16", "-q", "2"}));
    ASSERT_EQ(ends.client.code + ends.server.code, 0) << ends.client.err << ends.server.err;
    ASSERT_TRUE(ends.client.err.empty() && ends.server.err.empty())
        << ends.client.err << ends.server.err;
  }
}

}  // namespace
}  // namespace metaroce::perf
