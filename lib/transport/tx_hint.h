// What receivers' rate hints allow a connection. tx-owned. [MR-8.4.6]
//
// A hint is of one plane: the port on which the peer receives. The newest by the ACK's timestamp
// wins, whatever order ACKs arrive in, and it expires: a peer that went quiet must not hold us
// down. "None" is a hint too: it ends the one before. A plane without a hint counts with its share
// of the line rate, or a hint on one plane would limit the others.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "transport/events.h"

namespace metaroce {

class TxHint {
 public:
  // True: what is allowed may have changed, call update().
  bool on_ack(unsigned plane, const PathAck& a, Nanos now, Nanos expires) {
    Plane& p = planes_[plane];
    const bool fresh = p.expires > now;
    if (fresh && a.sent < p.sent) return false;
    const bool same = (fresh ? p.rate : 0U) == a.rate_hint;
    p.rate = a.rate_hint & kRateMask;
    p.epoch = a.hint_epoch;
    p.sent = a.sent;
    p.expires = expires;
    // An extended life may lie behind next_expiry_: update() then finds it alive.
    return !same;
  }
  void update(Nanos now, unsigned planes, Mbps line_rate) {
    std::uint64_t sum = 0;
    bool any = false;
    next_expiry_ = kNever;
    for (unsigned i = 0; i < planes; ++i) {
      const Plane& p = planes_[i];
      if (p.rate == 0 || p.expires <= now) {
        sum += line_rate / planes;
        continue;
      }
      any = true;
      sum += p.rate;
      next_expiry_ = std::min(next_expiry_, p.expires);
    }
    total_ = any ? static_cast<Mbps>(std::min<std::uint64_t>(sum, UINT32_MAX)) : 0;
  }
  // Mb/s over all planes; 0 = no hint.
  [[nodiscard]] Mbps total() const { return total_; }
  [[nodiscard]] Nanos next_expiry() const { return next_expiry_; }
  [[nodiscard]] Mbps plane(unsigned i) const { return planes_[i].rate; }
  [[nodiscard]] std::uint8_t epoch(unsigned i) const { return planes_[i].epoch; }

 private:
  static constexpr std::uint32_t kRateMask = (1U << 24) - 1;
  struct Plane {
    Nanos expires = 0;
    WireTime sent;
    std::uint32_t rate : 24 = 0;
    std::uint32_t epoch : 8 = 0;
  };
  static_assert(sizeof(Plane) == 16);

  std::array<Plane, kMaxPlanes> planes_{};
  Nanos next_expiry_ = kNever;
  Mbps total_ = 0;
};

}  // namespace metaroce
