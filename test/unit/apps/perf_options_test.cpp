#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/peer_address.h"
#include "common/units.h"
#include "fake_metaroce.h"
#include "metaroce-perf/layout.h"
#include "metaroce-perf/options.h"
#include "metaroce-perf/run.h"
#include "two_ends.h"

namespace metaroce::perf {
namespace {

using Args = std::vector<std::string>;

app::Status parse(const Args& args, Options& o) {
  std::vector<const char*> argv{"metaroce-perf"};
  for (const std::string& a : args) argv.push_back(a.c_str());
  return parse_options(static_cast<int>(argv.size()), argv.data(), o);
}

TEST(Units, parse_bytes__table) {
  const struct {
    const char* text;
    std::int64_t value;
  } cases[] = {{"0", 0},
               {"1", 1},
               {"64K", 65536},
               {"9K", 9216},
               {"2G", 2147483648},
               {"0x1000", 4096},
               {"1MiB", 1048576},
               {"8g", std::int64_t{8} << 30},
               {"-1", -1},
               {"1e9", -1},
               {"", -1},
               {"K", -1},
               {"64 K", -1},
               {"1.5K", -1},
               {"0x", -1},
               {"99999999999999999999", -1},
               {"18446744073709551615K", -1},
               {"64Kb", -1},
               {"+5", -1}};
  for (const auto& c : cases) {
    std::uint64_t value = 0;
    const std::string error = app::parse_bytes(c.text, value);
    EXPECT_EQ(error.empty(), c.value >= 0) << c.text << ": " << error;
    if (c.value >= 0) {
      EXPECT_EQ(value, static_cast<std::uint64_t>(c.value)) << c.text;
    }
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST(Units, rates__known_values_and_no_time) {
  EXPECT_DOUBLE_EQ(app::gigabits_per_second(std::uint64_t{1} << 30, 1000000000), 8.589934592);
  EXPECT_DOUBLE_EQ(app::mebibytes_per_second(std::uint64_t{1} << 30, 1000000000), 1024.0);
  EXPECT_DOUBLE_EQ(app::millions_per_second(2000000, 1000000000), 2.0);
  EXPECT_EQ(app::gigabits_per_second(1, 0), 0.0);
}

TEST(PeerAddress, parse__table) {
  const struct {
    const char* text;
    const char* host;
    std::int64_t service;
  } cases[] = {{"[fd00::1]:4791", "fd00::1", 4791},
               {"fd00::1", "fd00::1", 0},
               {"[fd00::1]", "fd00::1", 0},
               {"::ffff:10.0.0.1", "::ffff:10.0.0.1", 0},
               {"10.0.0.1", "10.0.0.1", 0},
               {"10.0.0.1:70000", "10.0.0.1", 70000},  // services have 32 bits
               {"fe80::1%tap0", nullptr, 0},
               {"localhost", nullptr, 0},
               {"host:", nullptr, 0},
               {":4791", nullptr, 0},
               {"10.0.0.1:", nullptr, 0},
               {"10.0.0.1:0", nullptr, 0},
               {"10.0.0.1:4294967296", nullptr, 0},
               {"10.0.0.1:x", nullptr, 0},
               {"[fd00::1", nullptr, 0},
               {"[fd00::1]x", nullptr, 0},
               {"10.0.0.256", nullptr, 0},
               {"", nullptr, 0}};
  for (const auto& c : cases) {
    app::PeerAddress peer;
    const std::string error = app::parse_peer(c.text, peer);
    EXPECT_EQ(error.empty(), c.host != nullptr) << c.text << ": " << error;
    if (!c.host) continue;
    EXPECT_EQ(peer.host, c.host);
    EXPECT_EQ(peer.service.value_or(0), static_cast<std::uint32_t>(c.service));
  }
}

TEST(PerfOptions, parse__refusals) {
  const struct {
    Args args;
    const char* says;
  } cases[] = {
      {{}, "test"},
      {{"read_bw"}, "not a test"},
      {{"write_bw", "-s", "2147483649"}, "limit"},
      {{"write_bw", "-s", "4G"}, "limit"},
      {{"write_bw", "--size=-1"}, "negative"},
      {{"write_bw", "-s", "1e9"}, "not a size"},
      {{"write_bw", "-n", "0"}, "between"},
      {{"write_bw", "-n", "5", "-D", "1"}, "only one"},
      {{"write_bw", "-n", "5", "--run_infinitely"}, "only one"},
      {{"write_bw", "-a", "-s", "4"}, "--size"},
      {{"write_bw", "-a", "--run_infinitely"}, "second size"},
      {{"write_bw", "-Q", "200", "-t", "100"}, "queue is full"},
      {{"write_bw", "-q", "0"}, "between"},
      {{"write_bw", "-t", "0"}, "between"},
      {{"write_bw", "-r", "100000"}, "between"},
      {{"write_bw", "-q", "4096", "-t", "32768"}, "registered memory"},
      {{"write_bw", "-q", "4096", "-t", "32768", "-s", "1", "--region", "64"}, "completion queue"},
      {{"write_bw", "--region", "1K", "-s", "4K"}, "smaller than one message"},
      {{"write_bw", "--region", "0"}, "no room"},
      {{"write_bw", "--verify", "--no-verify"}, "only one"},
      {{"write_bw", "--once", "--persistent"}, "only one"},
      {{"write_bw", "10.0.0.1", "--persistent"}, "for the server"},
      {{"write_bw", "host"}, "names are not looked up"},
      {{"write_bw", "10.0.0.1:7", "-p", "8"}, "service 7"},
      {{"write_bw", "-p", "0"}, "between"},
      {{"write_bw", "-D", "0"}, "between"},
      {{"write_bw", "-D", "nan"}, "seconds"},
      {{"write_lat", "-q", "2"}, "one stream"},
      {{"write_lat", "-b"}, "both ways"},
      {{"write_lat", "-s", "0"}, "last byte"},
      {{"send_lat", "-Q", "4"}, "cq-mod"},
      {{"send_lat", "-s", "64", "--region", "64"}, "two messages"},
      {{"write_bw", "--embed", "a.yaml", "--socket", "/x"}, "--socket"},
      {{"write_bw", "--frobnicate"}, "frobnicate"}};
  for (const auto& c : cases) {
    Options o;
    const app::Status s = parse(c.args, o);
    EXPECT_EQ(s.code, app::kExitUsage) << testing::PrintToString(c.args);
    EXPECT_NE(s.text.find(c.says), std::string::npos)
        << testing::PrintToString(c.args) << ": " << s.text;
    EXPECT_EQ(s.text.find('\n'), std::string::npos) << s.text;
  }
}

TEST(PerfOptions, parse__accepted) {
  Options o;
  ASSERT_TRUE(parse({"write_bw", "[fd00::2]:9", "-s", "2G", "-n", "1", "-t", "4096", "--no-verify",
                     "--region", "2G"},
                    o)
                  .ok());
  EXPECT_EQ(o.server, "fd00::2");
  EXPECT_EQ(o.service, 9U);
  EXPECT_EQ(o.size, kMaxMessage);
  EXPECT_EQ(o.tx_depth, 4096U);
  Options forever;
  ASSERT_TRUE(
      parse({"send_bw", "10.0.0.1", "--run_infinitely", "-t", "4096", "-s", "64"}, forever).ok());
  EXPECT_EQ(forever.tx_depth, 4096U);  // not clipped by iterations that do not apply
  EXPECT_EQ(forever.iterations_for(64), 0U);
}

TEST(PerfOptions, verify_for__default_below_one_gib) {
  Options o;
  ASSERT_TRUE(parse({"write_bw", "-s", "1M", "-n", "1023"}, o).ok());
  EXPECT_TRUE(o.verify_for(o.size));
  ASSERT_TRUE(parse({"write_bw", "-s", "1M", "-n", "1024"}, o).ok());
  EXPECT_FALSE(o.verify_for(o.size));
  o.verify = Options::Verify::kOn;
  EXPECT_TRUE(o.verify_for(o.size));
}

TEST(Layout, slots__rotate_inside_the_region) {
  const Layout l(100, 1000, Metric::kBandwidth);
  EXPECT_EQ(l.stride, 128U);
  EXPECT_EQ(l.slots, 7U);
  for (std::uint64_t n = 0; n < 50; ++n) {
    EXPECT_LE(l.offset(2, n) + 100, 3 * 1000U);
    EXPECT_EQ(l.offset(2, n), l.offset(2, n + 7));
  }
  EXPECT_LE(Layout(2, 1 << 20, Metric::kLatency).slots, 254U);
  EXPECT_GE(default_region(kMaxMessage, 1), kMaxMessage);
}

TEST(PerfMain, json__one_document_on_every_refusal) {
  fake::Faults faults;
  faults.refuse_attach = true;
  fake::reset(faults);
  const struct {
    Args args;
    int code;
  } cases[] = {{{"write_bw", "--json", "-s", "-1"}, app::kExitUsage},
               {{"write_bw", "--json", "--nonsense"}, app::kExitUsage},
               {{"write_bw", "--json", "\xff\xfe\"host"}, app::kExitUsage},
               {{"--json"}, app::kExitUsage},
               {{"write_bw", "--json", "10.0.0.1"}, app::kExitFailure}};
  for (const auto& c : cases) {
    const app::Printed p = app::run_program(perf_main, c.args);
    EXPECT_EQ(p.code, c.code);
    const auto j = nlohmann::json::parse(p.out, nullptr, false);
    ASSERT_FALSE(j.is_discarded()) << p.out;
    EXPECT_EQ(j["exit_code"], c.code);
    EXPECT_FALSE(j["error"].get<std::string>().empty());
    EXPECT_EQ(std::count(p.err.begin(), p.err.end(), '\n'), 1) << p.err;
  }
  fake::reset();
}

TEST(PerfMain, help__names_exit_codes) {
  const app::Printed p = app::run_program(perf_main, {"--help"});
  EXPECT_EQ(p.code, 0);
  EXPECT_NE(p.out.find("3 data mismatch"), std::string::npos);
}

}  // namespace
}  // namespace metaroce::perf
