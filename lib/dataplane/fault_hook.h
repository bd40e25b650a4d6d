// The fault hook: the one place where transmitted packets are lost, doubled or changed on
// purpose, so that every tool can be tried against a bad network. Off by default: a null pointer
// in the transmit path. Owned by the TX lcore.
#pragma once

#include <cstdint>
#include <vector>

#include <rte_mbuf.h>

#include "base/rng.h"

namespace metaroce {

struct FaultPlan {
  struct Flip {
    std::uint64_t packet = 0;
    std::uint32_t offset = 0;
  };
  std::uint32_t loss_ppm = 0, duplicate_ppm = 0;
  std::vector<Flip> flips;  // of the n-th DATA packet (from 1), this byte of its UDP payload
  std::uint64_t seed = 1;
  [[nodiscard]] bool any() const { return loss_ppm != 0 || duplicate_ppm != 0 || !flips.empty(); }
};

struct FaultCounters {
  std::uint64_t lost = 0, duplicated = 0, flipped = 0;
};

class FaultHook {
 public:
  explicit FaultHook(const FaultPlan& plan) : plan_(plan), rng_(plan.seed) {}

  // What to do with `m` (an Ethernet frame with headers of `encap` bytes): 0 lose, 1 send, 2 send
  // twice. `m` may be replaced by a changed copy from `pool`.
  unsigned apply(rte_mbuf*& m, std::uint32_t encap, rte_mempool* pool);
  [[nodiscard]] const FaultCounters& counters() const { return counters_; }

 private:
  FaultPlan plan_;
  Rng rng_;
  std::uint64_t data_packets_ = 0;
  FaultCounters counters_;
};

}  // namespace metaroce
