// A test link between two hosts in virtual time: delay, rate, loss, duplication, reordering inside
// and across paths, bursts. Deterministic: everything follows from the seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <vector>

#include "base/rng.h"
#include "base/units.h"
#include "wire/packet.h"

namespace metaroce::test {

struct LinkFaults {
  std::uint32_t loss_ppm = 0;  // independent, of every packet in the chosen classes
  bool lose_acks_only = false;
  bool lose_data_only = false;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;  // packet of a path overtaken by its successors
  Nanos reorder_delay = 20 * kMicrosecond;
  Nanos path_skew = 0;             // path p has p * skew more delay
  std::uint32_t burst_ppm = 0;     // a packet starts a burst of losses ...
  std::uint32_t burst_length = 0;  // ... of this many packets of its route
  std::uint32_t ce_ppm = 0;
  std::uint32_t corrupt_ppm = 0;  // one flipped bit
};

struct Frame {
  std::vector<std::uint8_t> bytes;  // UDP payload
  std::uint16_t src_port = 0, dst_port = 0;
  std::uint8_t plane = 0;
  bool ce = false;
  bool control = false;  // class; the link makes nothing of it
};

// One direction.
class Link {
 public:
  Link(std::uint64_t seed, Nanos delay, std::uint32_t gbps)
      : rng_(seed), delay_(delay), gbps_(gbps) {}

  LinkFaults faults;
  std::function<bool(const Frame&)> drop_if;  // besides: true drops
  Nanos extra_delay = 0;                      // of what is sent from now on: a queue

  void send(Nanos now, Frame f) {
    const auto type = static_cast<wire::Type>(f.bytes[0] & 0x0f);
    const bool data = type == wire::Type::kData;
    ++sent;
    Route& r = routes_[f.src_port];
    const bool eligible =
        (!faults.lose_acks_only || type == wire::Type::kAck) && (!faults.lose_data_only || data);
    if (drop_if && drop_if(f)) {
      count_loss(data);
      return;
    }
    if (eligible && r.burst_left != 0) {
      --r.burst_left;
      count_loss(data);
      return;
    }
    if (eligible && faults.burst_ppm != 0 && rng_.chance_ppm(faults.burst_ppm)) {
      r.burst_left = faults.burst_length - 1;
      count_loss(data);
      return;
    }
    if (eligible && rng_.chance_ppm(faults.loss_ppm)) {
      count_loss(data);
      return;
    }
    if (rng_.chance_ppm(faults.ce_ppm)) f.ce = true;
    if (rng_.chance_ppm(faults.corrupt_ppm)) {
      f.bytes[rng_.below(static_cast<std::uint32_t>(f.bytes.size()))] ^=
          static_cast<std::uint8_t>(1U << rng_.below(8));
    }
    const Nanos serialise = static_cast<Nanos>(f.bytes.size() + 66) * 8 / gbps_;
    free_at_ = std::max(free_at_, now) + serialise;
    const std::uint8_t path = f.bytes[2];
    Nanos at = free_at_ + delay_ + extra_delay + path * faults.path_skew;
    if (faults.reorder_ppm != 0 && rng_.chance_ppm(faults.reorder_ppm)) {
      at += faults.reorder_delay;
      ++reordered;
    } else {
      at = std::max(at, r.last + 1);
      r.last = at;
    }
    if (rng_.chance_ppm(faults.duplicate_ppm)) {
      ++duplicated;
      queue_.push({at + kMicrosecond, order_++, f});
    }
    queue_.push({at, order_++, std::move(f)});
  }
  [[nodiscard]] Nanos next() const { return queue_.empty() ? kNever : queue_.top().at; }
  bool receive(Nanos now, Frame& out) {
    if (queue_.empty() || queue_.top().at > now) return false;
    out = queue_.top().frame;
    queue_.pop();
    return true;
  }

  std::uint64_t sent = 0, lost = 0, lost_data = 0, duplicated = 0, reordered = 0;

 private:
  struct Item {
    Nanos at;
    std::uint64_t order;
    Frame frame;
    bool operator<(const Item& o) const { return at != o.at ? at > o.at : order > o.order; }
  };
  struct Route {
    Nanos last = 0;
    std::uint32_t burst_left = 0;
  };
  void count_loss(bool data) {
    ++lost;
    lost_data += data ? 1 : 0;
  }

  Rng rng_;
  Nanos delay_;
  std::int64_t gbps_;
  Nanos free_at_ = 0;
  std::uint64_t order_ = 0;
  std::map<std::uint16_t, Route> routes_;
  std::priority_queue<Item> queue_;
};

}  // namespace metaroce::test
