// Which data packets of a run were lost: what each packet carries and how often that was sent
// before. Enough to give another model of a sender the same luck. Observes only; the world's
// thread.
//
// A packet's number travels with its frame, because two transmissions of the same bytes can be in
// flight at once and the earlier one may be the one that dies.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "fabric/packet.h"
#include "sim/ledger.h"
#include "sim/run.h"

namespace metaroce::sim {

class LossLog {
 public:
  using Hook = std::function<void(const LostPacket&)>;
  // `origin` is subtracted from times; `ledger` outlives the log.
  LossLog(Hook hook, Nanos origin, const Ledger& ledger)
      : hook_(std::move(hook)),
        origin_(origin),
        ledger_(ledger),
        sent_(ledger.page(ledger.bytes())) {}

  // A packet with the bytes at `offset` of the shared address space is sent: for which time.
  std::uint16_t sent(std::uint64_t offset) {
    std::uint16_t& n = sent_[ledger_.page(offset)];
    if (n != UINT16_MAX) ++n;
    return n;
  }
  void lost(Nanos at, std::uint64_t offset, std::uint16_t transmission, fabric::Loss why) const {
    const std::uint32_t flow = ledger_.owner(offset);
    hook_(
        {at - origin_, flow, offset - ledger_.offset(flow), transmission, fabric::loss_name(why)});
  }

 private:
  Hook hook_;
  Nanos origin_;
  const Ledger& ledger_;
  std::vector<std::uint16_t> sent_;  // by page
};

}  // namespace metaroce::sim
