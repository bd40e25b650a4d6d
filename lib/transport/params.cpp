#include "transport/params.h"

#include "base/rng.h"

namespace metaroce {

// [MR-5.3.2]
PathSeq initial_pseq(std::uint64_t seed, PathId path) {
  return PathSeq{static_cast<std::uint32_t>(mix64(seed + path.v))};
}

}  // namespace metaroce
