#include "metaroce-sim/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "scenario/load.h"

namespace metaroce::simapp {
namespace {

using Json = nlohmann::ordered_json;

std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

Json time_json(Nanos t) { return t == kNever ? Json(nullptr) : Json(t); }

Json named(const std::vector<std::pair<std::string, std::uint64_t>>& counts) {
  Json out = Json::object();
  for (const auto& [name, count] : counts) out[name] = count;
  return out;
}

Json metrics_json(const Metrics& metrics) {
  Json out = Json::object();
  for (const auto& [name, value] : metrics) out[name] = value;
  return out;
}

Json totals_json(const sim::Totals& t) {
  return {{"delivered_packets", t.delivered_packets},
          {"delivered_bytes", t.delivered_bytes},
          {"data_sent", t.data_sent},
          {"retransmitted", t.retransmitted},
          {"spurious", t.spurious},
          {"data_lost", t.data_lost},
          {"ce_marked", t.ce_marked},
          {"acks", t.acks},
          {"data_wire_bytes", t.data_wire_bytes},
          {"control_bytes", t.control_bytes},
          {"application_errors", t.application_errors}};
}

Json flows_json(const sim::Workload& w, const sim::RunResult& r) {
  Json out = Json::array();
  for (const sim::Flow& f : w.flows) {
    const sim::FlowResult& x = r.flows[f.id];
    out.push_back({{"id", f.id + 1},
                   {"src", f.src},
                   {"dst", f.dst},
                   {"bytes", f.bytes},
                   {"start_ns", time_json(x.start)},
                   {"sender_done_ns", time_json(x.sender_done)},
                   {"receiver_done_ns", time_json(x.receiver_done)},
                   {"packets", x.packets},
                   {"resent", x.resent}});
  }
  return out;
}

Json run_json(const scenario::Loaded& l, const RunReport& run, bool timing) {
  const sim::RunResult& r = run.result;
  Json out;
  out["seed"] = run.seed;
  out["outcome"] = outcome_name(r.outcome);
  out["virtual_time_ns"] = r.virtual_time;
  out["events"] = r.events;
  out["trace_hash"] = hash_text(r.trace_hash);
  out["metrics"] = metrics_json(run.metrics);
  out["totals"] = totals_json(r.totals);
  out["lost"] = named(r.lost);
  out["drops"] = named(r.drops);
  out["recovery_ns"] = {{"count", r.recovery.count()},
                        {"p50", r.recovery.permille(500)},
                        {"p90", r.recovery.permille(900)},
                        {"p99", r.recovery.permille(990)}};
  out["connections"] = r.connections;
  out["violation_count"] = r.violation_count;
  out["violations"] = r.violations;
  if (timing) {
    const double user = run.timing.user_s;
    const auto packets = static_cast<double>(r.totals.delivered_packets);
    out["timing"] = {{"user_s", user},
                     {"wall_s", run.timing.wall_s},
                     {"packets_per_user_s", user > 0 ? packets / user : 0.0}};
  }
  if (l.scenario.output.flows) out["flows"] = flows_json(l.workload, r);
  return out;
}

std::vector<Metrics> all_metrics(const std::vector<RunReport>& runs) {
  std::vector<Metrics> out;
  for (const RunReport& run : runs) out.push_back(run.metrics);
  return out;
}

std::string figure(double v) {
  if (v != 0 && (v < 0.001 || v >= 1e7)) return fmt::format("{:.3e}", v);
  return fmt::format("{:.{}f}", v, v >= 1000 ? 1 : v >= 100 ? 2 : 4);
}

void add_counts(std::string& out, const sim::RunResult& r) {
  const auto& t = r.totals;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "  {:<24} {:>14}\n", "packets delivered", t.delivered_packets);
  fmt::format_to(to, "  {:<24} {:>14}\n", "bytes placed", t.delivered_bytes);
  fmt::format_to(to, "  {:<24} {:>14}\n", "lost in the fabric", t.data_lost);
  for (const auto& [cause, n] : r.lost) fmt::format_to(to, "    {:<22} {:>14}\n", cause, n);
  fmt::format_to(to, "  {:<24} {:>14}\n", "retransmitted", t.retransmitted);
  fmt::format_to(to, "  {:<24} {:>14}\n", "of those spurious", t.spurious);
  fmt::format_to(to, "  {:<24} {:>14}\n", "ACKs", t.acks);
  for (const auto& [cause, n] : r.drops) fmt::format_to(to, "  drop {:<19} {:>14}\n", cause, n);
}

void add_outcome(std::string& out, const RunReport& run) {
  const sim::RunResult& r = run.result;
  const auto open = std::count_if(r.flows.begin(), r.flows.end(),
                                  [](const auto& f) { return f.sender_done == kNever; });
  fmt::format_to(std::back_inserter(out),
                 "seed {}: {}, {} of {} flows, {:.3f} us of virtual time\n", run.seed,
                 outcome_name(r.outcome), static_cast<std::ptrdiff_t>(r.flows.size()) - open,
                 r.flows.size(), static_cast<double>(r.virtual_time) / 1e3);
  for (const std::string& v : r.violations) out += "  violation: " + v + "\n";
  if (!r.sound())
    fmt::format_to(std::back_inserter(out),
                   "  {} violations; replay: metaroce-sim run <the same> --replay {}\n",
                   r.violation_count, run.seed);
}

}  // namespace

std::string summary_table(const scenario::Loaded& l, const std::vector<RunReport>& runs) {
  const sim::Scenario& s = l.scenario;
  const sim::Workload& w = l.workload;
  std::string out = fmt::format("{}: {} hosts, {} flows, transport {}\n", s.name, w.hosts,
                                w.flows.size(), hash_text(scenario::transport_hash(s.transport)));
  for (const RunReport& run : runs) add_outcome(out, run);
  if (runs.size() == 1) add_counts(out, runs[0].result);
  if (runs.size() > 1) out += fmt::format("median of {} seeds:\n", runs.size());
  for (const auto& [name, value] : medians(all_metrics(runs)))
    out += fmt::format("  {:<24} {:>14}\n", name, figure(value));
  return out;
}

Json document(const scenario::Loaded& l, const std::vector<RunReport>& runs, int exit_code,
              bool timing) {
  const sim::Scenario& s = l.scenario;
  Json out = error_document(exit_code, {});
  out["scenario"] = s.name;
  out["description"] = s.description;
  out["hosts"] = l.workload.hosts;
  out["flows"] = l.workload.flows.size();
  out["base_rtt_ns"] = base_rtt_ns(l);
  out["transport"] = {{"hash", hash_text(scenario::transport_hash(s.transport))},
                      {"differs_from_defaults", scenario::transport_differences(s.transport)}};
  out["runs"] = Json::array();
  for (const RunReport& run : runs) out["runs"].push_back(run_json(l, run, timing));
  out["median"] = metrics_json(medians(all_metrics(runs)));
  return out;
}

Json error_document(int exit_code, const std::string& what) {
  Json out;
  out["tool"] = "metaroce-sim";
  out["version"] = METAROCE_VERSION;
  out["exit_code"] = exit_code;
  if (!what.empty()) out["error"] = what;
  return out;
}

std::string to_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string flows_csv(const scenario::Loaded& l, const sim::RunResult& r) {
  const sim::IdealFabric ideal = ideal_fabric(l.scenario);
  std::string out =
      "id,src,dst,bytes,tag,start_ns,sender_done_ns,receiver_done_ns,packets,resent,slowdown\n";
  const auto time = [](Nanos t) { return t == kNever ? std::string() : std::to_string(t); };
  for (const sim::Flow& f : l.workload.flows) {
    const sim::FlowResult& x = r.flows[f.id];
    std::string slowdown;
    if (x.sender_done != kNever)
      slowdown = fmt::format("{:.4f}", static_cast<double>(x.sender_done - x.start) /
                                           ideal.sender_ns(f.bytes, ideal.hops(f.src, f.dst)));
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{},{},{},{},{},{}\n", f.id + 1, f.src,
                   f.dst, f.bytes, f.tag, time(x.start), time(x.sender_done), time(x.receiver_done),
                   x.packets, x.resent, slowdown);
  }
  return out;
}

}  // namespace metaroce::simapp
