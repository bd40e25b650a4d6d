#include "dataplane/host.h"

#include <sys/random.h>

#include <algorithm>
namespace metaroce {
namespace {

constexpr unsigned kAnnouncements = 3;
constexpr Nanos kAnnounceEvery = 300 * kMillisecond, kWatchLinksEvery = 10 * kMillisecond;

}  // namespace

Host::Host(HostPlan plan) : plan_(std::move(plan)), links_(plan_.ports.size()) {
  port_of_plane_.fill(0xff);
  for (std::size_t i = 0; i < plan_.ports.size(); ++i)
    port_of_plane_[plan_.ports[i].plane] = static_cast<std::uint8_t>(i);
  group_ = std::make_unique<Group>(plan_.transport, group_plan());
  for (std::size_t i = 0; i < plan_.ports.size(); ++i) {
    NeighbourConfig c;
    c.mac = plan_.ports[i].port->mac();
    c.addresses = {plan_.ports[i].address};
    const PlaneId plane{plan_.ports[i].plane};
    neighbours_.push_back(std::make_unique<NeighbourTable>(
        c, [this, i](std::span<const std::uint8_t> f) { emit_frame(i, f); },
        [this, plane](const IpAddress& ip, const MacAddress*) {
          changed_.emplace_back(plane, ip);
        }));
    for (const auto& [ip, mac] : plan_.neighbours) neighbours_.back()->add_static(ip, mac);
  }
  control_.reset(new ControlRole(host_info(), *this, {static_cast<GroupPort*>(this)}, this));
}

Host::~Host() { stop(); }

GroupPlan Host::group_plan() const {
  GroupPlan g;
  for (const PortPlan& p : plan_.ports) {
    g.ports.push_back(p.port.get());
    g.addresses.push_back({p.address.ip});
    g.planes.push_back(p.plane);
    g.line_rates.push_back(line_rate(p));
  }
  g.port_of_plane = port_of_plane_;
  g.udp_port = plan_.transport.base_udp_port;
  g.faults = plan_.faults;
  g.socket = plan_.ports.empty() ? SOCKET_ID_ANY : plan_.ports.front().port->socket();
  return g;
}

Mbps Host::line_rate(const PortPlan& p) const {
  const Mbps reported = p.port->link().speed;
  // A virtual port's nominal speed (10 Gb/s of a tap, say) is no limit; only a NIC's is.
  const bool real = p.port->capabilities().kind == PortKind::kPci && reported != 0;
  return p.line_rate != 0 ? p.line_rate : real ? reported : plan_.transport.line_rate;
}

HostInfo Host::host_info() {
  HostInfo h;
  h.config = plan_.transport;
  h.instance = InstanceId{secret_random(), secret_random()};  // [MR-5.1.1]
  h.line_rate = 0;
  for (const PortPlan& p : plan_.ports) {
    h.planes.push_back(HostPlane{PlaneId{p.plane}, p.address.ip});
    h.line_rate += line_rate(p);
  }
  // Both ends number a connection's paths over the planes in this order. [MR-9.1.8]
  std::stable_sort(h.planes.begin(), h.planes.end(),
                   [](const HostPlane& a, const HostPlane& b) { return a.number.v < b.number.v; });
  return h;
}

Status Host::start() {
  for (PortPlan& p : plan_.ports) {
    Status s = p.port->start();
    if (!s.ok()) return s;
  }
  return {};
}

void Host::stop() {
  for (PortPlan& p : plan_.ports) p.port->stop();
}

// A daemon that is started again has other MAC addresses than its peers remember.
void Host::watch_links(Nanos now) {
  for (std::size_t i = 0; i < plan_.ports.size(); ++i) {
    Link& l = links_[i];
    const bool up = plan_.ports[i].port->link().up;
    if (up != l.up) control_->port_state(PlaneId{plan_.ports[i].plane}, up);
    if (up && !l.up) {
      l.announcements = kAnnouncements;
      l.announce_at = now;
    }
    l.up = up;
    if (!up || l.announcements == 0 || l.announce_at > now) continue;
    --l.announcements;
    l.announce_at = now + kAnnounceEvery;
    neighbours_[i]->announce();
  }
}

void Host::control_pass(Nanos now) {
  now_ = now;
  if (now >= links_at_) {
    links_at_ = now + kWatchLinksEvery;
    watch_links(now);
  }
  control_->poll(now);
  for (auto& n : neighbours_)
    if (n->next_deadline() <= now) n->tick(now);
  if (now >= refresh_at_) {  // neighbours of live connections stay in use
    refresh_at_ = now + 20 * kSecond;
    for (const auto& [conn, planes] : planes_of_) look_up_macs(ConnIndex{conn});
  }
  while (!changed_.empty()) {
    const auto [plane, ip] = changed_.back();
    changed_.pop_back();
    for (const IpAddress& peer : peers_behind(plane, ip)) control_->neighbour_changed(plane, peer);
  }
}

// The peers of connections that are reached through this neighbour: itself, or all behind a
// gateway.
std::vector<IpAddress> Host::peers_behind(PlaneId plane, const IpAddress& neighbour) const {
  std::vector<IpAddress> peers;
  const std::uint8_t port = port_of_plane_[plane.v];
  for (const auto& [conn, planes] : planes_of_) {
    for (const PlanePair& p : planes) {
      const bool known = std::find(peers.begin(), peers.end(), p.peer) != peers.end();
      if (p.plane == plane && !known && neighbours_[port]->next_hop(p.peer) == neighbour)
        peers.push_back(p.peer);
    }
  }
  return peers;
}

bool Host::emit(std::size_t port, const wire::Encap& encap, std::uint16_t src_port,
                std::span<const std::uint8_t> bytes) {
  OutQueue& out = group_->out(port);
  rte_mbuf* m = rte_pktmbuf_alloc(out.port().pools(out.queue()).small);
  if (m == nullptr) {
    drops_.add(DropReason::kNoBuffer);
    return false;
  }
  auto* frame = rte_pktmbuf_mtod(m, std::uint8_t*);
  const auto n = static_cast<std::uint32_t>(bytes.size());
  encap.write(frame, n, src_port, plan_.transport.control_dscp);  // [MR-3.1.6]
  std::memcpy(frame + encap.size(), bytes.data(), n);
  m->data_len = static_cast<std::uint16_t>(encap.size() + n);
  m->pkt_len = m->data_len;
  RxIo::finish_udp(out.port(), m, encap.v6(), encap.size(), n);
  if (out.control.push(m)) return true;
  rte_pktmbuf_free(m);
  return false;
}

void Host::emit_frame(std::size_t port, std::span<const std::uint8_t> frame) {
  OutQueue& out = group_->out(port);
  rte_mbuf* m = rte_pktmbuf_alloc(out.port().pools(out.queue()).small);
  if (m == nullptr) return drops_.add(DropReason::kNoBuffer);
  std::memcpy(rte_pktmbuf_mtod(m, void*), frame.data(), frame.size());
  m->data_len = static_cast<std::uint16_t>(frame.size());
  m->pkt_len = m->data_len;
  if (!out.control.push(m)) rte_pktmbuf_free(m);
}

bool Host::send(const PacketSource& to, std::span<const std::uint8_t> bytes) {
  const std::size_t port = to.plane.v;
  if (port >= plan_.ports.size()) return false;
  return emit(port,
              wire::Encap(plan_.ports[port].port->mac(), to.src_mac, to.dst, to.src, to.src_port),
              to.dst_port, bytes);
}

bool Host::send_to(PlaneId plane, const IpAddress& local, const IpAddress& peer,
                   std::uint16_t src_port, std::uint16_t dst_port,
                   std::span<const std::uint8_t> bytes) {
  const std::uint8_t port = port_of_plane_[plane.v];
  if (port == 0xff) return false;
  MacAddress mac;
  if (neighbours_[port]->resolve(peer, now_, mac) != Resolved::kReady) {
    drops_.add(DropReason::kNeighbourUnresolved);
    return false;
  }
  return emit(port, wire::Encap(plan_.ports[port].port->mac(), mac, local, peer, dst_port),
              src_port, bytes);
}

// [MR-5.1.5] [MR-10.1.1]
std::uint64_t Host::secret_random() {
  std::uint64_t v = 0;
  // Never falls short for 8 bytes; waits at boot until the kernel's pool is seeded.
  while (getrandom(&v, sizeof v, 0) != sizeof v) {
  }
  return v;
}

void Host::on_frame(const PacketSource& from, std::span<const std::uint8_t> frame) {
  wire::FrameView f;
  const DropReason parsed =
      wire::parse_frame(frame.data(), static_cast<std::uint32_t>(frame.size()), f);
  if (parsed != DropReason::kNone || from.plane.v >= neighbours_.size()) return drops_.add(parsed);
  const DropReason r = neighbours_[from.plane.v]->receive(f, now_);
  if (r != DropReason::kNone) drops_.add(r);
}

// TX needs the next hop's MAC with a connection: it is laid down before the command goes out.
bool Host::to_tx(const Command& c) {
  if (c.kind == CommandKind::kAddConn) {
    const ConnParams& p = *c.conn;
    planes_of_[p.index.v].assign(p.planes.begin(), p.planes.begin() + p.n_planes);
    for (unsigned i = 0; i < p.n_planes; ++i)
      group_->macs.clear(p.index, i);  // of the index's former owner
    look_up_macs(p.index);
  } else if (c.kind == CommandKind::kPeerAddress) {
    look_up_macs(ConnIndex{c.id});
  } else if (c.kind == CommandKind::kRemoveConn) {
    if (const auto it = planes_of_.find(c.id); it != planes_of_.end()) {
      // It may have ended because nobody is there any more, or somebody else.
      for (const PlanePair& p : it->second)
        if (const std::uint8_t port = port_of_plane_[p.plane.v]; port != 0xff)
          neighbours_[port]->doubt(p.peer, now_);
      planes_of_.erase(it);
    }
  }
  return group_->queues.control_to_tx.push(c);
}

void Host::look_up_macs(ConnIndex conn) {
  const auto it = planes_of_.find(conn.v);
  if (it == planes_of_.end()) return;
  for (unsigned i = 0; i < it->second.size(); ++i) {
    const PlanePair& p = it->second[i];
    const std::uint8_t port = port_of_plane_[p.plane.v];
    MacAddress mac;
    // While a neighbour is being asked for, what is known keeps being used.
    if (port != 0xff && neighbours_[port]->resolve(p.peer, now_, mac) == Resolved::kReady)
      group_->macs.set(conn, i, mac);
  }
}

bool Host::needs_reconnect() {
  for (PortPlan& p : plan_.ports)
    if (p.port->capabilities().reconnect && p.port->needs_reconnect()) return true;
  return false;
}

bool Host::reconnect() {
  bool all = true;
  for (PortPlan& p : plan_.ports)
    if (p.port->capabilities().reconnect && p.port->needs_reconnect())
      all &= p.port->reconnect().ok();
  return all;
}

DropCounters Host::drops() const {
  DropCounters sum = drops_;
  for (std::size_t i = 0; i < kDropReasons; ++i) {
    sum.n[i] += group_->rx().counters().drops.n[i] + group_->tx().counters().drops.n[i] +
                control_->drops().n[i];
  }
  return sum;
}

bool Host::conn_stats(std::uint32_t, ConnIndex conn, ConnStats& out) {
  const auto* t = group_->tx().conn(conn);
  const auto* r = group_->rx().conn(conn);
  if (t == nullptr || r == nullptr) return false;
  out.acked_bytes = t->acked_bytes;
  out.tx_packets = t->packets;
  out.rtx_packets = t->resent;
  out.lost_packets = t->lost;
  out.spurious_packets = t->spurious;
  out.rx_packets = r->counters.packets;
  out.rx_bytes = r->counters.bytes;
  out.rx_out_of_order = r->counters.out_of_order;
  out.rx_duplicates = r->counters.duplicates;
  out.rx_drops = r->counters.drops;
  out.paths.clear();
  for (std::size_t i = 0; i < t->rest.size() && i < r->paths.size(); ++i) {
    const auto p = group_->tx().path(conn, static_cast<unsigned>(i));
    PathStats s;
    s.path = static_cast<std::uint8_t>(i);
    s.plane = t->params.planes[t->plane_slots[i]].plane.v;
    s.active = p.health.carries() && !p.draining && i < t->active_paths;
    s.state = p.health.state;
    s.fault = p.health.fault;
    s.source_port = p.source_port;
    s.srtt_ns = static_cast<std::uint32_t>(p.rtt.srtt());
    s.tx_packets = p.counters.packets;
    s.tx_bytes = p.counters.bytes;
    s.rtx_packets = p.counters.resent;
    s.lost_packets = p.counters.lost;
    s.spurious_packets = p.counters.spurious;
    s.rx_packets = r->path_counters[i].packets;
    s.rx_bytes = r->path_counters[i].bytes;
    s.rx_out_of_order = r->path_counters[i].out_of_order;
    s.rx_late = r->paths[i].late();
    s.rx_ce = r->paths[i].ce_packets();
    s.window = p.cc.window;
    out.paths.push_back(s);
  }
  return true;
}

}  // namespace metaroce
