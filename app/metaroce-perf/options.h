// The command line of metaroce-perf, checked before anything is touched: a combination that
// cannot work is refused here, in one line.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "common/api.h"
#include "common/outcome.h"
#include "metaroce-perf/message.h"

namespace metaroce::perf {

struct Options {
  Verb verb = Verb::kWrite;
  Metric metric = Metric::kBandwidth;
  std::string test;    // "write_bw"
  std::string server;  // empty: this is the server
  std::uint32_t service = 18515;

  std::uint64_t size = 65536;
  std::uint64_t iterations = 5000;  // per stream
  double duration_s = 0;
  bool forever = false, all_sizes = false, bidirectional = false;
  std::uint32_t streams = 1, tx_depth = 128, rx_depth = 512, cq_mod = 0;
  std::uint64_t region = 0;  // bytes per stream; 0: default_region()
  enum class Verify : std::uint8_t { kAuto, kOn, kOff } verify = Verify::kAuto;

  bool persistent = false, json = false, paths = false, spin = false;
  double timeout_s = 10;
  app::AttachOptions attach;
  std::set<std::string> given;  // long names that the command line named
  bool help_or_version = false;
  std::string help_text;

  bool client() const { return !server.empty(); }
  bool latency() const { return metric == Metric::kLatency; }
  std::uint64_t max_size() const { return all_sizes ? std::uint64_t{1} << 23 : size; }
  int timeout_ms() const { return static_cast<int>(timeout_s * 1000); }
  // Messages per stream for one size: with --all and no -n, fewer of the large ones.
  std::uint64_t iterations_for(std::uint64_t message_size) const;
  // By default a run that moves less than 1 GiB is checked.
  bool verify_for(std::uint64_t message_size) const;
};

app::Status parse_options(int argc, const char* const* argv, Options& out);

// The client's parameters in place of the server's; refuses, in one line, what differs from an
// option that the server's command line named and what no client of ours would ask for.
app::Status adopt_client_params(const Message& params, Options& server);

// What the client asks for against what the server's command line named: "" or the first that
// differs.
std::string compare_with_client(const Options& server, const Message& params);

}  // namespace metaroce::perf
