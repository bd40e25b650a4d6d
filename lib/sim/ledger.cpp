#include "sim/ledger.h"

#include <bit>

namespace metaroce::sim {

Ledger::Ledger(const std::vector<Flow>& flows, std::uint32_t mtu) : flows_(flows), mtu_(mtu) {
  if (std::has_single_bit(mtu)) shift_ = std::countr_zero(mtu);
  first_page_.reserve(flows.size());
  left_.reserve(flows.size());
  for (std::uint32_t i = 0; i < flows.size(); ++i) {
    const std::uint32_t n = pages(i);
    first_page_.push_back(static_cast<std::uint32_t>(owner_.size()));
    left_.push_back(n);
    owner_.insert(owner_.end(), std::max(n, 1U), i);
  }
  resent_.assign(flows.size(), 0);
  placed_.assign((owner_.size() + 63) / 64, 0);
}

const char* Ledger::text(Fault f) {
  switch (f) {
    case Fault::kNone:
      return "placed";
    case Fault::kOutside:
      return "placed outside every flow";
    case Fault::kForeign:
      return "placed at another host's bytes";
    case Fault::kMoved:
      return "placed at an address that is not the payload's";
    case Fault::kPartial:
      return "placed across the border of a packet";
    case Fault::kTwice:
      return "placed twice";
  }
  return "";
}

void Ledger::lost(Nanos now, std::uint64_t offset) {
  const std::uint64_t page = divide(offset);
  if (page >= owner_.size()) return;
  const std::uint64_t bit = std::uint64_t{1} << (page % 64);
  if ((placed_[page / 64] & bit) != 0) return;  // a spurious copy
  if (lost_.empty()) lost_.assign(placed_.size(), 0);
  lost_[page / 64] |= bit;
  lost_at_.try_emplace(page, now);
}

void Ledger::recovered(Nanos now, std::uint64_t page) {
  const auto it = lost_at_.find(page);
  recovery_.add(now - it->second);
  lost_at_.erase(it);
}

}  // namespace metaroce::sim
