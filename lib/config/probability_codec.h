// Probabilities as percentages with up to seven digits behind the point, kept in units of 10^-9:
// `1%`, `0.01%`, `12.5%`.
#pragma once

#include <cstdint>
#include <string>

#include "config/codec.h"

namespace metaroce::config {

struct ProbabilityCodec {
  using Value = std::uint32_t;
  [[nodiscard]] Value read(const Scalar& s) const;
  [[nodiscard]] std::string print(Value v) const;
  std::string type = "probability", accepts = "0% to 100%, at most seven digits behind the point";
};

}  // namespace metaroce::config
