#include "sim/probes.h"

#include <algorithm>
#include <string>

namespace metaroce::sim {
namespace {

constexpr Nanos kIncastInterval = kMicrosecond;

}  // namespace

Probes::Probes(const Scenario& scenario, const Workload& workload, Network& net,
               const std::vector<std::unique_ptr<SimHost>>& hosts, Nanos origin)
    : scenario_(scenario), workload_(workload), net_(net), hosts_(hosts), origin_(origin) {}

void Probes::begin(const std::vector<std::uint32_t>& conn_of) {
  const auto at = [&](Nanos t, Which which) {
    net_.queue().schedule(t * kPicosPerNano, kSampleEvent, which);
  };
  if (scenario_.output.goodput_interval > 0) {
    goodput_.interval = scenario_.output.goodput_interval;
    at(origin_ + goodput_.interval, kGoodput);
  }
  if (scenario_.output.series_interval > 0) at(origin_, kSeries);
  if (workload_.flows.empty()) return;

  receiver_ = workload_.flows.front().dst;
  Nanos last_start = 0, rtt = 0;
  for (const Flow& f : workload_.flows) {
    if (f.dst != receiver_ || f.dep != kNoFlow || f.window_list != kNoFlow) return;
    const std::uint32_t c = conn_of[std::size_t{f.src} * workload_.hosts + f.dst];
    if (std::none_of(senders_.begin(), senders_.end(), [&](auto& s) { return s.host == f.src; }))
      senders_.push_back(Sender{f.src, c});
    last_start = std::max(last_start, f.start);
    rtt = std::max(rtt, hosts_[f.src]->tx().conn(ConnIndex{c})->params.handshake_rtt);
  }
  if (senders_.size() < 2) return senders_.clear();
  from_ = origin_ + last_start + 2 * rtt;
  at(from_, kIncast);
}

void Probes::again(Nanos interval, Which which) {
  net_.queue().schedule(net_.queue().now() + interval * kPicosPerNano, kSampleEvent, which);
}

void Probes::sample(std::uint32_t which, const RunHooks& hooks) {
  switch (which) {
    case kGoodput:
      return goodput();
    case kSeries:
      return series(hooks);
    case kIncast:
      return incast();
    default:
      return;
  }
}

std::uint64_t Probes::placed() const {
  std::uint64_t n = 0;
  for (const auto& h : hosts_) n += h->rx().counters().placed_bytes;
  return n;
}

void Probes::goodput() {
  const std::uint64_t n = placed();
  goodput_.bytes.push_back(n - placed_before_);
  placed_before_ = n;
  again(goodput_.interval, kGoodput);
}

void Probes::series(const RunHooks& hooks) {
  again(scenario_.output.series_interval, kSeries);
  if (!hooks.series) return;
  const Nanos now = net_.now() - origin_;
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    const std::string host = "host" + std::to_string(h) + ".";
    hooks.series(now, host + "placed_bytes",
                 static_cast<std::int64_t>(hosts_[h]->rx().counters().placed_bytes));
    hooks.series(now, host + "resent_packets",
                 static_cast<std::int64_t>(hosts_[h]->tx().counters().resent_packets));
    Bytes window = 0, inflight = 0;
    std::int64_t hint = 0, allowed = 0;
    for (std::uint32_t c = 0; const auto* conn = hosts_[h]->tx().conn(ConnIndex{c}); ++c) {
      if (conn->unresolved == 0) continue;
      window += conn->cc.window;
      hint += conn->hint.total();
      allowed += hosts_[h]->tx().allowed_rate(ConnIndex{c});
      for (const auto& p : conn->paths) inflight += p.inflight;
    }
    hooks.series(now, host + "waiting_packets",
                 static_cast<std::int64_t>(net_.inbox(static_cast<std::uint16_t>(h)).size()));
    hooks.series(now, host + "window_bytes", window);
    hooks.series(now, host + "inflight_bytes", inflight);
    hooks.series(now, host + "hint_mbps", hint);
    hooks.series(now, host + "allowed_mbps", allowed);
  }
  for (std::uint32_t l = 0; l < net_.fabric().links(); ++l) {
    hooks.series(now, net_.fabric().link_name(l) + ".queue_bytes", net_.fabric().queue_bytes(l));
  }
}

// Rates that pacer and window allow each sender now.
void Probes::incast() {
  const std::uint32_t link = net_.fabric().last_link(receiver_, 0);
  const Picos busy = net_.fabric().counters(link).busy;
  if (net_.now() > until_) return;
  if (seen_from_ == 0) {
    seen_from_ = net_.queue().now();
    busy_from_ = busy;
  }
  seen_until_ = net_.queue().now();
  busy_until_ = busy;
  double sum = 0, squares = 0;
  for (const Sender& s : senders_) {
    const double r = static_cast<double>(hosts_[s.host]->tx().allowed_rate(ConnIndex{s.conn}));
    sum += r;
    squares += r * r;
  }
  if (squares > 0) {
    const auto jain = static_cast<std::int64_t>(sum * sum * 1e6 /
                                                (static_cast<double>(senders_.size()) * squares));
    worst_jain_ppm_ = worst_jain_ppm_ < 0 ? jain : std::min(worst_jain_ppm_, jain);
  }
  again(kIncastInterval, kIncast);
}

void Probes::flow_done(Nanos now) { until_ = std::min(until_, now); }

void Probes::result(RunResult& r) const {
  r.goodput = goodput_;
  if (seen_until_ <= seen_from_) return;
  r.rate_jain_ppm = worst_jain_ppm_;
  // A packet counts as busy time when it begins: below zero is rounding.
  const Picos idle = (seen_until_ - seen_from_) - (busy_until_ - busy_from_);
  r.receiver_idle = std::max<Picos>(idle, 0) / kPicosPerNano;
}

}  // namespace metaroce::sim
