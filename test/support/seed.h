// Seeded randomness of tests: every run is the same unless METAROCE_SEED says otherwise, and a
// failure names the seed that replays it.
//
//   const Seed seed(7);          // 7, or $METAROCE_SEED
//   SCOPED_TRACE(seed.replay());
//   Rng rng(seed.value());
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace metaroce::test {

class Seed {
 public:
  explicit Seed(std::uint64_t fallback) : value_(fallback) {
    if (const char* text = std::getenv("METAROCE_SEED")) value_ = std::strtoull(text, nullptr, 0);
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }
  [[nodiscard]] std::string replay() const {
    return "replay with METAROCE_SEED=" + std::to_string(value_);
  }

 private:
  std::uint64_t value_;
};

}  // namespace metaroce::test
