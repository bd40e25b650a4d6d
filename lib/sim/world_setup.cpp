// What there is before a run begins: hosts as large as the workload needs, a connection for each of
// its pairs and a stream for each of its sequences, installed at both ends at once.
#include <algorithm>

#include "base/rng.h"
#include "sim/world.h"

namespace metaroce::sim {
namespace {

constexpr std::uint32_t kNoConn = 0xffffffff;
constexpr std::uint32_t kPd = 1;

// Time from a's port to b when nothing waits: store and forward over each link.
Nanos path_time(const fabric::FabricConfig& c, std::uint16_t a, std::uint16_t b,
                std::uint32_t bytes) {
  const Nanos n = links_between(c, a, b);
  const auto send = [&](Mbps rate) { return static_cast<Nanos>(bytes) * 8000 / rate; };
  return 2 * (send(c.host_rate_mbps) + c.host_propagation_ns) +
         (n - 2) * (send(c.uplink_rate_mbps) + c.uplink_propagation_ns) +
         (n - 1) * c.switch_latency_ns;
}

}  // namespace

void World::build() {
  const std::uint32_t n = workload_.hosts;
  conn_of_.assign(std::size_t{n} * n, kNoConn);
  std::vector<HostSizes> sizes(n);
  std::vector<std::vector<bool>> pair(n, std::vector<bool>(n, false));
  for (const auto& s : driver_.streams()) {
    for (const auto& [a, b] : {std::pair{s.src, s.dst}, std::pair{s.dst, s.src}}) {
      if (!pair[a][b]) ++sizes[a].connections;
      pair[a][b] = true;
      ++sizes[a].streams;
    }
    sizes[s.src].work_requests += std::min(s.flows, s.send_depth);
    sizes[s.dst].receives += s.receive_depth;
  }
  for (const Flow& f : workload_.flows) sizes[f.src].packets += std::max(1U, ledger_.pages(f.id));
  for (std::uint32_t h = 0; h < n; ++h) {
    sizes[h].paths = paths();
    sizes[h].work_requests = std::min(sizes[h].work_requests, 1U << 14);
    hosts_.push_back(std::make_unique<SimHost>(static_cast<std::uint16_t>(h), scenario_, sizes[h],
                                               net_, arena_.bytes(), kPd));
  }
  next_conn_.assign(n, 0);
  next_stream_.assign(n, 0);
  next_number_.assign(std::size_t{n} * n, 0);
  for (auto& s : driver_.streams()) {
    if (conn_index(s.src, s.dst) == kNoConn && !connect(s.src, s.dst)) {
      error_ = "a connection could not be installed";
      return;
    }
    if (!open(s)) {
      error_ = "a stream could not be installed";
      return;
    }
  }
  for (std::uint32_t h = 0; h < n; ++h)
    net_.wake(static_cast<std::uint16_t>(h), Picos{h} * 7 * kPicosPerNano);
  for (const std::uint32_t f : driver_.initial()) plan(f);
  probes_.begin(conn_of_);
}

// Of a connection, as a handshake would agree on them. [MR-9.1.1]
std::uint32_t World::paths() const {
  const std::uint32_t planes = scenario_.fabric.planes;
  return planes * std::min(scenario_.transport.paths_per_plane, 256U / planes);
}

// Unloaded round trip of a full data packet and its acknowledgment: h links each way.
Nanos World::base_rtt(std::uint16_t a, std::uint16_t b) {
  constexpr std::uint32_t kAckBytes = 110;
  return path_time(scenario_.fabric, a, b, scenario_.transport.payload_mtu + 86) +
         path_time(scenario_.fabric, b, a, kAckBytes);
}

bool World::connect(std::uint16_t a, std::uint16_t b) {
  const auto planes = static_cast<std::uint16_t>(scenario_.fabric.planes);
  ConnParams p[2];
  const std::uint16_t host[2] = {a, b};
  const std::uint64_t seed = mix64(scenario_.seed * 0x9e37 + (std::uint64_t{a} << 32) + b);
  for (unsigned i = 0; i < 2; ++i) {
    p[i].index = ConnIndex{next_conn_[host[i]]++};
    p[i].own_port = p[i].peer_port = scenario_.transport.base_udp_port;
    p[i].n_planes = planes;
    p[i].n_paths = static_cast<std::uint16_t>(paths());
    for (std::uint8_t k = 0; k < planes; ++k)
      p[i].planes[k] =
          PlanePair{PlaneId{k}, host_address(host[i], k), host_address(host[1 - i], k)};
    p[i].own_pseq_seed = mix64(seed + i);
    p[i].peer_pseq_seed = mix64(seed + 1 - i);
    p[i].entropy_seed = mix64(seed + 2 + i);
    p[i].payload_mtu = scenario_.transport.payload_mtu;
    p[i].line_rate = std::min(hosts_[a]->line_rate(), hosts_[b]->line_rate());
    p[i].handshake_rtt = base_rtt(a, b);
    p[i].verified = true;
    p[i].own_dcid = (p[i].index.v << 8) | static_cast<std::uint8_t>(seed >> (8 * i));
  }
  for (unsigned i = 0; i < 2; ++i) {
    p[i].peer_dcid = p[1 - i].own_dcid;
    conn_of_[std::size_t{host[i]} * workload_.hosts + host[1 - i]] = p[i].index.v;
  }
  return hosts_[a]->add_conn(p[0], b) && hosts_[b]->add_conn(p[1], a);
}

bool World::open(FlowDriver::Stream& s) {
  const std::uint16_t host[2] = {s.src, s.dst};
  const std::uint32_t n = workload_.hosts;
  StreamParams p[2];
  const std::uint64_t seed = mix64(scenario_.seed + (std::uint64_t{s.src} << 40) +
                                   (std::uint64_t{s.dst} << 20) + s.ordinal);
  for (unsigned i = 0; i < 2; ++i) {
    p[i].conn = ConnIndex{conn_index(host[i], host[1 - i])};
    p[i].own_number = next_number_[std::size_t{host[i]} * n + host[1 - i]]++;
    p[i].handle = next_stream_[host[i]]++;
    p[i].client = ClientId{1};
    p[i].pd = kPd;
    p[i].own_initial_spn = StreamSeq{static_cast<std::uint32_t>(seed >> (32 * i))};
    p[i].peer_initial_spn = StreamSeq{static_cast<std::uint32_t>(seed >> (32 * (1 - i)))};
    p[i].send_window = p[i].recv_window = scenario_.transport.spn_window;
    p[i].send_depth = i == 0 ? s.send_depth : 1;
    p[i].recv_depth = i == 0 ? 1 : s.receive_depth;
  }
  // Receives are posted behind: the initial limit is none, the first ones are announced.
  for (unsigned i = 0; i < 2; ++i) p[i].peer_number = p[1 - i].own_number;
  p[0].peer_rqn_limit = RecvNumber{0};
  s.send = p[0].handle;
  s.receive = p[1].handle;
  return hosts_[s.src]->add_stream(p[0]) && hosts_[s.dst]->add_stream(p[1]);
}

}  // namespace metaroce::sim
