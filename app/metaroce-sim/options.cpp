#include "metaroce-sim/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

namespace metaroce::simapp {
namespace {

struct Raw {
  std::string seed, seeds, replay, file, folder = "config/scenarios";
};

std::string read(const char* option, const std::string& text, std::uint64_t least,
                 std::uint64_t most, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size() || out < least || out > most)
    return fmt::format("{} {:?} is not a number from {} to {}", option, text, least, most);
  return {};
}

void add_run(CLI::App& app, Raw& raw, Options& o) {
  app.add_option("FILE", raw.file, "scenario file")->required();
  app.add_option("--seed", raw.seed, "instead of the file's");
  app.add_option("--seeds", raw.seeds, "run that many seeds, from --seed on, and report medians");
  app.add_option("--replay", raw.replay,
                 "run this one seed again, as the line below a violation says");
  app.add_option("--set", o.overrides, "key.path=value, like a line of the file; repeatable")
      ->allow_extra_args(false);
  app.add_flag("--json", o.json, "one JSON document on stdout, the same for the same seeds");
  app.add_flag("--timing", o.timing, "with --json: CPU time and packets per second as well");
  app.add_flag("-q,--quiet", o.quiet, "no progress on stderr");
  app.add_option("--csv", o.csv, "write one line per flow to this file");
  app.add_option("--series", o.series, "write the time series, `time_ns,name,value`, to this file");
  app.add_option("--losses", o.losses,
                 "write one line per data packet that the fabric lost, "
                 "`time_ns,flow,offset,transmission,cause`, to this file");
  app.add_option("--pcap", o.pcap, "write all frames that arrive at hosts to this file");
}

std::string read_numbers(const Raw& raw, Options& o) {
  std::uint64_t value = 0;
  if (!raw.seed.empty()) {
    if (auto e = read("--seed", raw.seed, 0, UINT64_MAX, value); !e.empty()) return e;
    o.seed = value;
  }
  if (!raw.seeds.empty()) {
    if (auto e = read("--seeds", raw.seeds, 1, 1000000, value); !e.empty()) return e;
    o.seeds = static_cast<std::uint32_t>(value);
  }
  if (!raw.replay.empty()) {
    if (auto e = read("--replay", raw.replay, 0, UINT64_MAX, value); !e.empty()) return e;
    if (o.seed || o.seeds != 1) return "--replay names the one seed: leave --seed and --seeds out";
    o.seed = value;
  }
  if (o.seeds > 1 && !(o.csv.empty() && o.series.empty() && o.losses.empty() && o.pcap.empty()))
    return "--csv, --series, --losses and --pcap are of one run: leave --seeds out";
  if (o.timing && !o.json) return "--timing adds to --json: give that too";
  return {};
}

}  // namespace

std::string parse_options(int argc, const char* const* argv, Options& o) {
  CLI::App cli{
      "MetaRoCE in virtual time: the transport's own code on hundreds of hosts over an "
      "emulated fabric, the same bytes for the same seed."};
  cli.require_subcommand(1);
  Raw raw;
  auto* run = cli.add_subcommand("run", "run a scenario");
  add_run(*run, raw, o);
  auto* list = cli.add_subcommand("list", "name the scenarios of a folder");
  list->add_option("FOLDER", raw.folder, "default: config/scenarios");
  auto* check = cli.add_subcommand("check", "read scenario files, run nothing");
  check->add_option("FILE", o.files, "scenario files")->required();
  check->add_option("--set", o.overrides, "key.path=value; repeatable")->allow_extra_args(false);
  cli.set_version_flag("--version", std::string("metaroce-sim ") + METAROCE_VERSION);
  cli.footer(std::string("A file: doc/reference/scenarios.md lists its keys; config/scenarios/ has "
                         "many.\n") +
             kExitCodeHelp);
  run->footer(kExitCodeHelp);
  try {
    cli.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    o.text = (run->parsed() ? run : list->parsed() ? list : check->parsed() ? check : &cli)->help();
    return {};
  } catch (const CLI::CallForVersion& version) {
    o.text = std::string(version.what()) + "\n";
    return {};
  } catch (const CLI::ParseError& error) {
    return fmt::format("{} (--help shows the options)", error.what());
  }
  if (list->parsed()) {
    o.command = Command::kList;
    o.files = {raw.folder};
    return {};
  }
  if (check->parsed()) {
    o.command = Command::kCheck;
    return {};
  }
  o.files = {raw.file};
  return read_numbers(raw, o);
}

}  // namespace metaroce::simapp
