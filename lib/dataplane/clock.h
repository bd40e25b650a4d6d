// The dataplane's clock: CLOCK_MONOTONIC at start, continued by the TSC (invariant on every CPU
// we run on). One read costs about 20 cycles; take it once per pass and hand it down.
#pragma once

#include <ctime>

#include <rte_cycles.h>

#include "base/units.h"

namespace metaroce {

__extension__ typedef unsigned __int128 Uint128;

class Clock {
 public:
  // After EAL start, which calibrates the TSC.
  Clock() : base_tsc_(rte_rdtsc()) {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    base_ns_ = t.tv_sec * kSecond + t.tv_nsec;
    mult_ = (static_cast<Uint128>(kSecond) << 32) / rte_get_tsc_hz();
  }
  [[nodiscard]] Nanos now() const {
    return base_ns_ +
           static_cast<Nanos>((static_cast<Uint128>(rte_rdtsc() - base_tsc_) * mult_) >> 32);
  }

 private:
  std::uint64_t base_tsc_;
  Nanos base_ns_ = 0;
  Uint128 mult_;  // ns per tick << 32
};

}  // namespace metaroce
