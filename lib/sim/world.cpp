#include "sim/world.h"

#include <algorithm>

#include "base/rng.h"

namespace metaroce::sim {

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
  net_.prefetch();
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
  if (hooks.loss) {
    losses_ = std::make_unique<LossLog>(hooks.loss, origin_, ledger_);
    net_.set_losses(losses_.get());
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
  net_.set_losses(nullptr);
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
  for (std::size_t i = 0; i < fabric::kLossKinds; ++i) {
    const std::uint64_t lost = f.lost[i] + n.at_port[i];
    if (lost != 0) r.lost.emplace_back(loss_name(static_cast<fabric::Loss>(i)), lost);
  }
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
