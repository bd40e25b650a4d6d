// Workloads whose flows are independent, or follow each other between one pair of hosts.
#include <fmt/format.h>

#include <algorithm>

#include "sim/lcg.h"
#include "sim/workload.h"

namespace metaroce::sim {
namespace {

Flow flow(std::uint32_t src, std::uint32_t dst, Bytes bytes, std::uint8_t tag = 0) {
  Flow f;
  f.src = static_cast<std::uint16_t>(src);
  f.dst = static_cast<std::uint16_t>(dst);
  f.bytes = static_cast<std::uint64_t>(bytes);
  f.tag = tag;
  return f;
}

std::uint32_t first_in_own_group(const std::vector<std::uint32_t>& to, std::uint32_t group) {
  std::uint32_t s = 0;
  while (s < to.size() && s / group != to[s] / group) ++s;
  return s;
}

// `pairs` holds one flow per pair; the further messages follow, one at a time on each stream.
WorkloadResult repeated(Workload pairs, const WorkloadSpec& spec) {
  const std::size_t n = pairs.flows.size();
  if (n * spec.messages > kMaxFlows)
    return WorkloadError{
        fmt::format("{} pairs of {} messages; at most {} flows", n, spec.messages, kMaxFlows)};
  pairs.flows.reserve(n * spec.messages);
  for (std::uint32_t m = 1; m < spec.messages; ++m) {
    for (std::size_t i = 0; i < n; ++i) {
      Flow f = pairs.flows[i];
      if (m >= spec.streams) f.dep = static_cast<std::uint32_t>((m - spec.streams) * n + i);
      pairs.flows.push_back(f);
    }
  }
  return pairs;
}

}  // namespace

// A shuffled order, repaired by random swaps until no host sends into its own group.
WorkloadResult permutation(const WorkloadSpec& spec, const WorkloadContext& context) {
  const std::uint32_t group = spec.group != 0 ? spec.group : context.hosts_per_group;
  const std::uint32_t n = context.hosts;
  if (group == 0 || group > n / 2)
    return WorkloadError{fmt::format(
        "groups of {} of {} hosts; at most half, or no host finds one in another group", group, n)};
  constexpr int kShuffles = 100, kSwaps = 100000;
  Lcg random(context.seed);
  std::vector<std::uint32_t> to(n);
  for (std::uint32_t i = 0; i < n; ++i) to[i] = i;
  std::uint32_t bad = 0;
  for (int shuffles = 0; shuffles < kShuffles && bad < n; ++shuffles) {
    random.shuffle(to);
    for (int swaps = 0; swaps < kSwaps; ++swaps) {
      bad = first_in_own_group(to, group);
      if (bad == n) break;
      std::swap(to[bad], to[random.below(n)]);
    }
    bad = first_in_own_group(to, group);
  }
  if (bad < n) return WorkloadError{"no permutation between groups was found; use another seed"};
  Workload w;
  for (std::uint32_t s = 0; s < n; ++s) w.flows.push_back(flow(s, to[s], spec.bytes));
  return repeated(std::move(w), spec);
}

WorkloadResult incast(const WorkloadSpec& spec, const WorkloadContext& context) {
  const std::uint64_t n = spec.senders, others = context.hosts - 1;
  if (n == 0 || n > others)
    return WorkloadError{fmt::format("{} senders to one of {} hosts", n, context.hosts)};
  Workload w;
  for (std::uint64_t i = 0; i < n; ++i)
    w.flows.push_back(flow(static_cast<std::uint32_t>(1 + i * others / n), 0, spec.bytes));
  return w;
}

// The published mix: hosts 32..63 send 1 MiB each to host 0; 8 + i sends 2 MiB to 1 + i, on the
// receiver's leaf (tag 1); 32 + i sends 2 MiB to 16 + i, from a NIC of the incast (tag 2).
WorkloadResult victim(const WorkloadSpec& spec, const WorkloadContext& context) {
  if (context.hosts < 64)
    return WorkloadError{fmt::format("{} hosts; the victims' workload names 64", context.hosts)};
  Workload w;
  for (std::uint32_t k = 0; k < 32; ++k) w.flows.push_back(flow(32 + k, 0, spec.bytes / 2));
  for (std::uint32_t i = 0; i < 7; ++i) w.flows.push_back(flow(8 + i, 1 + i, spec.bytes, 1));
  for (std::uint32_t i = 0; i < 8; ++i) w.flows.push_back(flow(32 + i, 16 + i, spec.bytes, 2));
  return w;
}

// Hosts [0, senders) to each of [senders, senders + receivers). Neighbouring senders begin with
// neighbouring receivers, so that no receiver is everybody's first.
WorkloadResult fan(const WorkloadSpec& spec, const WorkloadContext& context) {
  const std::uint64_t s = spec.senders, r = spec.receivers;
  if (s == 0 || r == 0 || s + r > context.hosts)
    return WorkloadError{
        fmt::format("{} senders and {} receivers of {} hosts", s, r, context.hosts)};
  if (s * r > kMaxFlows)
    return WorkloadError{fmt::format("{} pairs; at most {}", s * r, kMaxFlows)};
  Workload w;
  for (std::uint32_t k = 0; k < r; ++k)
    for (std::uint32_t i = 0; i < s; ++i)
      w.flows.push_back(flow(i, static_cast<std::uint32_t>(s + (i + k) % r), spec.bytes));
  return repeated(std::move(w), spec);
}

// Sender i sends `bytes` in requests of sizes[i % n], `window` of them in flight; tag = i % n.
WorkloadResult storage(const WorkloadSpec& spec, const WorkloadContext& context) {
  if (spec.sizes.empty() || spec.sizes.size() > 255)
    return WorkloadError{fmt::format("{} sizes of requests; 1 to 255", spec.sizes.size())};
  if (spec.senders == 0 || spec.senders >= context.hosts)
    return WorkloadError{fmt::format("{} senders to one of {} hosts", spec.senders, context.hosts)};
  if (spec.window == 0) return WorkloadError{"window, the requests of a sender in flight, is 0"};
  Workload w;
  w.window = spec.window;
  w.window_lists = spec.senders;
  for (std::uint32_t i = 0; i < spec.senders; ++i) {
    const auto kind = static_cast<std::uint8_t>(i % spec.sizes.size());
    const Bytes size = spec.sizes[kind];
    if (size < 1) return WorkloadError{"a request of 0 bytes"};
    const Bytes requests = std::max<Bytes>(1, spec.bytes / size);
    if (static_cast<Bytes>(w.flows.size()) + requests > Bytes{kMaxFlows})
      return WorkloadError{fmt::format("over {} requests", kMaxFlows)};
    for (Bytes k = 0; k < requests; ++k) {
      w.flows.push_back(flow(i + 1, 0, size, kind));
      w.flows.back().window_list = i;
    }
  }
  return w;
}

}  // namespace metaroce::sim
