// The oracle's completion of a scenario, given the losses of a run of it:
//
//     metaroce-sim run FILE --seed 3 --set loss=1% --losses losses.csv
//     metaroce-oracle FILE --seed 3 --set loss=1% --losses losses.csv
//
// prints one JSON object. Exit status 2 and a sentence when something does not fit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "metaroce-sim/metrics.h"
#include "oracle/oracle.h"
#include "scenario/load.h"

namespace {

int refuse(const std::string& what) {
  fmt::print(stderr, "metaroce-oracle: {}\n", what);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace metaroce;
  std::string file, path;
  std::vector<std::string> overrides;
  std::uint64_t seed = 0;
  CLI::App cli{"How soon a scenario could be complete with the losses of a run of it."};
  cli.add_option("FILE", file, "scenario file")->required();
  auto* given = cli.add_option("--seed", seed, "instead of the file's");
  cli.add_option("--set", overrides, "key.path=value; repeatable")->allow_extra_args(false);
  cli.add_option("--losses", path, "from metaroce-sim run --losses; none: nothing is lost");
  CLI11_PARSE(cli, argc, argv);
  if (given->count() != 0) overrides.push_back(fmt::format("seed={}", seed));
  const auto loaded = scenario::load_file(file, overrides);
  if (!loaded) return refuse(loaded.error());
  const sim::Workload& workload = loaded.value().workload;
  if (const auto error = oracle::why_not(workload); !error.empty()) return refuse(error);
  const std::uint32_t mtu = loaded.value().scenario.transport.payload_mtu;
  oracle::Losses losses;
  if (!path.empty()) {
    std::ifstream in(path);
    if (!in) return refuse(path + " cannot be read");
    if (const auto error = oracle::read_losses(in, mtu, workload, losses); !error.empty())
      return refuse(path + ", " + error);
  }
  const oracle::Answer a =
      oracle::ask(workload, simapp::ideal_fabric(loaded.value().scenario), mtu, losses);
  fmt::print("{{\"run_us\": {:.6f}, \"sent\": {}, \"lost\": {}, \"losses_of_the_run\": {}}}\n",
             static_cast<double>(a.last) / 1e6, a.sent, a.lost, losses.size());
  return 0;
}
