#include "sim/host.h"

#include <bit>

template class metaroce::RxRole<metaroce::sim::Queues, metaroce::sim::SimRxIo>;
template class metaroce::TxRole<metaroce::sim::Queues, metaroce::sim::SimTxIo, metaroce::EcnAimd>;

namespace metaroce::sim {
namespace {

constexpr ClientId kClient{1};
constexpr std::uint64_t kToken = 1;
constexpr std::uint32_t kTxBudget = 64;  // packets per pass

TransportConfig sized(const Scenario& s, std::uint16_t host, const HostSizes& n) {
  TransportConfig c = s.transport;
  c.line_rate = 0;  // of all planes together, as their ports report it
  for (std::uint8_t plane = 0; plane < s.fabric.planes; ++plane)
    c.line_rate += port_rate(s, host, plane);
  c.max_connections = n.connections + 1;
  c.max_streams = n.streams + 1;
  c.max_streams_per_connection = n.streams + 1;
  c.max_regions = 8;
  c.max_cqs = 2;
  c.max_clients = 2;
  return c;
}

TxLimits limits(const HostSizes& n) {
  TxLimits l;
  l.work_requests = std::max(64U, 2 * n.work_requests);
  // A packet takes one of each, or two while it is sent again: a host that only receives has few.
  const auto packets = static_cast<std::uint32_t>(std::min<std::uint64_t>(2 * n.packets, 1U << 14));
  l.blocks = std::max(64U, std::min({8192U, n.connections * n.paths, packets}));
  l.resend_nodes = std::max(64U, packets);
  l.paths = std::max(l.paths, n.connections * n.paths);
  return l;
}

// What control hears is few and large, and taken in every pass.
QueueSizes ring_sizes(const HostModel& m) {
  const std::uint32_t n = m.ring_size;
  return QueueSizes{n, n, std::min(n, 64U), n, n};
}

}  // namespace

SimHost::SimHost(std::uint16_t id, const Scenario& scenario, const HostSizes& sizes, Network& net,
                 std::uint64_t region_bytes, std::uint32_t pd)
    : id_(id),
      config_(sized(scenario, id, sizes)),
      model_(scenario.host),
      canary_(scenario.canary),
      order_(mix64(scenario.seed + 0x5eed) + id),
      net_(net),
      queues_(ring_sizes(scenario.host)),
      rx_io_(net, id),
      tx_io_(net, id, rx_io_.peers),
      rx_(config_, queues_, rx_io_,
          RxLimits{.hold_buffers = 0,
                   .rings = 1U << 14,
                   .mail = 1U << 12}),  // no stream is ordered: nothing is held
      tx_(config_, limits(sizes), std::max(1U, sizes.paths), queues_, tx_io_),
      timer_(tx_.timer_ids(), queues_),
      tx_cq_(std::bit_ceil(std::max(64U, 2 * sizes.work_requests))),
      rx_cq_(std::bit_ceil(std::max(64U, 2 * sizes.receives))),
      sends_(std::bit_ceil(std::max(64U, sizes.work_requests))),
      receives_(std::bit_ceil(std::max(64U, sizes.receives))) {
  rx_io_.peers.resize(config_.max_connections);
  for (std::uint8_t p = 0; p < scenario.fabric.planes; ++p)
    rx_.set_port(PlaneId{p}, PlaneId{p}, port_rate(scenario, id, p));
  CqParams cq;
  cq.client = kClient;
  cq.ring = tx_cq_.producer();
  Command k;
  k.kind = CommandKind::kAddCq;
  k.cq = &cq;
  command_tx(k);
  cq.ring = rx_cq_.producer();
  command_rx(k);
  ClientParams client{kClient, sends_.consumer()};
  k.kind = CommandKind::kAddClient;
  k.client = &client;
  command_tx(k);
  client.submissions = receives_.consumer();
  command_rx(k);
  // The address space that all hosts share is one region; sim addresses are offsets into it.
  RegionParams r;
  r.key = kRegionKey;
  r.client = kClient;
  r.pd = pd;
  r.va = 0;
  r.host = const_cast<std::uint8_t*>(net.arena());
  r.length = region_bytes;
  r.access = kAccessLocalWrite | kAccessRemoteWrite;
  k.kind = CommandKind::kAddRegion;
  k.region = &r;
  command_tx(k);
  command_rx(k);
}

bool SimHost::command_rx(Command k) {
  k.token = kToken;
  if (!queues_.control_to_rx.push(k)) return false;
  rx_.begin_burst(now_);
  rx_.end_burst(true, true);
  RxToControl e;
  while (queues_.rx_to_control.pop(e))
    if (e.kind == RxToControlKind::kResult) return e.result.ok;
  return false;
}

bool SimHost::command_tx(Command k) {
  k.token = kToken;
  if (!queues_.control_to_tx.push(k)) return false;
  tx_.poll(now_, 0);
  TxToControl e;
  bool ok = false;
  while (queues_.tx_to_control.pop(e)) {
    if (e.kind == TxToControlKind::kResult)
      ok = e.result.ok;
    else
      events.push_back(e);
  }
  return ok;
}

bool SimHost::add_conn(const ConnParams& p, std::uint16_t peer) {
  rx_io_.peers[p.index.v] = peer;
  if (addresses_.size() <= peer) addresses_.resize(peer + 1U);
  for (std::uint8_t i = 0; i < p.n_planes; ++i) addresses_[peer][i] = host_address(peer, i);
  Command k;
  k.kind = CommandKind::kAddConn;
  k.conn = &p;
  if (!command_rx(k) || !command_tx(k)) return false;
  k.kind = CommandKind::kOpenConn;
  k.id = p.index.v;
  return command_tx(k);
}

bool SimHost::add_stream(const StreamParams& p) {
  Command k;
  k.kind = CommandKind::kAddStream;
  k.stream = &p;
  return command_rx(k) && command_tx(k);
}

void SimHost::receive(const Arrival& a) {
  const FrameInfo& f = net_.frames().info(a.frame);
  RxPacket p;
  p.data = net_.frames().header(a.frame);
  p.length = f.header_bytes + f.payload_bytes;
  p.port = PlaneId{f.plane};
  p.ce = a.ce;
  p.src_ip = addresses_[f.src_host][f.plane].b.data();
  p.dst_ip = p.src_ip;  // not looked at behind the port's own filter
  p.src_mac = mac_.b.data();
  p.src_port = f.src_port;
  p.dst_port = f.dst_port;
  rx_io_.placed_bytes = 0;
  rx_.on_packet(p);
  if (rx_io_.placed_bytes != 0) record(f);
  net_.frames().give(a.frame);
}

void SimHost::record(const FrameInfo& f) {
  std::uint64_t to = rx_io_.placed_to;
  if (canary_ == Canary::kWrongAddress) to += config_.payload_mtu;
  for (int times = canary_ == Canary::kDoublePlacement ? 2 : 1; times > 0; --times) {
    std::uint32_t flow = 0;
    bool done = false;
    const auto r = net_.ledger().place(now_, f.src_host, id_,
                                       static_cast<std::uint64_t>(f.payload - net_.arena()), to,
                                       rx_io_.placed_bytes, flow, done);
    if (done) whole.push_back(flow);
    if (r != Ledger::Fault::kNone && fault == Ledger::Fault::kNone) {
      fault = r;
      fault_flow = flow;
    }
  }
}

// What arrived, as one burst; the rest waits for the next pass.
void SimHost::receive() {
  rx_.begin_burst(now_);
  std::vector<Arrival>& inbox = net_.inbox(id_);
  const std::size_t n = std::min<std::size_t>(inbox.size(), model_.burst);
  for (std::size_t i = 0; i < n; ++i) {
    if (i + 2 < n) __builtin_prefetch(net_.frames().header(inbox[i + 2].frame));
    receive(inbox[i]);
  }
  const bool empty = n == inbox.size();
  inbox.erase(inbox.begin(), inbox.begin() + static_cast<std::ptrdiff_t>(n));
  rx_.take_receives();
  rx_.end_burst(empty, false);
}

void SimHost::transmit() {
  while (!pending_.empty() && sends_.push(pending_.front())) pending_.pop_front();
  tx_.poll(now_, kTxBudget);
}

void SimHost::poll(Nanos now) {
  now_ = now;
  // Roles on lcores of their own run in any order; on one lcore, in this one.
  switch (model_.seeded_order ? order_.below(4) : 0) {
    case 0:
      receive();
      transmit();
      timer_.poll(now);
      break;
    case 1:
      timer_.poll(now);
      transmit();
      receive();
      break;
    case 2:
      transmit();
      receive();
      timer_.poll(now);
      break;
    default:
      receive();
      timer_.poll(now);
      transmit();
  }
  collect();
}

void SimHost::collect() {
  TxToControl e;
  while (queues_.tx_to_control.pop(e)) events.push_back(e);
  // Nobody listens; an event is large, so none is made to look into an empty ring.
  while (!queues_.rx_to_control.empty()) {
    RxToControl r;
    queues_.rx_to_control.pop(r);
  }
  Completion c;
  while (tx_cq_.pop(c)) {
    if (canary_ == Canary::kLostCompletion) continue;
    sent.push_back(c);
  }
  while (rx_cq_.pop(c)) received.push_back(c);
}

Nanos SimHost::next_poll(Nanos now) {
  constexpr Nanos kBusy = 2 * kMicrosecond, kQuiet = 100 * kMicrosecond;
  if (!net_.inbox(id_).empty()) return now;
  return std::min(now + (tx_.quiet() && pending_.empty() ? kQuiet : kBusy),
                  std::min(tx_.pacing_wake(), rx_.ack_wake()));
}

}  // namespace metaroce::sim
