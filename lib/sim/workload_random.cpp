// Random pairs, sizes from a distribution, exponential gaps: an open-loop load.
//
// One arrival process for the whole fabric, whose rate is `load` x hosts x line rate / mean size:
// the superposition of equal Poisson processes of the hosts, drawn in the order of time.
#include <fmt/format.h>

#include "sim/exponential.h"
#include "sim/size_distribution.h"
#include "sim/workload.h"

namespace metaroce::sim {
namespace {

// Picoseconds between two arrivals: mean bytes x 8 / (hosts x line rate x load).
Wide mean_gap_picos(std::uint64_t mean_bytes, const WorkloadSpec& spec,
                    const WorkloadContext& context) {
  const Wide bits = Wide{mean_bytes} * 8;
  const Wide load = Wide{context.hosts} * context.line_rate * spec.load_permille;  // Mb/s / 1000
  return bits * 1000000 * 1000 / load;
}

}  // namespace

WorkloadResult random_arrivals(const WorkloadSpec& spec, const WorkloadContext& context) {
  SizeDistribution sizes;
  if (const auto why = sizes.read(spec.text); !why.empty())
    return WorkloadError{fmt::format("{}: {}", spec.file, why)};
  if (spec.load_permille == 0 || context.line_rate == 0) return WorkloadError{"the load is 0"};
  if (spec.count == 0 || spec.count > kMaxFlows)
    return WorkloadError{fmt::format("{} flows; 1 to {}", spec.count, kMaxFlows)};
  constexpr std::uint64_t kLongestGap = 1000000000000ULL;  // 1 s
  const Wide gap = mean_gap_picos(sizes.mean(), spec, context);
  if (gap > kLongestGap) return WorkloadError{"less than one flow per second arrives"};
  Rng rng(mix64(context.seed));
  Workload w;
  w.flows.reserve(spec.count);
  std::uint64_t now = 0;
  for (std::uint32_t i = 0; i < spec.count; ++i) {
    now += exponential(rng, static_cast<std::uint64_t>(gap));
    Flow f;
    f.src = static_cast<std::uint16_t>(rng.below(context.hosts));
    const std::uint32_t other = rng.below(context.hosts - 1);
    f.dst = static_cast<std::uint16_t>(other + (other >= f.src ? 1 : 0));
    f.bytes = sizes.draw(rng);
    f.start = static_cast<Nanos>(now / 1000);
    w.flows.push_back(f);
  }
  return w;
}

}  // namespace metaroce::sim
