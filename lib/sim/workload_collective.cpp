// Collectives: every host takes part, and what a host sends depends on what it received.
#include <fmt/format.h>

#include "sim/lcg.h"
#include "sim/workload.h"

namespace metaroce::sim {
namespace {

std::string too_many(std::uint64_t flows) {
  return flows > kMaxFlows ? fmt::format("{} flows; at most {}", flows, kMaxFlows) : std::string();
}

// Equal slices; the last takes the rest.
std::uint64_t slice_bytes(Bytes chunk, std::uint32_t slices, std::uint32_t i) {
  const auto whole = static_cast<std::uint64_t>(chunk), each = whole / slices;
  return i + 1 < slices ? each : whole - each * (slices - 1);
}

}  // namespace

// Source s sends to s + 1, s + 2, ...: a windowed list per source.
WorkloadResult all_to_all(const WorkloadSpec& spec, const WorkloadContext& context) {
  const std::uint32_t n = context.hosts, slices = spec.slices;
  if (spec.window == 0) return WorkloadError{"window, the messages of a source in flight, is 0"};
  if (spec.bytes < Bytes{slices}) return WorkloadError{"fewer bytes than slices"};
  if (auto why = too_many(std::uint64_t{n} * (n - 1) * slices); !why.empty())
    return WorkloadError{std::move(why)};
  Workload w;
  w.window = spec.window;
  w.window_lists = n;
  for (std::uint32_t s = 0; s < n; ++s) {
    for (std::uint32_t k = 1; k < n; ++k) {
      for (std::uint32_t i = 0; i < slices; ++i) {
        Flow f;
        f.src = static_cast<std::uint16_t>(s);
        f.dst = static_cast<std::uint16_t>((s + k) % n);
        f.bytes = slice_bytes(spec.bytes, slices, i);
        f.window_list = s;
        w.flows.push_back(f);
      }
    }
  }
  return w;
}

// At step t position p of the ring passes on, slice by slice, the chunk that it got from p - 1 at
// step t - 1. All-reduce: n - 1 steps reduce, n - 1 distribute; all-gather: the latter only.
WorkloadResult ring(const WorkloadSpec& spec, const WorkloadContext& context) {
  const std::uint32_t n = context.hosts, slices = spec.slices;
  const std::uint32_t steps = (spec.kind == WorkloadKind::kAllReduce ? 2 : 1) * (n - 1);
  if (spec.bytes < Bytes{slices}) return WorkloadError{"fewer bytes than slices"};
  if (auto why = too_many(std::uint64_t{steps} * n * slices); !why.empty())
    return WorkloadError{std::move(why)};
  std::vector<std::uint32_t> order(n);
  for (std::uint32_t i = 0; i < n; ++i) order[i] = i;
  if (spec.shuffled) Lcg(context.seed).shuffle(order);
  Workload w;
  for (std::uint32_t t = 0; t < steps; ++t) {
    for (std::uint32_t p = 0; p < n; ++p) {
      for (std::uint32_t i = 0; i < slices; ++i) {
        Flow f;
        f.src = static_cast<std::uint16_t>(order[p]);
        f.dst = static_cast<std::uint16_t>(order[(p + 1) % n]);
        f.bytes = slice_bytes(spec.bytes, slices, i);
        if (t > 0) f.dep = ((t - 1) * n + (p + n - 1) % n) * slices + i;
        f.dep_at_receiver = spec.forward_at == DependencyAt::kReceiver;
        w.flows.push_back(f);
      }
    }
  }
  return w;
}

}  // namespace metaroce::sim
