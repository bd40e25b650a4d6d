// The random faults of one link, or of one plane end to end, and what they do to a packet.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "fabric/event_queue.h"
#include "fabric/fault.h"
#include "fabric/packet.h"

namespace metaroce::fabric {

// True with a probability in units of 10^-9, exact to 2^-63.
class Chance {
 public:
  constexpr Chance() = default;
  constexpr explicit Chance(std::uint32_t probability) {
    const std::uint64_t p = probability < kCertain ? probability : kCertain;
    threshold_ = p * 9'223'372'036U + p * 854'775'808U / kCertain;  // p * 2^63 / 10^9
  }
  [[nodiscard]] constexpr bool possible() const { return threshold_ != 0; }
  constexpr bool draw(Rng& rng) const { return possible() && (rng.next() >> 1) < threshold_; }

 private:
  std::uint64_t threshold_ = 0;
};

struct Fate {
  std::optional<Loss> loss;
  Picos delay = 0;
  bool duplicate = false;
};

class FaultSet {
 public:
  // Takes the parts of `fault` that concern its kind. `exits`: how many places keep_order keeps
  // apart. False: not a kind of random fault.
  bool set(const Fault& fault, std::size_t exits);
  [[nodiscard]] bool any() const;

  // Draws in a fixed order, only for faults that are possible.
  Fate judge(Packet& packet, Rng& rng);
  [[nodiscard]] Picos duplicate_delay() const { return duplicate_delay_; }
  // The time at which a packet that would leave at `at` may leave by `exit`.
  Picos in_order(std::size_t exit, Picos at) {
    if (last_exit_.empty()) return at;
    Picos& last = last_exit_[exit];
    if (at < last) at = last;
    return last = at;
  }

 private:
  struct Draw {
    Chance chance;
    Traffic traffic = Traffic::kData;
    [[nodiscard]] bool meets(const Packet& p) const {
      return traffic == Traffic::kAll || (traffic == Traffic::kControl) == p.control;
    }
    bool draw(const Packet& p, Rng& rng) const { return meets(p) && chance.draw(rng); }
  };
  bool draw_burst(const Packet& packet, Rng& rng);

  Draw loss_, corrupt_, duplicate_, reorder_;
  Draw burst_;  // its chance: to enter the bad state
  Chance to_good_, loss_good_, loss_bad_;
  bool bad_ = false;
  Draw jitter_;
  Picos duplicate_delay_ = 0, reorder_delay_ = 0, jitter_max_ = 0;
  std::vector<Picos> last_exit_;
};

}  // namespace metaroce::fabric
