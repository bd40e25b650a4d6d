// From the few numbers of a scenario's `workload:` section to the list of flows.
//
// Every generator is a pure function of (spec, context): no clock, no file (the loader puts the
// text of files into the spec), integers only. Permutation, incast, all-to-all, ring and victim
// give exactly the lists that the published figures of other simulators were measured with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"
#include "sim/flow.h"

namespace metaroce::sim {

enum class WorkloadKind : std::uint8_t {
  kPermutation,   // every host sends to one other in another group and receives from one
  kIncast,        // `senders` hosts, evenly spread, to host 0
  kVictim,        // 32 : 1 incast on 64 hosts with 15 flows that share a leaf or a NIC with it
  kAllToAll,      // every host to every other, in windowed order
  kAllReduce,     // ring, 2 (n - 1) steps
  kAllGather,     // ring, n - 1 steps
  kFan,           // `senders` hosts to each of `receivers` hosts
  kStorage,       // hosts 1.. to host 0, each with requests of one of `sizes`
  kDistribution,  // random pairs, sizes from a distribution, Poisson arrivals at a load
  kMatrix,        // bytes per pair from a file
  kFlows,         // flow list from a file
};

enum class DependencyAt : std::uint8_t { kSender, kReceiver };

struct WorkloadSpec {
  WorkloadKind kind = WorkloadKind::kPermutation;
  Bytes bytes = 2 << 20;        // per flow; ring: per chunk; storage: per sender in all
  std::uint32_t messages = 1;   // permutation, fan: of a pair, one at a time per stream
  std::uint32_t streams = 1;    // per pair; flows of a pair take turns
  std::uint32_t group = 0;      // permutation: hosts per group; 0: leaf, or pod of a fat tree
  std::uint32_t senders = 8;    // incast, fan, storage
  std::uint32_t receivers = 1;  // fan
  std::uint32_t window = 0;     // all-to-all, storage, flows: messages of a source in flight
  std::uint32_t slices = 1;     // ring, all-to-all: parts in which a chunk travels
  bool shuffled = true;         // ring: hosts in random order, not by number
  DependencyAt forward_at = DependencyAt::kReceiver;  // ring: when the next host sends it on
  std::vector<Bytes> sizes;                           // storage
  std::uint32_t load_permille = 500;                  // distribution: of every host's line rate
  std::uint32_t count = 10000;                        // distribution: flows
  std::string file;                                   // distribution, matrix, flows
  std::string text;                                   // of that file
  std::uint64_t seed = 0;                             // 0: the run's
};

struct WorkloadContext {
  std::uint32_t hosts = 0;
  std::uint32_t hosts_per_group = 1;  // for the permutation
  Mbps line_rate = 400000;            // of a host over all planes
  std::uint64_t seed = 1;             // of the run
};

struct WorkloadError {
  std::string what;  // one sentence
};
using WorkloadResult = std::variant<Workload, WorkloadError>;

inline constexpr std::uint32_t kMaxFlows = 1U << 23;
inline constexpr std::uint32_t kMaxHosts = 65535;
inline constexpr Bytes kMaxFlowBytes = Bytes{1} << 40;  // of a sender in all

// Never more than kMaxFlows flows, whatever the spec says.
WorkloadResult generate(const WorkloadSpec& spec, const WorkloadContext& context);

// The list as `id,src,dst,bytes,start_us,dep` lines; ids count from 1. In windowed lists `dep` is
// the position in the source's list, from 1, as in the published files.
std::string to_csv(const Workload& workload);

// The kinds, one function each; generate() has checked the spec and numbers the flows after.
WorkloadResult permutation(const WorkloadSpec& spec, const WorkloadContext& context);
WorkloadResult incast(const WorkloadSpec& spec, const WorkloadContext& context);
WorkloadResult victim(const WorkloadSpec& spec, const WorkloadContext& context);
WorkloadResult all_to_all(const WorkloadSpec& spec, const WorkloadContext& context);
WorkloadResult ring(const WorkloadSpec& spec, const WorkloadContext& context);
WorkloadResult fan(const WorkloadSpec& spec, const WorkloadContext& context);
WorkloadResult storage(const WorkloadSpec& spec, const WorkloadContext& context);
WorkloadResult random_arrivals(const WorkloadSpec& spec, const WorkloadContext& context);
WorkloadResult matrix(const WorkloadSpec& spec, const WorkloadContext& context);
WorkloadResult flow_list(const WorkloadSpec& spec, const WorkloadContext& context);

}  // namespace metaroce::sim
