#include "metaroce-sim/sim_main.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "metaroce-sim/options.h"
#include "metaroce-sim/progress.h"
#include "metaroce-sim/report.h"
#include "metaroce-sim/sinks.h"
#include "scenario/load.h"

namespace metaroce::simapp {
namespace {

namespace fs = std::filesystem;

void print(std::FILE* out, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
}

int refuse(const app::Io& io, bool json, int code, const std::string& what) {
  print(io.err, "metaroce-sim: " + what + "\n");
  if (json) print(io.out, to_text(error_document(code, what)));
  return code;
}

double user_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

struct Sinks {
  OutputFile csv, series, losses, pcap;

  std::string open(const Options& o) {
    std::string error;
    if (!o.csv.empty()) error = csv.open(o.csv);
    if (error.empty() && !o.series.empty()) error = series.open(o.series);
    if (error.empty() && !o.losses.empty()) error = losses.open(o.losses);
    if (error.empty() && !o.pcap.empty()) error = pcap.open(o.pcap);
    if (error.empty() && series.is_open()) start_series(series);
    if (error.empty() && losses.is_open()) start_losses(losses);
    if (error.empty() && pcap.is_open()) start_pcap(pcap);
    return error;
  }
  std::string close() {
    std::string error = csv.close();
    if (error.empty()) error = series.close();
    if (error.empty()) error = losses.close();
    if (error.empty()) error = pcap.close();
    return error;
  }
};

RunReport run_one(const scenario::Loaded& l, const Options& o, const app::Io& io, Runner runner,
                  Sinks& sinks) {
  const sim::Scenario& s = l.scenario;
  Progress progress(io.err, !o.quiet);
  sim::RunHooks hooks;
  hooks.progress = [&](const sim::RunProgress& p) { progress.update(s.seed, p); };
  hooks.stop = io.stop;
  if (sinks.series.is_open())
    hooks.series = [&](Nanos at, std::string_view name, std::int64_t value) {
      add_sample(sinks.series, at, name, value);
    };
  if (sinks.losses.is_open())
    hooks.loss = [&](const sim::LostPacket& lost) { add_loss(sinks.losses, lost); };
  if (sinks.pcap.is_open())
    hooks.capture = [&](Nanos at, std::uint16_t, std::uint8_t, std::span<const std::uint8_t> f) {
      add_frame(sinks.pcap, at, f);
    };
  const double user = user_seconds();
  const auto wall = std::chrono::steady_clock::now();
  RunReport report;
  report.seed = s.seed;
  report.result = runner(s, l.workload, hooks);
  report.timing.user_s = user_seconds() - user;
  report.timing.wall_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();
  report.metrics = metrics_of(l, report.result);
  return report;
}

int exit_code_of(const std::vector<RunReport>& runs) {
  int code = kExitOk;
  for (const RunReport& run : runs) {
    if (!run.result.sound()) return kExitViolation;
    if (run.result.outcome != sim::Outcome::kComplete || run.result.totals.application_errors != 0)
      code = kExitFailure;
  }
  return code;
}

config::Result<scenario::Loaded> load_seed(const Options& o, std::optional<std::uint64_t> seed) {
  auto overrides = o.overrides;
  if (seed) overrides.push_back(fmt::format("seed={}", *seed));
  return scenario::load_file(o.files[0], overrides);
}

int run_command(const Options& o, const app::Io& io, Runner runner) {
  auto first = load_seed(o, o.seed);
  if (!first) return refuse(io, o.json, kExitUsage, first.error());
  Sinks sinks;
  // Before the run: an hour of it for a file that cannot be written would be a pity.
  if (auto error = sinks.open(o); !error.empty()) return refuse(io, o.json, kExitUsage, error);
  if (sinks.series.is_open() && first.value().scenario.output.series_interval == 0)
    first.value().scenario.output.series_interval = kMicrosecond;
  std::vector<RunReport> runs;
  runs.push_back(run_one(first.value(), o, io, runner, sinks));
  const std::uint64_t base = first.value().scenario.seed;
  for (std::uint32_t i = 1; i < o.seeds && !io.stopping(); ++i) {
    auto next = load_seed(o, base + i);
    if (!next) return refuse(io, o.json, kExitUsage, next.error());
    runs.push_back(run_one(next.value(), o, io, runner, sinks));
  }
  if (sinks.csv.is_open()) sinks.csv.write(flows_csv(first.value(), runs[0].result));
  if (auto error = sinks.close(); !error.empty()) return refuse(io, o.json, kExitFailure, error);
  const int code = exit_code_of(runs);
  print(io.out, o.json ? to_text(document(first.value(), runs, code, o.timing))
                       : summary_table(first.value(), runs));
  return code;
}

int check_command(const Options& o, const app::Io& io) {
  int code = kExitOk;
  for (const std::string& file : o.files) {
    const auto s = scenario::load_file(file, o.overrides);
    if (!s) {
      code = refuse(io, false, kExitUsage, s.error());
      continue;
    }
    print(io.out, fmt::format("{}: ok, {} hosts, {} flows, transport {:016x}\n", file,
                              s.value().workload.hosts, s.value().workload.flows.size(),
                              scenario::transport_hash(s.value().scenario.transport)));
  }
  return code;
}

int list_command(const Options& o, const app::Io& io) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator i(o.files[0], error), end; !error && i != end; i.increment(error))
    if (i->path().extension() == ".yaml") files.push_back(i->path());
  if (error)
    return refuse(io, false, kExitUsage,
                  fmt::format("{} cannot be listed: {}", o.files[0], error.message()));
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    const auto s = scenario::load_file(file.string());
    if (s && !s.value().scenario.description.empty())
      print(io.out,
            fmt::format("{:<32} {}\n", file.filename().string(), s.value().scenario.description));
  }
  return kExitOk;
}

bool wants_json(int argc, const char* const* argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const char* a) { return std::string_view(a) == "--json"; });
}

}  // namespace

int sim_main(int argc, const char* const* argv, const app::Io& io, Runner runner) {
  Options o;
  if (const auto error = parse_options(argc, argv, o); !error.empty())
    return refuse(io, wants_json(argc, argv), kExitUsage, error);
  if (!o.text.empty()) {
    print(io.out, o.text);
    return kExitOk;
  }
  switch (o.command) {
    case Command::kRun:
      return run_command(o, io, runner);
    case Command::kList:
      return list_command(o, io);
    case Command::kCheck:
      return check_command(o, io);
  }
  return kExitUsage;
}

}  // namespace metaroce::simapp
