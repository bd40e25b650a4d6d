#include "sim/ideal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace metaroce::sim {

double IdealFabric::packets(std::uint64_t bytes) const {
  return std::ceil(static_cast<double>(bytes) / payload);
}

double IdealFabric::receiver_ns(std::uint64_t bytes, std::uint32_t h) const {
  return (packets(bytes) + h - 1) * packet_ns() + h * propagation_ns;
}

double IdealFabric::sender_ns(std::uint64_t bytes, std::uint32_t h) const {
  return receiver_ns(bytes, h) + h * (propagation_ns + ack_ns());
}

namespace {

// Flows come after what they depend on, so one pass in the order of ids finds the longest chain.
double longest_chain_ns(const Workload& w, const IdealFabric& fabric) {
  std::vector<double> sender(w.flows.size()), receiver(w.flows.size());
  double longest = 0;
  for (const Flow& f : w.flows) {
    double start = static_cast<double>(f.start);
    const auto& done = f.dep_at_receiver ? receiver : sender;
    if (f.dep != kNoFlow) start = std::max(start, done[f.dep]);
    if (f.dep2 != kNoFlow) start = std::max(start, done[f.dep2]);
    const std::uint32_t h = fabric.hops(f.src, f.dst);
    sender[f.id] = start + fabric.sender_ns(f.bytes, h);
    receiver[f.id] = start + fabric.receiver_ns(f.bytes, h);
    longest = std::max(longest, sender[f.id]);
  }
  return longest;
}

// All flows that share a NIC, in one direction, back to back.
struct Nic {
  double packets = 0, first_start = std::numeric_limits<double>::max();
  std::uint32_t hops = 0;
};

double busiest_nic_ns(const Workload& w, const IdealFabric& fabric, bool sending) {
  std::vector<Nic> nics(w.hosts);
  for (const Flow& f : w.flows) {
    Nic& nic = nics[sending ? f.src : f.dst];
    nic.packets += fabric.packets(f.bytes);
    nic.first_start = std::min(nic.first_start, static_cast<double>(f.start));
    nic.hops = std::max(nic.hops, fabric.hops(f.src, f.dst));
  }
  double longest = 0;
  for (const Nic& nic : nics) {
    if (nic.packets == 0) continue;
    const double bytes = nic.packets * fabric.payload;
    longest = std::max(
        longest, nic.first_start + fabric.sender_ns(static_cast<std::uint64_t>(bytes), nic.hops));
  }
  return longest;
}

}  // namespace

double ideal_run_ns(const Workload& w, const IdealFabric& fabric) {
  return std::max({longest_chain_ns(w, fabric), busiest_nic_ns(w, fabric, true),
                   busiest_nic_ns(w, fabric, false)});
}

Spread spread(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto rank = [&](double share) {
    const auto r = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<std::size_t>(r, 1) - 1];
  };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), values.back(), rank(0.5), rank(0.99)};
}

double jain(std::span<const double> shares) {
  double sum = 0, squares = 0;
  for (const double x : shares) {
    sum += x;
    squares += x * x;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 1.0;
}

// Water filling: raise all open flows together until a link is full or a flow has what it wants.
std::vector<double> max_min(std::span<const std::vector<std::uint32_t>> routes,
                            std::span<const double> demands, std::span<const double> capacities) {
  std::vector<double> rates(routes.size(), 0), left(capacities.begin(), capacities.end());
  std::vector<bool> open(routes.size(), true);
  const auto any_open = [&] { return std::find(open.begin(), open.end(), true) != open.end(); };
  while (any_open()) {
    std::vector<std::uint32_t> users(capacities.size(), 0);
    for (std::size_t i = 0; i < routes.size(); ++i)
      for (const std::uint32_t link : routes[i]) users[link] += open[i] ? 1 : 0;
    double step = std::numeric_limits<double>::max();
    for (std::size_t l = 0; l < left.size(); ++l)
      if (users[l] != 0) step = std::min(step, left[l] / users[l]);
    for (std::size_t i = 0; i < routes.size(); ++i)
      if (open[i]) step = std::min(step, demands[i] - rates[i]);
    for (std::size_t l = 0; l < left.size(); ++l) left[l] -= step * users[l];
    const auto full = [&](std::uint32_t link) { return left[link] <= 1e-9 * capacities[link]; };
    for (std::size_t i = 0; i < routes.size(); ++i) {
      if (!open[i]) continue;
      rates[i] += step;
      const bool blocked = std::any_of(routes[i].begin(), routes[i].end(), full);
      if (blocked || rates[i] >= demands[i] * (1 - 1e-12)) open[i] = false;
    }
  }
  return rates;
}

Nanos longest_below(const GoodputSamples& samples, std::uint64_t bytes_per_interval) {
  Nanos longest = 0, current = 0;
  for (const std::uint64_t bytes : samples.bytes) {
    current = bytes < bytes_per_interval ? current + samples.interval : 0;
    longest = std::max(longest, current);
  }
  return longest;
}

}  // namespace metaroce::sim
