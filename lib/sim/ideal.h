// The yardsticks of reports: how fast a run could have been, and how evenly it was shared.
// Floating point: nothing here decides what a run does.
//
// A flow of n packets over h links, stored and forwarded, is complete at its sender after
//     n S + (h - 1) S + 2 h p + h A
// S: time of a full packet on a link (83.2 ns for 4,096 + 64 bytes at 400 Gb/s), p: propagation of
// one link, A: time of a 64-byte acknowledgment on a link. The ideals charge 64 bytes of headers
// whatever ours are, so that they are those of the published figures.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/flow.h"
#include "sim/result.h"

namespace metaroce::sim {

struct IdealFabric {
  double gbps = 400;             // of a host over all planes
  double propagation_ns = 1000;  // of one link
  double payload = 4096, header = 64, ack = 64;
  // Links between two hosts.
  std::function<std::uint32_t(std::uint16_t src, std::uint16_t dst)> hops;

  [[nodiscard]] double packet_ns() const { return (payload + header) * 8 / gbps; }
  [[nodiscard]] double ack_ns() const { return ack * 8 / gbps; }
  [[nodiscard]] double packets(std::uint64_t bytes) const;
  // Sender-side and receiver-side completion of one flow, alone.
  [[nodiscard]] double sender_ns(std::uint64_t bytes, std::uint32_t hops_between) const;
  [[nodiscard]] double receiver_ns(std::uint64_t bytes, std::uint32_t hops_between) const;
};

// The ideal of the whole run, in ns from 0: the longest of every chain of dependencies and of
// every host's total to send and to receive, each followed by the rest of its last packet's way.
double ideal_run_ns(const Workload& workload, const IdealFabric& fabric);

struct Spread {
  double mean = 0, max = 0, p50 = 0, p99 = 0;
};
Spread spread(std::vector<double> values);

// (sum x)^2 / (n sum x^2): 1 for equal shares, 1/n for one that has all. 1 for none.
double jain(std::span<const double> shares);

// Max-min fair rates: flow i crosses the links of `routes[i]` and wants at most `demands[i]`.
std::vector<double> max_min(std::span<const std::vector<std::uint32_t>> routes,
                            std::span<const double> demands, std::span<const double> capacities);

// Longest time for which `samples` stays below `bytes_per_interval`, in ns.
Nanos longest_below(const GoodputSamples& samples, std::uint64_t bytes_per_interval);

}  // namespace metaroce::sim
