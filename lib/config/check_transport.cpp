// Parameters of the transport against each other and against the number of planes.
#include <fmt/format.h>

#include "config/check.h"
#include "config/codec.h"
#include "config/failure.h"

namespace metaroce::config {
namespace {

constexpr std::uint32_t kMaxPaths = 256;

// The line of the first of the keys that the file holds.
[[noreturn]] void fail(const Locations& at, const std::string& key, const std::string& other,
                       const std::string& what) {
  const std::string a = "transport." + key, b = "transport." + other;
  const std::string& where = at.has(a) || !at.has(b) ? a : b;
  throw Failure(at.line(where), where, what);
}

void at_most(const Locations& at, const std::string& low, std::uint64_t low_value,
             const std::string& high, std::uint64_t high_value, const NumberCodec& unit) {
  if (low_value > high_value)
    fail(at, low, high,
         fmt::format("transport.{} ({}) is more than transport.{} ({}); accepted: {} <= {}", low,
                     unit.print(low_value), high, unit.print(high_value), low, high));
}

void check_udp_ports(const DaemonConfig& config, const Locations& at) {
  const TransportConfig& t = config.transport;
  std::size_t most_planes = 0;
  for (const HostConfig& host : config.hosts)
    most_planes = std::max(most_planes, host.ports.size());
  if (t.base_udp_port == 4791 || t.base_udp_port == 4793)
    fail(at, "base_udp_port", "",
         fmt::format("port {} is another protocol's; accepted: a port other than 4791 and 4793",
                     t.base_udp_port));
  at_most(at, "source_port_min", t.source_port_min, "source_port_max", t.source_port_max,
          count(0, 65535));
  const std::size_t paths = t.paths_per_plane * most_planes;
  if (paths > kMaxPaths)
    fail(at, "paths_per_plane", "",
         fmt::format("{} planes of {} paths are {} paths; accepted: at most {} in all, {} per "
                     "plane",
                     most_planes, t.paths_per_plane, paths, kMaxPaths, kMaxPaths / most_planes));
  const std::uint32_t ports = t.source_port_max - t.source_port_min + 1U;
  if (ports < t.paths_per_plane)
    fail(at, "source_port_max", "source_port_min",
         fmt::format("{} source ports for {} paths of a plane; accepted: at least one port per "
                     "path",
                     ports, t.paths_per_plane));
}

}  // namespace

void check_transport(const DaemonConfig& config, const Locations& at) {
  const TransportConfig& t = config.transport;
  const NumberCodec time = duration(0, kNever), bytes = size(0, INT64_MAX), number = count(0, 1);
  const auto u = [](auto v) { return static_cast<std::uint64_t>(v); };
  check_udp_ports(config, at);
  at_most(at, "max_streams_per_connection", t.max_streams_per_connection, "max_streams",
          t.max_streams, number);
  at_most(at, "max_half_open", t.max_half_open, "max_connections", t.max_connections, number);
  if (config.control.max_clients > t.max_clients)
    fail(at, "max_clients", "",
         fmt::format("less than control.max_clients ({}); accepted: at least as many",
                     config.control.max_clients));
  if (config.limits.cqs > t.max_cqs)
    fail(at, "max_cqs", "",
         fmt::format("less than limits.cqs ({}) of one client; accepted: at least as many",
                     config.limits.cqs));
  if (config.limits.regions > t.max_regions / 2)
    fail(at, "max_regions", "",
         fmt::format("less than twice limits.regions ({}) of one client; accepted: at least {}",
                     config.limits.regions, 2 * std::uint64_t{config.limits.regions}));
  at_most(at, "probe_timeout_floor", u(t.probe_timeout_floor), "probe_timeout_max",
          u(t.probe_timeout_max), time);
  at_most(at, "probe_timeout_max", u(t.probe_timeout_max), "dead_peer_timeout",
          u(t.dead_peer_timeout), time);
  at_most(at, "min_window", u(t.min_window), "max_window", u(t.max_window), bytes);
  at_most(at, "initial_window", u(t.initial_window), "max_window", u(t.max_window), bytes);
  at_most(at, "payload_mtu", t.payload_mtu, "min_window", u(t.min_window), bytes);
}

}  // namespace metaroce::config
