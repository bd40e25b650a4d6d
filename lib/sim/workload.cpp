#include "sim/workload.h"

#include <fmt/format.h>

#include <map>

#include "transport/work.h"

namespace metaroce::sim {
namespace {

WorkloadResult dispatch(const WorkloadSpec& spec, const WorkloadContext& context) {
  switch (spec.kind) {
    case WorkloadKind::kPermutation:
      return permutation(spec, context);
    case WorkloadKind::kIncast:
      return incast(spec, context);
    case WorkloadKind::kVictim:
      return victim(spec, context);
    case WorkloadKind::kAllToAll:
      return all_to_all(spec, context);
    case WorkloadKind::kAllReduce:
    case WorkloadKind::kAllGather:
      return ring(spec, context);
    case WorkloadKind::kFan:
      return fan(spec, context);
    case WorkloadKind::kStorage:
      return storage(spec, context);
    case WorkloadKind::kDistribution:
      return random_arrivals(spec, context);
    case WorkloadKind::kMatrix:
      return matrix(spec, context);
    case WorkloadKind::kFlows:
      return flow_list(spec, context);
  }
  return WorkloadError{"an unknown kind of workload"};
}

// Flows of one ordered pair take turns over its streams. An ordered map: the order of visits
// decides nothing, but it costs nothing to be sure.
void spread_over_streams(Workload& w, std::uint32_t streams) {
  if (streams <= 1) return;
  std::map<std::pair<std::uint16_t, std::uint16_t>, std::uint32_t> turn;
  for (Flow& f : w.flows) f.stream = static_cast<std::uint16_t>(turn[{f.src, f.dst}]++ % streams);
}

// What the engine relies on, whichever generator or file the list came from.
std::string broken_rule(const Workload& w) {
  if (w.flows.empty()) return "there is no flow";
  if (w.flows.size() > kMaxFlows)
    return fmt::format("{} flows; at most {}", w.flows.size(), kMaxFlows);
  for (const Flow& f : w.flows) {
    const auto name = f.id + 1;
    if (f.src >= w.hosts || f.dst >= w.hosts)
      return fmt::format("flow {} is between hosts {} and {}; there are {} hosts, from 0", name,
                         f.src, f.dst, w.hosts);
    if (f.src == f.dst) return fmt::format("flow {} is from host {} to itself", name, f.src);
    if (f.bytes == 0 || f.bytes > kMaxMessageBytes)
      return fmt::format("flow {} has {} bytes; a message has 1 to 2^31", name, f.bytes);
    if ((f.dep != kNoFlow && f.dep >= f.id) || (f.dep2 != kNoFlow && f.dep2 >= f.id))
      return fmt::format("flow {} waits for a flow that is not listed before it", name);
    if (f.window_list != kNoFlow && (w.window == 0 || f.window_list >= w.window_lists))
      return fmt::format("flow {} is in a windowed list, and there is no window", name);
  }
  return {};
}

}  // namespace

WorkloadResult generate(const WorkloadSpec& spec, const WorkloadContext& context) {
  if (context.hosts < 2 || context.hosts > kMaxHosts)
    return WorkloadError{fmt::format("{} hosts; 2 to {}", context.hosts, kMaxHosts)};
  if (spec.bytes < 1 || spec.bytes > kMaxWorkloadBytes)
    return WorkloadError{fmt::format("{} bytes; 1 to 2^40", spec.bytes)};
  if (spec.streams == 0 || spec.messages == 0 || spec.slices == 0)
    return WorkloadError{"streams, messages and slices are at least 1"};
  WorkloadContext seeded = context;
  if (spec.seed != 0) seeded.seed = spec.seed;
  WorkloadResult result = dispatch(spec, seeded);
  auto* w = std::get_if<Workload>(&result);
  if (w == nullptr) return result;
  w->hosts = context.hosts;
  for (std::uint32_t i = 0; i < w->flows.size(); ++i) w->flows[i].id = i;
  spread_over_streams(*w, spec.streams);
  if (std::string why = broken_rule(*w); !why.empty()) return WorkloadError{std::move(why)};
  return result;
}

}  // namespace metaroce::sim
