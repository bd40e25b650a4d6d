#include "base/rng.h"
#include "transport/params.h"
namespace metaroce {
PathSeq initial_pseq(std::uint64_t seed, PathId p) { return PathSeq{static_cast<std::uint32_t>(mix64(seed + p.v))}; }
}
