#include "metaroce-sim/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace metaroce::simapp {
namespace {

using sim::Flow;
using sim::FlowResult;
using sim::RunResult;
using sim::Scenario;
using sim::Workload;

double d(std::int64_t v) { return static_cast<double>(v); }
double d(std::uint64_t v) { return static_cast<double>(v); }

bool done(const FlowResult& r) { return r.start != kNever && r.sender_done != kNever; }

// Completion over the ideal of the flow alone.
std::vector<double> slowdowns(const Workload& w, const RunResult& r, const sim::IdealFabric& ideal,
                              int tag) {
  std::vector<double> out;
  for (const Flow& f : w.flows) {
    const FlowResult& x = r.flows[f.id];
    if (!done(x) || (tag >= 0 && f.tag != tag)) continue;
    out.push_back(d(x.sender_done - x.start) / ideal.sender_ns(f.bytes, ideal.hops(f.src, f.dst)));
  }
  return out;
}

struct Span {
  Nanos sender = 0, receiver = 0;  // last completions
  double bytes = 0;
};
Span span_of(const Workload& w, const RunResult& r) {
  Span out;
  for (const Flow& f : w.flows) {
    const FlowResult& x = r.flows[f.id];
    if (!done(x) || x.receiver_done == kNever) continue;
    out.sender = std::max(out.sender, x.sender_done);
    out.receiver = std::max(out.receiver, x.receiver_done);
    out.bytes += d(f.bytes);
  }
  return out;
}

void add_completion(const Workload& w, const RunResult& r, const sim::IdealFabric& ideal,
                    Metrics& out) {
  const auto slow = sim::spread(slowdowns(w, r, ideal, -1));
  const Span span = span_of(w, r);
  const double best = sim::ideal_run_ns(w, ideal);
  out.emplace_back("slowdown_mean", slow.mean);
  out.emplace_back("slowdown_p99", slow.p99);
  out.emplace_back("slowdown_max", slow.max);
  out.emplace_back("run_us", d(span.sender) / 1e3);
  out.emplace_back("run_ideal_us", best / 1e3);
  out.emplace_back("run_slowdown", d(span.sender) / best);
  out.emplace_back("efficiency", span.sender > 0 ? best / d(span.sender) : 0);
  out.emplace_back("goodput_gbps", span.receiver > 0 ? span.bytes * 8 / d(span.receiver) : 0);
  std::vector<double> times;
  for (const FlowResult& x : r.flows)
    if (done(x)) times.push_back(d(x.sender_done - x.start));
  out.emplace_back("completion_jain", sim::jain(times));
  for (int tag = 1; tag < 256; ++tag) {
    const auto part = slowdowns(w, r, ideal, tag);
    if (part.empty()) break;
    if (tag == 1)
      out.emplace_back("slowdown_mean_tag0", sim::spread(slowdowns(w, r, ideal, 0)).mean);
    out.emplace_back(fmt::format("slowdown_mean_tag{}", tag), sim::spread(part).mean);
  }
}

void add_loss(double rtt, const RunResult& r, Metrics& out) {
  const auto& t = r.totals;
  out.emplace_back("retransmitted", d(t.retransmitted));
  if (t.data_lost != 0)
    out.emplace_back("retransmitted_per_lost", d(t.retransmitted) / d(t.data_lost));
  if (t.data_sent != 0) out.emplace_back("spurious_share", d(t.spurious) / d(t.data_sent));
  if (r.recovery.count() != 0) {
    out.emplace_back("recovery_p50_rtt", d(r.recovery.permille(500)) / rtt);
    out.emplace_back("recovery_p99_rtt", d(r.recovery.permille(990)) / rtt);
  }
  out.emplace_back("application_errors", d(t.application_errors));
  if (t.delivered_packets != 0)
    out.emplace_back("acks_per_packet", d(t.acks) / d(t.delivered_packets));
  if (r.rate_jain_ppm >= 0) out.emplace_back("rate_jain", d(r.rate_jain_ppm) / 1e6);
  if (r.receiver_idle >= 0) out.emplace_back("receiver_idle_us", d(r.receiver_idle) / 1e3);
}

double senders_of(const Workload& w) {
  std::vector<bool> sends(w.hosts, false);
  for (const Flow& f : w.flows) sends[f.src] = true;
  return static_cast<double>(std::count(sends.begin(), sends.end(), true));
}

// ---- one plane cut, later back: goodput before, during and after, from its samples
struct Cut {
  std::optional<Nanos> down, up;
};
Cut cut_of(const Scenario& s) {
  Cut cut;
  for (const auto& f : s.fabric.faults) {
    if (f.kind == fabric::FaultKind::kDown && !cut.down) cut.down = f.at_ns - s.host.warm_idle;
    if (f.kind == fabric::FaultKind::kUp && !cut.up) cut.up = f.at_ns - s.host.warm_idle;
  }
  return cut;
}

// Samples whose interval lies within [from, to).
std::vector<double> samples_between(const sim::GoodputSamples& g, Nanos from, Nanos to) {
  std::vector<double> out;
  for (std::size_t i = 0; i < g.bytes.size(); ++i) {
    const Nanos at = g.first + static_cast<Nanos>(i) * g.interval;
    if (at >= from && at + g.interval <= to) out.push_back(d(g.bytes[i]));
  }
  return out;
}

void add_outage(const Scenario& s, double rtt, double senders, const RunResult& r, Metrics& out) {
  const Cut cut = cut_of(s);
  const auto& g = r.goodput;
  if (!cut.down || *cut.down <= 0 || g.interval == 0 || s.fabric.planes < 2) return;
  Nanos end = kNever;  // every flow sends until here
  for (const FlowResult& x : r.flows) end = std::min(end, x.receiver_done);
  const double planes = s.fabric.planes, left = (planes - 1) / planes;
  // The first quarter until the cut is start-up.
  const double full = sim::spread(samples_between(g, *cut.down / 4, *cut.down)).p50;
  if (full <= 0) return;
  const sim::IdealFabric ideal = ideal_fabric(s);
  const double line =
      ideal.gbps / 8 * d(g.interval) * ideal.payload / (ideal.payload + ideal.header);
  out.emplace_back("rate_before_fault", full / (line * senders));
  sim::GoodputSamples after = g;
  after.bytes.clear();
  for (const double b : samples_between(g, *cut.down, end))
    after.bytes.push_back(static_cast<std::uint64_t>(b));
  const auto half = static_cast<std::uint64_t>(full * left / 2);
  out.emplace_back("outage_rtt", d(sim::longest_below(after, half)) / rtt);
  const Nanos until = cut.up ? std::min(*cut.up, end) : end;
  const Nanos settled = *cut.down + 10 * static_cast<Nanos>(rtt);
  const auto during = sim::spread(samples_between(g, settled, until));
  out.emplace_back("rate_during_fault", during.mean / (full * left));
  if (!cut.up) return;
  // Back when the mean over eight samples has reached 0.97 of what it was.
  const auto back = samples_between(g, *cut.up, end);
  constexpr std::size_t kWindow = 8;
  for (std::size_t i = 0; i + kWindow <= back.size(); ++i) {
    double sum = 0;
    for (std::size_t k = 0; k < kWindow; ++k) sum += back[i + k];
    if (sum < 0.97 * full * kWindow) continue;
    out.emplace_back("return_ms", d(static_cast<Nanos>(i + kWindow) * g.interval) / 1e6);
    return;
  }
}

// ---- storage incast: rates of the senders while all of them send, against max-min
struct Sender {
  std::vector<std::pair<Nanos, double>> steps;  // bytes complete at a time
};

double bytes_until(const Sender& s, Nanos t) {
  double bytes = 0;
  Nanos before = 0;
  for (const auto& [at, size] : s.steps) {
    if (at > t) return bytes + size * d(t - before) / d(at - before);
    bytes += size;
    before = at;
  }
  return bytes;
}

void add_fairness(const Scenario& s, const Workload& w, const RunResult& r, Metrics& out) {
  if (s.workload.kind != sim::WorkloadKind::kStorage) return;
  std::map<std::uint16_t, Sender> senders;
  for (const Flow& f : w.flows) {
    const Nanos at = r.flows[f.id].receiver_done;
    if (at == kNever) return;
    senders[f.src].steps.emplace_back(at, d(f.bytes));
  }
  Nanos all = kNever;
  for (const auto& [host, sender] : senders) all = std::min(all, sender.steps.back().first);
  // Links: the receiver's first, then each sender's. Only payload counts.
  const double payload = s.transport.payload_mtu / (s.transport.payload_mtu + 86.0);
  const double receiver = sim::port_rate(s, 0, 0) * payload;
  std::vector<double> capacities{receiver}, demands, shares;
  std::vector<std::vector<std::uint32_t>> routes;
  for (const auto& [host, sender] : senders) {
    capacities.push_back(sim::port_rate(s, host, 0) * payload);
    demands.push_back(capacities.back());
    routes.push_back({0, static_cast<std::uint32_t>(capacities.size() - 1)});
    shares.push_back(bytes_until(sender, all) * 8e3 / d(all));  // Mb/s
  }
  const auto fair = sim::max_min(routes, demands, capacities);
  double worst = 0, sum = 0;
  for (std::size_t i = 0; i < fair.size(); ++i) {
    worst = std::max(worst, std::abs(shares[i] / fair[i] - 1));
    sum += shares[i];
  }
  out.emplace_back("max_min_error", worst);
  out.emplace_back("receiver_use", sum / receiver);
}

}  // namespace

sim::IdealFabric ideal_fabric(const Scenario& s) {
  sim::IdealFabric f;
  double mbps = 0;
  for (std::uint8_t p = 0; p < s.fabric.planes; ++p) mbps += sim::port_rate(s, 0, p);
  f.gbps = mbps / 1e3;
  f.propagation_ns = d(s.fabric.host_propagation_ns);
  f.hops = [config = s.fabric](std::uint16_t a, std::uint16_t b) {
    return sim::links_between(config, a, b);
  };
  return f;
}

double base_rtt_ns(const scenario::Loaded& l) {
  const Scenario& s = l.scenario;
  std::uint32_t links = 2;
  for (const Flow& f : l.workload.flows)
    links = std::max(links, sim::links_between(s.fabric, f.src, f.dst));
  sim::IdealFabric one = ideal_fabric(s);
  one.gbps = s.fabric.host_rate_mbps / 1e3;  // a packet is on one plane
  const double extra = d(s.fabric.uplink_propagation_ns - s.fabric.host_propagation_ns);
  return one.sender_ns(4096, links) + 2 * extra * (links - 2);
}

Metrics metrics_of(const scenario::Loaded& l, const RunResult& r) {
  Metrics out;
  const double rtt = base_rtt_ns(l);
  add_completion(l.workload, r, ideal_fabric(l.scenario), out);
  add_loss(rtt, r, out);
  add_outage(l.scenario, rtt, senders_of(l.workload), r, out);
  add_fairness(l.scenario, l.workload, r, out);
  return out;
}

Metrics medians(const std::vector<Metrics>& runs) {
  Metrics out;
  std::map<std::string, std::vector<double>> values;
  for (const Metrics& run : runs)
    for (const auto& [name, value] : run) {
      if (!values.contains(name)) out.emplace_back(name, 0);
      values[name].push_back(value);
    }
  for (auto& [name, median] : out) {
    auto& v = values[name];
    std::sort(v.begin(), v.end());
    const std::size_t n = v.size();
    median = n % 2 != 0 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
  }
  return out;
}

}  // namespace metaroce::simapp
