// The clock of a simulation: events in (time, insertion) order.
//
// A calendar queue. Almost all events of a fabric lie within a few microseconds of now, so they go
// into a ring of slots of 512 ps, each an unordered list; two levels of bitmap find the next slot
// that holds something. A slot whose turn has come moves into `ready_`, sorted, from which events
// leave one after the other; what is scheduled into that slot afterwards is inserted there. What
// lies beyond the ring
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
  EventQueue() : slots_(kSlots, kNil), ready_(64) {}

  // An event in the past happens now.
  void schedule(Picos at, std::uint8_t kind, std::uint32_t a, std::uint32_t b = 0) {
    if (at < now_) at = now_;
    const Picos slot = at >> kSlotShift;
    if (slot - now_slot_ >= kSlots) return schedule_far(at, kind, a, b);
    ++near_;
    if (slot <= ready_slot_ && sorted()) return insert_ready(at, kind, a, b);
    push(at, kind, a, b);
  }

  // The next event with at <= limit, in (time, insertion) order; now() becomes its time.
  bool pop(Event& out, Picos limit) {
    if (!sorted() && !sort_next(limit)) return false;
    const Ready& r = ready_[ready_next_];
    const Picos at = time_of(r);
    if (at > limit) return false;
    ++ready_next_;
    out = {at, static_cast<std::uint8_t>(r.key), r.a, r.b};
    --near_;
    now_ = at;
    if (now_slot_ != ready_slot_) enter_slot(ready_slot_);
    return true;
  }

  // Something of an event that comes soon, for prefetching: false when the one `ahead` of the next
  // is in a later slot.
  bool soon(std::size_t ahead, std::uint8_t& kind, std::uint32_t& a) const {
    if (ready_next_ + ahead >= ready_end_) return false;
    kind = static_cast<std::uint8_t>(ready_[ready_next_ + ahead].key);
    a = ready_[ready_next_ + ahead].a;
    return true;
  }
  // Time of the next event, kNever without one.
  [[nodiscard]] Picos next() const {
    if (sorted()) return time_of(ready_[ready_next_]);
    if (near_ == 0) return far_next_;
    const std::uint32_t index = first_slot();
    std::uint32_t first = 1U << kSlotShift;
    for (std::uint32_t id = slots_[index]; id != kNil; id = nodes_[id].next)
      first = std::min<std::uint32_t>(first, nodes_[id].offset);
    return (slot_at(index) << kSlotShift) + first;
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
    std::uint32_t a, b;
    std::uint32_t next;
    std::uint16_t offset;  // of its time in the slot
    std::uint8_t kind;
  };
  static_assert(sizeof(Node) == 16);
  struct Ready {
    std::uint64_t key;  // from the top: offset in the slot (9 bits), order of insertion, kind (8)
    std::uint32_t a, b;
  };
  static_assert(kSlotShift == 9, "layout of Ready::key");
  static std::uint64_t key_of(Picos at, std::uint64_t order, std::uint8_t kind) {
    return (static_cast<std::uint64_t>(at) & ((1U << kSlotShift) - 1)) << 55 | order << 8 | kind;
  }
  [[nodiscard]] Picos time_of(const Ready& r) const {
    return (ready_slot_ << kSlotShift) + static_cast<Picos>(r.key >> 55);
  }
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

  // Lists are last in, first out.
  void push(Picos at, std::uint8_t kind, std::uint32_t a, std::uint32_t b) {
    if (free_ == kNil) grow();
    const std::uint32_t id = free_;
    Node& node = nodes_[id];
    free_ = node.next;
    const std::uint32_t index = static_cast<std::uint32_t>(at >> kSlotShift) & (kSlots - 1);
    std::uint32_t& head = slots_[index];
    node = {a, b, head, static_cast<std::uint16_t>(at & ((1 << kSlotShift) - 1)), kind};
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
  [[nodiscard]] bool sorted() const { return ready_next_ < ready_end_; }
  // Sorts the next slot; false when it begins behind the limit.
  bool sort_next(Picos limit) {
    if (near_ == 0) {
      if (far_next_ == kNever || far_next_ > limit) return false;
      move_to(far_next_);
    }
    const std::uint32_t index = first_slot();
    const Picos slot = slot_at(index);
    if (slot << kSlotShift > limit) return false;
    sort_slot(index, slot);
    return true;
  }
  [[nodiscard]] Picos slot_at(std::uint32_t index) const {
    return now_slot_ + ((index - static_cast<std::uint32_t>(now_slot_)) & (kSlots - 1));
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
    if (now_slot_ != t >> kSlotShift) enter_slot(t >> kSlotShift);
  }
  void enter_slot(Picos slot) {
    now_slot_ = slot;
    if (slot >= pull_slot_) pull_far();
  }
  // The ring's window reaches the first event of the heap from this slot on.
  void note_far() {
    far_next_ = far_.empty() ? kNever : far_.front().at;
    pull_slot_ = far_next_ == kNever ? kNever : (far_next_ >> kSlotShift) - kSlots + 1;
  }
  void schedule_far(Picos at, std::uint8_t kind, std::uint32_t a, std::uint32_t b);
  void pull_far();
  void sort_slot(std::uint32_t index, Picos slot);
  void insert_ready(Picos at, std::uint8_t kind, std::uint32_t a, std::uint32_t b);
  void grow();

  Picos now_ = 0, now_slot_ = 0, far_next_ = kNever, pull_slot_ = kNever;
  std::uint32_t near_ = 0, free_ = kNil;
  std::array<std::uint64_t, 2> summary_{};
  std::array<std::uint64_t, kWords> bits_{};
  std::vector<std::uint32_t> slots_;  // first node
  std::vector<Ready> ready_;          // [ready_next_, ready_end_): sorted
  std::size_t ready_next_ = 0, ready_end_ = 0;
  Picos ready_slot_ = -1;
  std::uint64_t ready_order_ = 0;
  std::vector<Node> nodes_;
  std::vector<Far> far_;
  std::uint64_t far_order_ = 0;
};

}  // namespace metaroce::fabric
