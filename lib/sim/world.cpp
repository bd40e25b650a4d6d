#include "sim/world.h"

#include <algorithm>

#include "base/rng.h"

namespace metaroce::sim {
namespace {

constexpr std::uint32_t kNoConn = 0xffffffff;
constexpr std::uint32_t kPd = 1;

// Links between two hosts.
std::uint32_t distance(const fabric::FabricConfig& c, std::uint32_t a, std::uint32_t b) {
  switch (c.topology) {
    case fabric::Topology::kSingleSwitch:
      return 2;
    case fabric::Topology::kLeafSpine:
      return a / c.hosts_per_leaf == b / c.hosts_per_leaf ? 2 : 4;
    case fabric::Topology::kFatTree: {
      const std::uint32_t edge = c.fat_tree_k / 2U, pod = edge * edge;
      return a / edge == b / edge ? 2 : a / pod == b / pod ? 4 : 6;
    }
  }
  return 2;
}

// Time from a's port to b when nothing waits: store and forward over each link.
Nanos path_time(const fabric::FabricConfig& c, std::uint32_t a, std::uint32_t b,
                std::uint32_t bytes) {
  const Nanos n = distance(c, a, b);
  const auto send = [&](Mbps rate) { return static_cast<Nanos>(bytes) * 8000 / rate; };
  return 2 * (send(c.host_rate_mbps) + c.host_propagation_ns) +
         (n - 2) * (send(c.uplink_rate_mbps) + c.uplink_propagation_ns) +
         (n - 1) * c.switch_latency_ns;
}

}  // namespace

World::World(const Scenario& scenario, const Workload& workload)
    : scenario_(scenario),
      workload_(workload),
      origin_(scenario.host.warm_idle),
      ledger_(workload.flows, scenario.transport.payload_mtu),
      arena_(std::max<std::uint64_t>(4096, ledger_.bytes())),
      net_(scenario.fabric, mix64(scenario.seed), static_cast<std::uint16_t>(workload.hosts),
           scenario.host, ledger_, arena_.data()),
      driver_(workload, ledger_),
      probes_(scenario, workload, net_, hosts_, origin_),
      until_validate_(std::max(1U, scenario.host.validate_every)) {
  if (arena_.data() == nullptr) {
    error_ = "cannot reserve address space for the workload's bytes";
    return;
  }
  build();
}

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
  const std::uint32_t planes = scenario_.fabric.planes;
  for (std::uint32_t h = 0; h < n; ++h) {
    sizes[h].paths = planes * scenario_.transport.paths_per_plane;
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
    p[i].n_paths = static_cast<std::uint16_t>(planes * scenario_.transport.paths_per_plane);
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

void World::plan(std::uint32_t flow) {
  const Nanos at = origin_ + workload_.flows[flow].start;
  net_.queue().schedule(at * kPicosPerNano, kFlowEvent, flow);
}

void World::on_poll(const fabric::Event& e) {
  if (!net_.begin_poll(e)) return;
  SimHost& host = *hosts_[e.a];
  const Nanos now = net_.now();
  host.poll(now);
  note_faults(host);
  const std::uint32_t done = driver_.done();
  driver_.take(host, now, hosts_, ready_);
  if (driver_.done() != done) probes_.flow_done(now);
  if (!driver_.violation().empty()) [[unlikely]]
    violate(driver_.violation());
  for (const std::uint32_t f : ready_) plan(f);
  ready_.clear();
  if (--until_validate_ == 0) {
    until_validate_ = std::max(1U, scenario_.host.validate_every);
    if (const char* broken = host.tx().validate())
      violate("host " + std::to_string(e.a) + ": " + broken);
  }
  net_.wake(static_cast<std::uint16_t>(e.a), host.next_poll(now) * kPicosPerNano);
}

// What a poll left behind: broken rules of placement, failures.
void World::note_faults(SimHost& host) {
  if (host.fault != Ledger::Fault::kNone) [[unlikely]] {
    violate("host " + std::to_string(host.id()) + ", flow " +
            std::to_string(workload_.flows[host.fault_flow].id + 1) + ": " +
            Ledger::text(host.fault));
    host.fault = Ledger::Fault::kNone;
  }
  for (const TxToControl& t : host.events) {
    if (t.kind == TxToControlKind::kConnFailed || t.kind == TxToControlKind::kStreamFailed)
      violate("host " + std::to_string(host.id()) + ": a connection or stream failed, status " +
              std::to_string(t.status));
  }
  host.events.clear();
}

void World::violate(const std::string& text) {
  ++violation_count_;
  if (violations_.size() < RunResult::kMaxViolations)
    violations_.push_back("at " + std::to_string(net_.now() - origin_) + " ns: " + text);
}

// Every few milliseconds of this machine's time: whoever watches, a request to stop, progress.
void World::check(const RunHooks& hooks) {
  const Nanos now = net_.now();
  if (hooks.progress) {
    hooks.progress(RunProgress{now - origin_, events_, net_.counters().delivered, driver_.done(),
                               static_cast<std::uint32_t>(workload_.flows.size())});
  }
  if (hooks.stop != nullptr && hooks.stop->load(std::memory_order_relaxed) != 0)
    outcome_ = Outcome::kStopped;
  if (driver_.running() != 0 &&
      now - std::max(driver_.last_progress(), origin_) > scenario_.limits.progress)
    violate("no flow made progress for " + std::to_string(scenario_.limits.progress) + " ns");
}

bool World::step(const RunHooks& hooks, Picos until) {
  constexpr std::uint64_t kCheckEvery = 1 << 12;
  fabric::Event e{};
  if (!net_.queue().pop(e, until)) return false;
  switch (e.kind) {
    case kPollEvent:
      on_poll(e);
      break;
    case kFlowEvent: {
      const Flow& f = workload_.flows[e.a];
      driver_.start(e.a, net_.now(), hosts_);
      net_.wake(f.src, net_.queue().now());
      net_.wake(f.dst, net_.queue().now());
      break;
    }
    case kSampleEvent:
      probes_.sample(e.a, hooks);
      break;
    default:
      net_.fabric().handle(e);
  }
  if (++events_ % kCheckEvery == 0) check(hooks);
  return true;
}

RunResult World::run(const RunHooks& hooks) {
  if (!error_.empty()) violate(error_);
  if (hooks.capture) {
    capture_ =
        std::make_unique<Capture>(hooks.capture, origin_, arena_.data(),
                                  scenario_.transport.control_dscp, scenario_.transport.data_dscp);
    net_.set_capture(capture_.get());
  }
  constexpr Nanos kLatest = kNever / kPicosPerNano / 2;
  const Picos until = (origin_ + std::min(scenario_.limits.time, kLatest)) * kPicosPerNano;
  while (!over()) {
    if (events_ >= scenario_.limits.events)
      outcome_ = Outcome::kEventLimit;
    else if (!step(hooks, until))
      outcome_ = net_.queue().size() == 0 ? Outcome::kStalled : Outcome::kTimeLimit;
  }
  net_.set_capture(nullptr);
  if (violation_count_ != 0) outcome_ = Outcome::kViolation;
  return result();
}

std::string World::settle(Nanos time) {
  const Picos until = net_.queue().now() + time * kPicosPerNano;
  while (violation_count_ == 0 && step({}, until)) {
  }
  if (violation_count_ != 0) return violations_.front();
  for (std::uint32_t f = 0; f < workload_.flows.size(); ++f) {
    if (ledger_.left(f) != 0) return "flow " + std::to_string(f + 1) + ": bytes are missing";
  }
  for (const FlowDriver::Stream& s : driver_.streams()) {
    if (s.received != s.with_immediate) return "a completion at a receiver is missing";
  }
  std::uint64_t waiting = 0;
  for (const auto& h : hosts_) {
    if (!h->quiet()) return "host " + std::to_string(h->id()) + ": a pool is not empty";
    waiting += net_.inbox(h->id()).size();
  }
  const fabric::FabricTotals& t = net_.fabric().totals();
  const std::uint64_t inside = t.sent + t.duplicated - t.delivered - t.all_lost();
  if (net_.frames().used() != inside + waiting) return "frames are not given back";
  return {};
}

RunResult World::result() const {
  RunResult r;
  r.outcome = outcome_;
  r.flows = driver_.results();
  for (std::size_t i = 0; i < r.flows.size(); ++i) {
    FlowResult& f = r.flows[i];
    for (Nanos* t : {&f.start, &f.sender_done, &f.receiver_done})
      if (*t != kNever) *t -= origin_;
    f.packets = std::max(1U, ledger_.pages(static_cast<std::uint32_t>(i)));
    f.resent = ledger_.resent_of(static_cast<std::uint32_t>(i));
  }
  r.virtual_time = net_.now() - origin_;
  r.events = events_;
  for (const std::uint32_t n : next_conn_) r.connections += n;
  r.connections /= 2;  // each pair has two ends
  r.violations = violations_;
  r.violation_count = violation_count_;
  r.recovery = ledger_.recovery();
  r.trace_hash = net_.trace();
  const NetworkCounters& n = net_.counters();
  Totals& t = r.totals;
  t.data_sent = n.data_packets;
  t.data_wire_bytes = n.data_bytes;
  t.control_bytes = n.control_bytes;
  t.data_lost = n.lost_data;
  t.application_errors = driver_.failed();
  const fabric::FabricTotals& f = net_.fabric().totals();
  for (std::size_t i = 0; i < fabric::kLossKinds; ++i)
    if (f.lost[i] != 0) r.lost.emplace_back(loss_name(static_cast<fabric::Loss>(i)), f.lost[i]);
  for (std::uint32_t i = 0; i < net_.fabric().links(); ++i)
    t.ce_marked += net_.fabric().counters(i).ce_marks;
  probes_.result(r);
  DropCounters drops;
  for (const auto& h : hosts_) {
    const TxCounters& tx = h->tx().counters();
    const RxCounters& rx = h->rx().counters();
    t.retransmitted += tx.resent_packets;
    t.delivered_packets += rx.data_packets;
    t.delivered_bytes += rx.placed_bytes;
    t.spurious += rx.drops[DropReason::kDuplicate];
    t.acks += rx.acks_sent;
    for (unsigned i = 0; i < kDropReasons; ++i) {
      const auto reason = static_cast<DropReason>(i);
      drops.add(reason, rx.drops[reason] + tx.drops[reason]);
    }
  }
  for (unsigned i = 1; i < kDropReasons; ++i) {
    const auto reason = static_cast<DropReason>(i);
    if (drops[reason] != 0) r.drops.emplace_back(kDropReasonInfo[i].name, drops[reason]);
  }
  return r;
}

RunResult run(const Scenario& scenario, const Workload& workload, const RunHooks& hooks) {
  World world(scenario, workload);
  return world.run(hooks);
}

}  // namespace metaroce::sim
