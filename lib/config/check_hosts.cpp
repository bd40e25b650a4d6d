// Ports and neighbours against each other: addresses, planes, devices that only one port can have,
// and packets that fit.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config/address_text.h"
#include "config/check.h"
#include "config/failure.h"
#include "config/port_kinds.h"

namespace metaroce::config {
namespace {

[[noreturn]] void fail(const Locations& at, const std::string& path, const std::string& what) {
  throw Failure(at.line(path), path, what);
}

// Things of which one port is the only user, over all hosts.
class Unique {
 public:
  explicit Unique(const Locations& at) : at_(at) {}
  void claim(const std::string& thing, const std::string& path, std::size_t most = 1) {
    auto& users = users_[thing];
    users.push_back(path);
    if (users.size() <= most) return;
    fail(at_, path,
         fmt::format("{} is in use by {} in line {}; accepted: {} per process", thing, users[0],
                     at_.line(users[0]), most == 1 ? "one user" : "two users"));
  }

 private:
  const Locations& at_;
  std::map<std::string, std::vector<std::string>> users_;
};

void claim_device(const PortConfig& port, const std::string& path, Unique& unique) {
  switch (port.kind) {
    case PortKind::kPci:
      unique.claim("PCI device " + port.device, path + ".device");
      break;
    case PortKind::kTap:
    case PortKind::kAfPacket:
    case PortKind::kAfXdp:
      unique.claim("interface " + port.interface, path + ".interface");
      break;
    case PortKind::kRing:
      unique.claim("ring pair " + port.pair, path + ".pair", 2);
      break;
    case PortKind::kMemif:
      unique.claim(fmt::format("memif socket {} id {} as {}", port.socket, port.id,
                               port.role == MemifRole::kServer ? "server" : "client"),
                   path + ".id");
      break;
    case PortKind::kFabric:
      unique.claim(fmt::format("host {} of the fabric in plane {}", *port.host, port.plane),
                   path + ".host");
      break;
    case PortKind::kNull:
      break;
  }
}

void check_gateway(const PortConfig& port, const std::string& path, const Locations& at) {
  if (!port.gateway) return;
  if (!same_network(*port.gateway, port.address.ip, port.address.length) ||
      *port.gateway == port.address.ip)
    fail(at, path + ".gateway",
         fmt::format("{} is not another host in the network of {}; accepted: an address in it",
                     to_text(*port.gateway), to_text(port.address)));
}

void check_sizes(const PortConfig& port, const std::string& path, std::uint32_t payload,
                 const Locations& at) {
  const PortKindInfo& kind = port_kind_info(port.kind);
  const std::uint32_t overhead = packet_overhead(port.address.ip.v6);
  if (*port.mtu > kind.max_mtu && at.has(path + ".mtu"))
    fail(at, path + ".mtu",
         fmt::format("{} is more than a port of kind {} carries; accepted: 576 "
                     "to {} bytes",
                     *port.mtu, kind.name, kind.max_mtu));
  const std::uint32_t fits =
      std::min(kind.max_payload, std::min(*port.mtu, kind.max_mtu) - overhead);
  if (payload > fits) {
    const bool by_mtu = at.has(path + ".mtu");
    const std::string where = at.has("transport.payload_mtu") ? "transport.payload_mtu"
                              : by_mtu                        ? path + ".mtu"
                                                              : path + ".kind";
    fail(at, where,
         fmt::format("{} bytes of payload do not fit {} (kind {}, {} bytes of headers); accepted: "
                     "transport.payload_mtu up to {}{}",
                     payload, path, kind.name, overhead, fits,
                     by_mtu ? fmt::format(", or mtu from {}", payload + overhead) : ""));
  }
}

void check_planes(const HostConfig& host, const std::string& path, const Locations& at,
                  std::vector<Warning>& warnings) {
  for (std::size_t i = 0; i < host.ports.size(); ++i) {
    const PortConfig& port = host.ports[i];
    const std::string here = fmt::format("{}.ports[{}]", path, i);
    for (std::size_t j = 0; j < i; ++j) {
      const PortConfig& other = host.ports[j];
      const std::string there = fmt::format("{}.ports[{}]", path, j);
      if (port.plane == other.plane)
        fail(at, here + ".plane",
             fmt::format("plane {} is also that of {} in line {}; accepted: planes that differ",
                         port.plane, there, at.line(there + ".plane")));
      if (port.address.ip.v6 != other.address.ip.v6)
        fail(at, here + ".address",
             fmt::format("{} and {} of {} in line {} are of different families; accepted: one "
                         "family on all planes of a host",
                         to_text(port.address), to_text(other.address), there,
                         at.line(there + ".address")));
      if (same_network(port.address.ip, other.address.ip,
                       std::min(port.address.length, other.address.length)))
        warnings.push_back({at.line(here + ".address"), here + ".address",
                            fmt::format("same network as {}; packets leave by the port of their "
                                        "path, others may answer to either",
                                        there)});
    }
  }
}

void check_neighbours(const HostConfig& host, const std::string& path, const Locations& at) {
  for (std::size_t i = 0; i < host.neighbours.size(); ++i) {
    const NeighbourConfig& n = host.neighbours[i];
    const std::string here = fmt::format("{}.neighbours[{}].ip", path, i);
    for (std::size_t j = 0; j < i; ++j)
      if (host.neighbours[j].ip == n.ip)
        fail(at, here,
             fmt::format("{} is already in line {}; accepted: once", to_text(n.ip),
                         at.line(fmt::format("{}.neighbours[{}].ip", path, j))));
    const auto own = [&](const PortConfig& p) { return p.address.ip == n.ip; };
    if (std::any_of(host.ports.begin(), host.ports.end(), own))
      fail(at, here,
           fmt::format("{} is the host's own address; accepted: another host's", to_text(n.ip)));
    const auto on_link = [&](const PortConfig& p) {
      return same_network(p.address.ip, n.ip, p.address.length);
    };
    if (std::none_of(host.ports.begin(), host.ports.end(), on_link)) {
      std::string networks;
      for (const PortConfig& p : host.ports)
        networks += (networks.empty() ? "" : ", ") + to_text(p.address);
      fail(at, here,
           fmt::format("{} is on the network of no port; accepted: an address on one of "
                       "{}",
                       to_text(n.ip), networks));
    }
  }
}

}  // namespace

void check_hosts(const DaemonConfig& config, const Locations& at, std::vector<Warning>& warnings) {
  Unique unique(at);
  for (std::size_t h = 0; h < config.hosts.size(); ++h) {
    const HostConfig& host = config.hosts[h];
    const std::string path = fmt::format("hosts[{}]", h);
    check_planes(host, path, at, warnings);
    for (std::size_t p = 0; p < host.ports.size(); ++p) {
      const PortConfig& port = host.ports[p];
      const std::string port_path = fmt::format("{}.ports[{}]", path, p);
      unique.claim("address " + to_text(port.address.ip), port_path + ".address");
      if (port.mac) unique.claim("MAC " + to_text(*port.mac), port_path + ".mac");
      claim_device(port, port_path, unique);
      check_gateway(port, port_path, at);
      check_sizes(port, port_path, config.transport.payload_mtu, at);
    }
    check_neighbours(host, path, at);
  }
}

}  // namespace metaroce::config
