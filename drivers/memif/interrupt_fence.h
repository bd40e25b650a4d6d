// When is EAL's interrupt thread out of a handler? An alarm runs on that thread: once it has,
// whatever handler ran when the alarm was set is through. Any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace metaroce::drivers::memif {

class InterruptFence {
 public:
  // Nothing: EAL has no memory for an alarm; try again.
  static std::optional<std::uint64_t> set();
  static bool passed(std::uint64_t ticket);
};

}  // namespace metaroce::drivers::memif
