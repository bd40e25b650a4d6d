// The clock of a simulation: events in (time, insertion) order.
//
// A calendar queue. Almost all events of a fabric lie within a few microseconds of now, so they go
// into a ring of slots of 512 ps, each an unordered list; two levels of bitmap find the next slot
// that holds something. A slot whose turn has come is sorted into `ready_`, from which events
// leave; what is scheduled into that slot afterwards is inserted there. What lies beyond the ring
// (timers, faults, long links) waits in a binary heap and moves into the ring as soon as the ring's
// window reaches it, before anything else can be scheduled there: that keeps insertion order among
// equal times.
//
// Invariants: every event of the ring is in [now, now + window), every event of the heap at or
// behind it; a slot's bit is set exactly when its list is not empty; while `ready_` holds events,
// they are the earliest, and their slot's list is empty. One thread.
//
// Rejected: a heap for everything (3-4 times slower with 10,000 events); sorted lists in the slots
// (a thousand hosts put a hundred events into each).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace metaroce::fabric {

using Picos = std::int64_t;  // virtual time of the fabric
inline constexpr Picos kPicosPerNano = 1000;

struct Event {
  Picos at;
  std::uint8_t kind;  // [0, 16): the fabric's; from 16 up: the owner's
  std::uint32_t a, b;
};
inline constexpr std::uint8_t kFirstOwnerKind = 16;

class EventQueue {
 public:
  EventQueue() : slots_(kSlots, kNil) {}

  // An event in the past happens now.
  void schedule(Picos at, std::uint8_t kind, std::uint32_t a, std::uint32_t b = 0) {
    if (at < now_) at = now_;
    const Picos slot = at >> kSlotShift;
    if (slot - now_slot_ >= kSlots) return schedule_far(at, kind, a, b);
    const std::uint32_t id = take_node(at, kind, a, b);
    ++near_;
    if (slot <= ready_slot_ && sorted()) return insert_ready(slot, id);
    push(slot, id);
  }

  // The next event with at <= limit, in (time, insertion) order; now() becomes its time.
  bool pop(Event& out, Picos limit) {
    if (!sorted() && !sort_next(limit)) return false;
    const std::uint32_t id = ready_[ready_next_].node;
    Node& node = nodes_[id];
    if (node.at > limit) return false;
    ++ready_next_;
    out = {node.at, node.kind, node.a, node.b};
    node.next = free_;
    free_ = id;
    --near_;
    move_to(out.at);
    return true;
  }

  // Time of the next event, kNever without one.
  [[nodiscard]] Picos next() const {
    if (sorted()) return nodes_[ready_[ready_next_].node].at;
    if (near_ == 0) return far_next_;
    Picos first = kNever;
    for (std::uint32_t id = slots_[first_slot()]; id != kNil; id = nodes_[id].next)
      first = std::min(first, nodes_[id].at);
    return first;
  }
  [[nodiscard]] Picos now() const { return now_; }
  // Lets time pass without an event; never past the next one.
  void advance_to(Picos t) {
    const Picos limit = next();
    if (t > limit) t = limit;
    if (t > now_) move_to(t);
  }
  [[nodiscard]] std::size_t size() const { return near_ + far_.size(); }

 private:
  static constexpr unsigned kSlotShift = 9;
  static constexpr std::uint32_t kSlots = 1U << 13;  // 4.2 us; the ring stays in the L2 cache
  static constexpr std::uint32_t kWords = kSlots / 64;
  static constexpr std::uint32_t kNil = ~std::uint32_t{0};
  static_assert(kWords == 128, "first_slot() knows a summary of two words");

  struct Node {
    Picos at;
    std::uint32_t a, b;
    std::uint32_t next;
    std::uint8_t kind;
  };
  struct Ready {
    std::uint64_t key;  // offset in the slot, then order of insertion
    std::uint32_t node;
  };
  struct Far {
    Picos at;
    std::uint64_t order;
    std::uint32_t a, b;
    std::uint8_t kind;
  };
  struct Later {
    bool operator()(const Far& x, const Far& y) const {
      return x.at != y.at ? x.at > y.at : x.order > y.order;
    }
  };

  std::uint32_t take_node(Picos at, std::uint8_t kind, std::uint32_t a, std::uint32_t b) {
    if (free_ == kNil) grow();
    const std::uint32_t id = free_;
    Node& node = nodes_[id];
    free_ = node.next;
    node = {at, a, b, kNil, kind};
    return id;
  }
  // Lists are last in, first out.
  void push(Picos absolute_slot, std::uint32_t id) {
    const std::uint32_t index = static_cast<std::uint32_t>(absolute_slot) & (kSlots - 1);
    std::uint32_t& head = slots_[index];
    nodes_[id].next = head;
    if (head == kNil) {
      bits_[index / 64] |= std::uint64_t{1} << (index % 64);
      summary_[index / 4096] |= std::uint64_t{1} << (index / 64 % 64);
    }
    head = id;
  }
  void clear_bit(std::uint32_t index) {
    std::uint64_t& word = bits_[index / 64];
    word &= ~(std::uint64_t{1} << (index % 64));
    if (word == 0) summary_[index / 4096] &= ~(std::uint64_t{1} << (index / 64 % 64));
  }
  [[nodiscard]] bool sorted() const { return ready_next_ < ready_.size(); }
  // Sorts the next slot; false when it begins behind the limit.
  bool sort_next(Picos limit) {
    if (near_ == 0) {
      if (far_next_ == kNever || far_next_ > limit) return false;
      move_to(far_next_);
    }
    const std::uint32_t index = first_slot();
    const Picos slot = now_slot_ + ((index - static_cast<std::uint32_t>(now_slot_)) & (kSlots - 1));
    if (slot << kSlotShift > limit) return false;
    sort_slot(index, slot);
    return true;
  }
  // Needs an event in a slot.
  [[nodiscard]] std::uint32_t first_slot() const {
    const std::uint32_t start = static_cast<std::uint32_t>(now_slot_) & (kSlots - 1);
    const std::uint64_t here = bits_[start / 64] >> (start % 64);
    if (here != 0) return start + trailing_zeros(here);
    const std::uint32_t from = (start / 64 + 1) % kWords, half = from / 64;
    std::uint32_t word = 0;
    if (const std::uint64_t s = summary_[half] >> (from % 64); s != 0) {
      word = from + trailing_zeros(s);
    } else if (summary_[half ^ 1] != 0) {
      word = (half ^ 1) * 64 + trailing_zeros(summary_[half ^ 1]);
    } else {
      word = half * 64 + trailing_zeros(summary_[half]);
    }
    return word * 64 + trailing_zeros(bits_[word]);
  }
  static std::uint32_t trailing_zeros(std::uint64_t x) {
    return static_cast<std::uint32_t>(std::countr_zero(x));
  }
  void move_to(Picos t) {
    now_ = t;
    now_slot_ = t >> kSlotShift;
    if (far_next_ < window_end()) pull_far();
  }
  // First time that the ring cannot hold; kNever in the far future of a clock of 2^63 ps.
  [[nodiscard]] Picos window_end() const {
    constexpr Picos last = (kNever >> kSlotShift) - kSlots;
    return now_slot_ > last ? kNever : (now_slot_ + kSlots) << kSlotShift;
  }
  void schedule_far(Picos at, std::uint8_t kind, std::uint32_t a, std::uint32_t b);
  void pull_far();
  void sort_slot(std::uint32_t index, Picos slot);
  void insert_ready(Picos slot, std::uint32_t id);
  void grow();

  Picos now_ = 0, now_slot_ = 0, far_next_ = kNever;
  std::uint32_t near_ = 0, free_ = kNil;
  std::array<std::uint64_t, 2> summary_{};
  std::array<std::uint64_t, kWords> bits_{};
  std::vector<std::uint32_t> slots_;  // first node
  std::vector<Ready> ready_;          // sorted from ready_next_ on
  std::size_t ready_next_ = 0;
  Picos ready_slot_ = -1;
  std::uint32_t ready_order_ = 0;
  std::vector<Node> nodes_;
  std::vector<Far> far_;
  std::uint64_t far_order_ = 0;
};

}  // namespace metaroce::fabric
