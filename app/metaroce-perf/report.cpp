#include "metaroce-perf/report.h"

#include <fmt/format.h>

#include "common/units.h"

namespace metaroce::perf {
namespace {

using nlohmann::ordered_json;

void put(std::FILE* out, const std::string& line) {
  std::fprintf(out, "%s\n", line.c_str());
  std::fflush(out);
}

double microseconds(std::uint64_t ns) { return static_cast<double>(ns) / 1000.0; }

std::int64_t total_ns(const RunReport& r) {
  std::int64_t sum = 0;
  for (const RoundResult& round : r.rounds)
    sum += std::max(round.sent.elapsed_ns, round.received.elapsed_ns);
  return sum;
}

void print_direction(std::FILE* out, const RoundResult& r, const char* name,
                     const DirectionResult& d) {
  if (!d.used) return;
  put(out, fmt::format("{:>10}  {:<8}  {:>10}  {:>10.3f}  {:>10.1f}  {:>10.4f}  {:>9.3f}  {}",
                       r.size, name, d.messages, app::gigabits_per_second(d.bytes, d.elapsed_ns),
                       app::mebibytes_per_second(d.bytes, d.elapsed_ns),
                       app::millions_per_second(d.messages, d.elapsed_ns),
                       static_cast<double>(d.elapsed_ns) / 1e9, r.verified ? "yes" : "no"));
}

ordered_json direction_json(const DirectionResult& d) {
  return {{"messages", d.messages},
          {"bytes", d.bytes},
          {"elapsed_s", static_cast<double>(d.elapsed_ns) / 1e9},
          {"gbit_per_s", app::gigabits_per_second(d.bytes, d.elapsed_ns)},
          {"mib_per_s", app::mebibytes_per_second(d.bytes, d.elapsed_ns)},
          {"mmsg_per_s", app::millions_per_second(d.messages, d.elapsed_ns)}};
}

ordered_json latency_json(const LatencyHistogram& h) {
  return {{"samples", h.count()},
          {"min_us", microseconds(h.min())},
          {"p50_us", microseconds(h.quantile(0.5))},
          {"p99_us", microseconds(h.quantile(0.99))},
          {"p99_9_us", microseconds(h.quantile(0.999))},
          {"max_us", microseconds(h.max())}};
}

ordered_json counts_json(const PathCounts& c) {
  return {{"tx_packets", c.tx_packets},
          {"tx_bytes", c.tx_bytes},
          {"retransmitted_packets", c.retransmitted},
          {"lost_packets", c.lost},
          {"spurious_packets", c.spurious},
          {"rx_packets", c.rx_packets},
          {"rx_bytes", c.rx_bytes},
          {"rx_out_of_order_packets", c.out_of_order}};
}

void print_counts(std::FILE* out, const std::string& name, const PathCounts& c) {
  put(out,
      fmt::format("{}: sent {} packets {}, retransmitted {}, lost {}, spurious {}; received {} "
                  "packets {}, out of order {}",
                  name, c.tx_packets, app::format_bytes(c.tx_bytes), c.retransmitted, c.lost,
                  c.spurious, c.rx_packets, app::format_bytes(c.rx_bytes), c.out_of_order));
}

}  // namespace

void print_heading(std::FILE* out, const RunReport& report) {
  const Options& o = report.options;
  put(out,
      fmt::format("{}{} with {}: {} stream{}, {}, tx-depth {}, rx-depth {}, cq-mod {}, region {} "
                  "per stream",
                  o.test, o.bidirectional ? " both ways" : "",
                  report.peer.empty() ? "peer" : report.peer, o.streams, o.streams == 1 ? "" : "s",
                  o.duration_s > 0 ? fmt::format("{} s", o.duration_s)
                  : o.forever      ? "until interrupted"
                                   : fmt::format("{} messages each", o.iterations),
                  o.tx_depth, o.rx_depth, o.cq_mod, app::format_bytes(o.region)));
  put(out, o.latency() ? fmt::format("{:>10}  {:>8}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  {}",
                                     "bytes", "samples", "min us", "p50 us", "p99 us", "p99.9 us",
                                     "max us", "verified   (half round trips)")
                       : fmt::format("{:>10}  {:<8}  {:>10}  {:>10}  {:>10}  {:>10}  {:>9}  {}",
                                     "bytes", "data", "messages", "Gb/s", "MiB/s", "Mmsg/s",
                                     "seconds", "verified   (acknowledged payload)"));
}

void print_round(std::FILE* out, const Options& o, const RoundResult& r) {
  if (o.latency()) {
    const LatencyHistogram& h = r.latency;
    if (h.count() == 0)
      return put(out, fmt::format("{:>10}  {:>8}  answered; latencies are with the client", r.size,
                                  r.received.messages));
    return put(out,
               fmt::format("{:>10}  {:>8}  {:>9.2f}  {:>9.2f}  {:>9.2f}  {:>9.2f}  {:>9.2f}  {}",
                           r.size, h.count(), microseconds(h.min()), microseconds(h.quantile(0.5)),
                           microseconds(h.quantile(0.99)), microseconds(h.quantile(0.999)),
                           microseconds(h.max()), r.verified ? "yes" : "no"));
  }
  print_direction(out, r, "sent", r.sent);
  print_direction(out, r, "received", r.received);
}

void print_statistics(std::FILE* out, const RunReport& report) {
  if (report.interrupted) put(out, "interrupted: the figures are of what was done until then");
  const PathCounts total = report.statistics.total();
  print_counts(out, "packets", total);
  const std::int64_t ns = total_ns(report);
  put(out, fmt::format("packet rate: sent {:.4f} Mpps, received {:.4f} Mpps; paths used {}",
                       app::millions_per_second(total.tx_packets, ns),
                       app::millions_per_second(total.rx_packets, ns),
                       report.statistics.paths().size()));
  for (const PathCounts& p : report.statistics.planes())
    print_counts(out, fmt::format("plane {} ({} path{})", p.plane, p.path, p.path == 1 ? "" : "s"),
                 p);
  if (!report.options.paths) return;
  for (const PathCounts& p : report.statistics.paths())
    print_counts(
        out,
        fmt::format("path {} (plane {}, UDP source port {}, {}, SRTT {:.1f} us)", p.path, p.plane,
                    p.source_port, p.active ? "active" : "inactive", microseconds(p.srtt_ns)),
        p);
}

ordered_json to_json(const RunReport& report) {
  const Options& o = report.options;
  ordered_json j;
  j["test"] = o.test;
  j["role"] = report.server ? "server" : "client";
  j["peer"] = report.peer;
  j["interrupted"] = report.interrupted;
  j["parameters"] = {{"streams", o.streams},      {"tx_depth", o.tx_depth},
                     {"rx_depth", o.rx_depth},    {"cq_mod", o.cq_mod},
                     {"region_bytes", o.region},  {"bidirectional", o.bidirectional},
                     {"duration_s", o.duration_s}};
  j["rounds"] = ordered_json::array();
  for (const RoundResult& r : report.rounds) {
    ordered_json round{{"size_bytes", r.size}, {"verified", r.verified}};
    if (r.sent.used) round["sent"] = direction_json(r.sent);
    if (r.received.used) round["received"] = direction_json(r.received);
    if (o.latency() && !report.server) round["half_round_trip"] = latency_json(r.latency);
    j["rounds"].push_back(round);
  }
  const PathCounts total = report.statistics.total();
  j["packets"] = counts_json(total);
  j["packets"]["tx_mpps"] = app::millions_per_second(total.tx_packets, total_ns(report));
  j["packets"]["rx_mpps"] = app::millions_per_second(total.rx_packets, total_ns(report));
  j["paths_used"] = report.statistics.paths().size();
  j["planes"] = ordered_json::array();
  for (const PathCounts& p : report.statistics.planes()) {
    ordered_json plane{{"plane", p.plane}, {"paths", p.path}};
    plane.update(counts_json(p));
    j["planes"].push_back(plane);
  }
  if (!o.paths) return j;
  j["paths"] = ordered_json::array();
  for (const PathCounts& p : report.statistics.paths()) {
    ordered_json path{{"path", p.path},
                      {"plane", p.plane},
                      {"active", p.active},
                      {"udp_source_port", p.source_port},
                      {"srtt_us", microseconds(p.srtt_ns)}};
    path.update(counts_json(p));
    j["paths"].push_back(path);
  }
  return j;
}

}  // namespace metaroce::perf
