// The shadow of all memory: every byte of every flow is placed exactly once, where it belongs,
// by the host that it is meant for, from the bytes that it came from. O(1) per packet.
//
// All hosts share one address space in which each flow owns a range of pages of one payload MTU,
// at the same offset in its source and in its destination. So a packet is right when it is read
// and written at the same address, that page's flow runs from this sender to this host, the
// packet covers the page's bytes exactly, and the page was not placed before.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "sim/flow.h"
#include "sim/latency_histogram.h"

namespace metaroce::sim {

class Ledger {
 public:
  // `flows` outlives the ledger. Empty flows own one page, so that each has an address.
  Ledger(const std::vector<Flow>& flows, std::uint32_t mtu);

  [[nodiscard]] std::uint64_t bytes() const { return owner_.size() * std::uint64_t{mtu_}; }
  // Offset of the flow's range in the shared address space.
  [[nodiscard]] std::uint64_t offset(std::uint32_t flow) const {
    return std::uint64_t{first_page_[flow]} * mtu_;
  }
  // The flow that `at`, below bytes(), belongs to.
  [[nodiscard]] std::uint32_t owner(std::uint64_t at) const { return owner_[divide(at)]; }
  [[nodiscard]] std::uint64_t page(std::uint64_t at) const { return divide(at); }
  [[nodiscard]] std::uint32_t pages(std::uint32_t flow) const {
    return static_cast<std::uint32_t>((flows_[flow].bytes + mtu_ - 1) / mtu_);
  }

  enum class Fault : std::uint8_t { kNone, kOutside, kForeign, kMoved, kPartial, kTwice };
  static const char* text(Fault f);

  // One placement at `offset`; `from` is the offset that the payload was read at. `done` is set
  // when it was the flow's last.
  Fault place(Nanos now, std::uint16_t src, std::uint16_t dst, std::uint64_t from,
              std::uint64_t offset, std::uint32_t n, std::uint32_t& flow, bool& done) {
    done = false;
    const std::uint64_t page = divide(offset);
    if (page >= owner_.size()) return Fault::kOutside;
    flow = owner_[page];
    const Flow& f = flows_[flow];
    if (f.src != src || f.dst != dst) return Fault::kForeign;
    if (from != offset) return Fault::kMoved;
    const std::uint64_t at = (page - first_page_[flow]) * mtu_;
    if (page * mtu_ != offset || n != std::min<std::uint64_t>(mtu_, f.bytes - at))
      return Fault::kPartial;
    const std::uint64_t bit = std::uint64_t{1} << (page % 64);
    if ((placed_[page / 64] & bit) != 0) return Fault::kTwice;
    placed_[page / 64] |= bit;
    if (!lost_.empty() && (lost_[page / 64] & bit) != 0) recovered(now, page);
    done = --left_[flow] == 0;
    return Fault::kNone;
  }
  // A packet with the bytes at `offset` was sent once more.
  void resent(std::uint64_t offset) {
    const std::uint64_t page = divide(offset);
    if (page < owner_.size()) ++resent_[owner_[page]];
  }
  // The fabric lost a packet with the bytes at `offset`; recovery is timed from its first loss.
  void lost(Nanos now, std::uint64_t offset);

  [[nodiscard]] std::uint32_t left(std::uint32_t flow) const { return left_[flow]; }
  [[nodiscard]] std::uint32_t resent_of(std::uint32_t flow) const { return resent_[flow]; }
  // From the first loss of a packet's bytes to their placement.
  [[nodiscard]] const LatencyHistogram& recovery() const { return recovery_; }

 private:
  void recovered(Nanos now, std::uint64_t page);
  // Division by the MTU, which is mostly a power of two.
  [[nodiscard]] std::uint64_t divide(std::uint64_t v) const {
    return shift_ >= 0 ? v >> shift_ : v / mtu_;
  }

  const std::vector<Flow>& flows_;
  std::uint32_t mtu_;
  int shift_ = -1;
  std::vector<std::uint32_t> owner_;       // by page
  std::vector<std::uint32_t> first_page_;  // by flow
  std::vector<std::uint32_t> left_;        // pages of the flow that are not placed
  std::vector<std::uint32_t> resent_;      // packets of the flow that were sent again
  std::vector<std::uint64_t> placed_, lost_;
  std::unordered_map<std::uint64_t, Nanos> lost_at_;  // looked up by page only, never walked
  LatencyHistogram recovery_;
};

}  // namespace metaroce::sim
