#include "metaroce-perf/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

#include "common/peer_address.h"
#include "common/units.h"
#include "metaroce-perf/layout.h"

namespace metaroce::perf {
namespace {

using app::fail;
using app::kExitUsage;
using app::Status;

constexpr std::uint64_t kMaxRegistered = std::uint64_t{16} << 30;
constexpr std::uint32_t kMaxStreams = 4096, kMaxDepth = 32768, kMaxQueue = 1U << 18;

// Every option is taken as text: the checks, and their wording, are ours.
struct Raw {
  std::string test, server, size, iterations, duration, streams, tx, rx, service, cq_mod, region,
      timeout, socket, host, embed;
  bool bidirectional = false, all = false, forever = false, verify = false, no_verify = false,
       once = false;
};

void declare(CLI::App& cli, Raw& raw, Options& o) {
  cli.add_option("test", raw.test, "write_bw, write_lat, send_bw or send_lat")->required();
  cli.add_option("server", raw.server,
                 "address of the server (IPv4 or IPv6 literal of any of its planes, or "
                 "address:service, [address]:service); without it this end is the server");
  cli.add_option("-s,--size", raw.size, "bytes per message, 0 to 2G (default 64K; latency 2)");
  cli.add_option("-n,--iters", raw.iterations, "messages per stream (default 5000; latency 1000)");
  cli.add_option("-D,--duration", raw.duration, "seconds to run, instead of -n");
  cli.add_flag("--run_infinitely", raw.forever, "run until SIGINT or SIGTERM, instead of -n");
  cli.add_flag("-a,--all", raw.all, "sizes 2, 4, 8 ... 8388608, one after the other");
  cli.add_option("-q,--streams,--qp", raw.streams, "streams in parallel (default 1)");
  cli.add_option("-t,--tx-depth", raw.tx, "outstanding requests per stream (default 128)");
  cli.add_option("-r,--rx-depth", raw.rx, "posted receives per stream (default 512)");
  cli.add_option("-Q,--cq-mod", raw.cq_mod,
                 "a completion for every n-th message (default: a quarter of -t, at most 100)");
  cli.add_flag("-b,--bidirectional", raw.bidirectional, "both ends send at once");
  cli.add_option("-p,--port", raw.service, "service number of the server (default 18515)");
  cli.add_option(
      "--region", raw.region,
      "bytes of target memory per stream that its messages rotate over (default: depth x "
      "size up to 4 MiB)");
  cli.add_flag("--verify", raw.verify,
               "check every byte at the receiver (default for less than 1 GiB in all)");
  cli.add_flag("--no-verify", raw.no_verify, "bandwidth of plain requests, nothing is checked");
  cli.add_flag("--paths", o.paths, "report each path, not only each plane");
  cli.add_flag("-1,--once", raw.once, "server: end after one client (default)");
  cli.add_flag("--persistent", o.persistent, "server: serve clients until SIGINT or SIGTERM");
  cli.add_flag("--json", o.json, "one JSON document on stdout, whatever happens");
  cli.add_option("--host", raw.host, "name of the daemon's host to use (default: its first)");
  cli.add_option("--socket", raw.socket, "socket of the daemon");
  cli.add_option("--embed", raw.embed, "run the dataplane in this process, from this YAML file");
  cli.add_option("--timeout", raw.timeout,
                 "seconds without progress before giving up (default 10)");
  cli.add_flag("--spin", o.spin, "never yield the CPU while polling");
  cli.set_version_flag("--version", std::string("metaroce-perf ") + metaroce_version());
  cli.footer(
      std::string("Rates: Gb/s = 10^9 bit/s and Mmsg/s, Mpps = 10^6/s of acknowledged payload; "
                  "MiB/s = 2^20 byte/s.\nSizes take K, M, G (2^10, 2^20, 2^30) or 0x. The "
                  "client's options decide; a server that names an option too\nrefuses a "
                  "client that differs.\n") +
      app::kExitCodeHelp);
}

std::string parse_test(const std::string& test, Options& o) {
  o.test = test;
  const bool write = test.starts_with("write_"), bw = test.ends_with("_bw");
  if (test != "write_bw" && test != "write_lat" && test != "send_bw" && test != "send_lat")
    return fmt::format("{} is not a test: write_bw, write_lat, send_bw or send_lat",
                       app::quoted(test));
  o.verb = write ? Verb::kWrite : Verb::kSend;
  o.metric = bw ? Metric::kBandwidth : Metric::kLatency;
  if (!bw) {
    o.size = 2;
    o.iterations = 1000;
  }
  return "";
}

std::string parse_u32(const char* name, const std::string& text, std::uint64_t least,
                      std::uint64_t most, std::uint32_t& out) {
  if (text.empty()) return "";
  std::uint64_t value = 0;
  if (std::string e = app::parse_count(text, value); !e.empty())
    return fmt::format("{} {}", name, e);
  if (value < least || value > most)
    return fmt::format("{} {} is not between {} and {}", name, value, least, most);
  out = static_cast<std::uint32_t>(value);
  return "";
}

std::string parse_size_and_length(const Raw& raw, Options& o) {
  if (!raw.size.empty()) {
    if (std::string e = app::parse_bytes(raw.size, o.size); !e.empty()) return "--size " + e;
    if (o.size > kMaxMessage)
      return fmt::format("--size {} is over the limit of 2147483648 bytes (2G) per message",
                         raw.size);
  }
  if (!raw.iterations.empty()) {
    if (std::string e = app::parse_count(raw.iterations, o.iterations); !e.empty())
      return "--iters " + e;
    if (o.iterations == 0 || o.iterations > (std::uint64_t{1} << 40))
      return fmt::format("--iters {} is not between 1 and 2^40", raw.iterations);
  }
  if (!raw.duration.empty())
    if (std::string e = app::parse_seconds(raw.duration, o.duration_s); !e.empty())
      return "--duration " + e;
  if (!raw.region.empty()) {
    if (std::string e = app::parse_bytes(raw.region, o.region); !e.empty()) return "--region " + e;
    if (o.region == 0) return "--region 0 has no room for a message";
  }
  if (!raw.timeout.empty())
    if (std::string e = app::parse_seconds(raw.timeout, o.timeout_s);
        !e.empty() || o.timeout_s > 3600)
      return e.empty() ? "--timeout is at most 3600 s" : "--timeout " + e;
  return "";
}

std::string parse_numbers(const Raw& raw, Options& o) {
  std::string e = parse_u32("--streams", raw.streams, 1, kMaxStreams, o.streams);
  if (e.empty()) e = parse_u32("--tx-depth", raw.tx, 1, kMaxDepth, o.tx_depth);
  if (e.empty()) e = parse_u32("--rx-depth", raw.rx, 1, kMaxDepth, o.rx_depth);
  if (e.empty()) e = parse_u32("--cq-mod", raw.cq_mod, 1, kMaxDepth, o.cq_mod);
  if (e.empty()) e = parse_u32("--port", raw.service, 1, UINT32_MAX, o.service);
  return e.empty() ? parse_size_and_length(raw, o) : e;
}

std::string parse_server(const Raw& raw, Options& o) {
  if (raw.server.empty()) return "";
  app::PeerAddress peer;
  if (std::string e = app::parse_peer(raw.server, peer); !e.empty()) return "server " + e;
  if (peer.service && !raw.service.empty() && *peer.service != o.service)
    return fmt::format("{} names service {} and --port {}", app::quoted(raw.server), *peer.service,
                       o.service);
  if (peer.service) o.service = *peer.service;
  o.server = peer.host;
  return "";
}

std::string check_exclusive(const Raw& raw, const Options& o) {
  if (int{!raw.iterations.empty()} + int{!raw.duration.empty()} + int{raw.forever} > 1)
    return "give only one of --iters, --duration and --run_infinitely";
  if (raw.all && !raw.size.empty()) return "--all runs all sizes: leave --size out";
  if (raw.all && raw.forever)
    return "--all with --run_infinitely would never reach the second size";
  if (raw.verify && raw.no_verify) return "give only one of --verify and --no-verify";
  if (raw.once && o.persistent) return "give only one of --once and --persistent";
  if (o.client() && (raw.once || o.persistent))
    return "--once and --persistent are for the server; this end has a server address";
  if (!raw.embed.empty() && !raw.socket.empty())
    return "--embed runs the dataplane in this process: leave --socket out";
  return "";
}

std::string check_sense(const Options& o) {
  if (o.latency() && o.streams > 1)
    return fmt::format("{} measures one stream: leave --streams out", o.test);
  if (o.latency() && o.bidirectional)
    return fmt::format("{} goes both ways already: leave --bidirectional out", o.test);
  if (o.latency() && o.cq_mod > 1)
    return fmt::format("{} waits for each message: leave --cq-mod out", o.test);
  if (o.test == "write_lat" && o.size == 0)
    return "write_lat waits for the last byte of each message: --size must be at least 1";
  if (o.cq_mod > o.tx_depth)
    return fmt::format(
        "--cq-mod {} is over --tx-depth {}: no completion would come before the "
        "queue is full",
        o.cq_mod, o.tx_depth);
  const std::uint64_t stride = slot_stride(o.max_size());
  if (o.region && o.region < stride)
    return fmt::format("--region {} is smaller than one message of {} (slots of {})", o.region,
                       o.max_size(), stride);
  if (o.region && o.latency() && o.region < 2 * stride)
    return fmt::format("--region {} is smaller than the two messages in flight ({})", o.region,
                       2 * stride);
  const std::uint64_t region = o.region ? o.region : default_region(o.max_size(), o.tx_depth);
  if (region > kMaxRegistered / (2 * o.streams))
    return fmt::format(
        "{} streams with 2 x {} each need over {} of registered memory: use fewer "
        "streams or a smaller --region",
        o.streams, app::format_bytes(region), app::format_bytes(kMaxRegistered));
  if (std::uint64_t{o.streams} * (o.tx_depth + o.rx_depth) > kMaxQueue)
    return fmt::format(
        "{} streams x (--tx-depth {} + --rx-depth {}) exceed a completion queue of {}", o.streams,
        o.tx_depth, o.rx_depth, kMaxQueue);
  return "";
}

}  // namespace

std::uint64_t Options::iterations_for(std::uint64_t message_size) const {
  if (forever || duration_s > 0) return 0;
  if (!all_sizes || given.contains("iters")) return iterations;
  constexpr std::uint64_t kEnough = std::uint64_t{256} << 20;
  return std::clamp<std::uint64_t>(kEnough / std::max<std::uint64_t>(1, message_size), 16,
                                   iterations);
}

bool Options::verify_for(std::uint64_t message_size) const {
  if (verify != Verify::kAuto) return verify == Verify::kOn;
  const std::uint64_t count = iterations_for(message_size);
  if (count == 0) return false;
  const double total = static_cast<double>(count) * static_cast<double>(message_size) * streams *
                       (bidirectional || latency() ? 2 : 1);
  return total < 1073741824.0;
}

Status parse_options(int argc, const char* const* argv, Options& o) {
  CLI::App cli{"Bandwidth and latency of RDMA Writes and Sends over MetaRoCE."};
  Raw raw;
  declare(cli, raw, o);
  try {
    cli.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    o.help_or_version = true;
    o.help_text = cli.help();
    return {};
  } catch (const CLI::CallForVersion& version) {
    o.help_or_version = true;
    o.help_text = std::string(version.what()) + "\n";
    return {};
  } catch (const CLI::ParseError& error) {
    return fail(kExitUsage, fmt::format("{} (--help shows the options)", error.what()));
  }
  for (const CLI::Option* option : cli.get_options())
    if (option->count() > 0 && !option->get_lnames().empty())
      o.given.insert(option->get_lnames().front());
  std::string error = parse_test(raw.test, o);
  if (error.empty()) error = parse_numbers(raw, o);
  if (error.empty()) error = parse_server(raw, o);
  if (error.empty()) error = check_exclusive(raw, o);
  o.forever = raw.forever;
  o.all_sizes = raw.all;
  o.bidirectional = raw.bidirectional;
  if (raw.verify) o.verify = Options::Verify::kOn;
  if (raw.no_verify) o.verify = Options::Verify::kOff;
  o.attach = {raw.socket, raw.host, raw.embed, o.timeout_ms()};
  if (error.empty()) error = check_sense(o);
  if (!error.empty()) return fail(kExitUsage, error);
  if (o.cq_mod == 0) o.cq_mod = o.latency() ? 1 : std::clamp(o.tx_depth / 4, 1U, 100U);
  if (o.region == 0) o.region = default_region(o.max_size(), o.tx_depth);
  return {};
}

std::string compare_with_client(const Options& o, const Message& p) {
  const auto differs = [&o](const char* name, const auto& here, const auto& there) {
    return o.given.contains(name) && here != there
               ? fmt::format("the server was started with --{} {}, the client asks for {}", name,
                             here, there)
               : std::string();
  };
  std::string e = differs("size", o.size, p.size);
  if (e.empty()) e = differs("iters", o.iterations, p.iterations);
  if (e.empty()) e = differs("duration", o.duration_s, p.duration_s);
  if (e.empty()) e = differs("streams", o.streams, p.streams);
  if (e.empty()) e = differs("tx-depth", o.tx_depth, p.tx_depth);
  if (e.empty()) e = differs("rx-depth", o.rx_depth, p.rx_depth);
  if (e.empty()) e = differs("region", o.region, p.region);
  if (e.empty()) e = differs("bidirectional", o.bidirectional, p.bidirectional != 0);
  if (e.empty()) e = differs("all", o.all_sizes, p.all_sizes != 0);
  return e;
}

Status adopt_client_params(const Message& p, Options& o) {
  Options asked = o;
  asked.verb = p.verb;
  asked.metric = p.metric;
  if (p.verb != o.verb || p.metric != o.metric)
    return fail(app::kExitFailure,
                fmt::format("the server runs {}, the client another test", o.test));
  if (std::string e = compare_with_client(o, p); !e.empty()) return fail(app::kExitFailure, e);
  asked.size = p.size;
  asked.iterations = p.iterations;
  asked.duration_s = p.duration_s;
  asked.forever = p.iterations == 0 && p.duration_s <= 0;
  asked.streams = p.streams;
  asked.tx_depth = p.tx_depth;
  asked.rx_depth = p.rx_depth;
  asked.cq_mod = p.cq_mod;
  asked.region = p.region;
  asked.bidirectional = p.bidirectional != 0;
  asked.all_sizes = p.all_sizes != 0;
  const bool in_range = asked.size <= kMaxMessage && asked.streams >= 1 &&
                        asked.streams <= kMaxStreams && asked.tx_depth >= 1 &&
                        asked.tx_depth <= kMaxDepth && asked.rx_depth >= 1 &&
                        asked.rx_depth <= kMaxDepth && asked.cq_mod >= 1 && asked.region > 0;
  std::string e = in_range ? check_sense(asked) : "the client's parameters are out of range";
  if (!e.empty()) return fail(app::kExitFailure, e);
  o = asked;
  return {};
}

}  // namespace metaroce::perf
