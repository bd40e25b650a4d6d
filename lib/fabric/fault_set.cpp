#include "fabric/fault_set.h"

namespace metaroce::fabric {

bool FaultSet::set(const Fault& f, std::size_t exits) {
  const Draw draw{Chance{f.probability}, f.traffic};
  const Picos delay = f.delay_ns > 0 ? f.delay_ns * kPicosPerNano : 0;
  switch (f.kind) {
    case FaultKind::kLoss:
      loss_ = draw;
      return true;
    case FaultKind::kBurstLoss:
      burst_ = {Chance{f.burst.to_bad}, f.traffic};
      to_good_ = Chance{f.burst.to_good};
      loss_good_ = Chance{f.burst.loss_good};
      loss_bad_ = Chance{f.burst.loss_bad};
      bad_ = false;
      return true;
    case FaultKind::kCorrupt:
      corrupt_ = draw;
      return true;
    case FaultKind::kDuplicate:
      duplicate_ = draw;
      duplicate_delay_ = delay;
      return true;
    case FaultKind::kReorder:
      reorder_ = draw;
      reorder_delay_ = delay;
      return true;
    case FaultKind::kJitter:
      jitter_ = {Chance{delay > 0 ? kCertain : 0}, f.traffic};
      jitter_max_ = delay;
      last_exit_.assign(f.keep_order && delay > 0 ? exits : 0, 0);
      return true;
    default:
      return false;
  }
}

bool FaultSet::any() const {
  for (const Draw* d : {&loss_, &burst_, &corrupt_, &duplicate_, &reorder_, &jitter_}) {
    if (d->chance.possible()) return true;
  }
  return false;
}

bool FaultSet::draw_burst(const Packet& packet, Rng& rng) {
  if (!burst_.chance.possible() || !burst_.meets(packet)) return false;
  const bool lost = (bad_ ? loss_bad_ : loss_good_).draw(rng);
  if ((bad_ ? to_good_ : burst_.chance).draw(rng)) bad_ = !bad_;
  return lost;
}

Fate FaultSet::judge(Packet& packet, Rng& rng) {
  Fate fate;
  if (loss_.draw(packet, rng)) {
    fate.loss = Loss::kRandom;
    return fate;
  }
  if (draw_burst(packet, rng)) {
    fate.loss = Loss::kBurst;
    return fate;
  }
  if (corrupt_.draw(packet, rng)) packet.corrupt = true;
  fate.duplicate = duplicate_.draw(packet, rng);
  if (reorder_.draw(packet, rng)) fate.delay += reorder_delay_;
  if (jitter_max_ > 0 && jitter_.meets(packet)) {
    // At most 10^13 values of 2^64: the bias is below 10^-6.
    fate.delay += static_cast<Picos>(rng.next() % (static_cast<std::uint64_t>(jitter_max_) + 1));
  }
  return fate;
}

}  // namespace metaroce::fabric
