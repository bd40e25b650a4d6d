// What goes wrong in a fabric and when: entries of a time line, also applied live.
//
// Every entry sets a state that lasts until another entry of the same kind and target replaces it:
// loss ends with probability 0, a degraded rate with rate_mbps 0, a cut with kUp. Probabilities are
// in units of 10^-9.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace metaroce::fabric {

inline constexpr std::uint32_t kCertain = 1'000'000'000;  // probability 1
inline constexpr std::uint8_t kAllPlanes = 255;

enum class FaultKind : std::uint8_t {
  kLoss,         // independent, `probability`
  kBurstLoss,    // Gilbert-Elliott, `burst`; probability 0 of entering the bad state ends it
  kCorrupt,      // sets Packet.corrupt with `probability`
  kDuplicate,    // a second copy with `probability`, `delay_ns` later
  kReorder,      // `delay_ns` extra for a packet with `probability`
  kJitter,       // uniform [0, `delay_ns`] extra for each packet
  kBlackhole,    // drops target.src -> target.dst when `probability` > 0
  kDown,         // link, switch, plane or host cut: drops what is queued and in flight
  kUp,           // the opposite
  kRate,         // `rate_mbps` instead of the configured rate; 0: configured
  kPropagation,  // `delay_ns` on top of the configured propagation
  kRehash,       // new ECMP seed for a switch (or all)
  kStall,        // host takes nothing: its last links hold their packets; probability 0 ends it
};

// kAll and kPlane: loss, corruption, duplication, reordering and jitter act once per packet, end to
// end, as it arrives at its host; on kLink and kSwitch they act on each passage of a link.
enum class Scope : std::uint8_t {
  kAll,
  kPlane,   // `plane`
  kSwitch,  // `id` within `plane`: all its links, both directions
  kLink,    // `id`: Fabric's link number, one direction
  kCable,   // `id`: a link and its opposite
  kHost,    // `id` (or `src`), `plane`: both directions of its links; kStall: towards it
  kPair,    // `src` to `dst`, `plane`: blackhole only
};

enum class Traffic : std::uint8_t { kData, kControl, kAll };

struct Target {
  Scope scope = Scope::kAll;
  std::uint8_t plane = kAllPlanes;
  std::uint32_t id = 0;
  std::uint16_t src = 0, dst = 0;
};

// Two states; a packet is lost with loss_good or loss_bad, then the state may change.
struct GilbertElliott {
  std::uint32_t to_bad = 0, to_good = 0;
  std::uint32_t loss_good = 0, loss_bad = kCertain;
};

struct Fault {
  Nanos at_ns = 0;  // <= 0: from the beginning
  FaultKind kind = FaultKind::kLoss;
  Target target{};
  Traffic traffic = Traffic::kData;  // whom loss, corruption and so on meet
  std::uint32_t probability = 0;
  GilbertElliott burst{};
  Nanos delay_ns = 0;
  bool keep_order = false;  // jitter: nobody overtakes on the same link (end to end: to one host)
  Mbps rate_mbps = 0;
};

}  // namespace metaroce::fabric
