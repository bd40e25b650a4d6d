// The clock of a simulation: events in (time, insertion) order.
//
// A calendar queue. Almost all events of a fabric lie within a few microseconds of now, so they go
// into a ring of slots of 512 ps, each a short list sorted by time; two levels of bitmap find the
// next slot that holds something. What lies beyond the ring (timers, faults, long links) waits in a
// binary heap and moves into the ring as soon as the ring's window reaches it, before anything
// else can be scheduled there: that keeps insertion order among equal times.
//
// Invariants: every event of the ring is in [now, now + window), every event of the heap at or
// behind it; a slot's bit is set exactly when its list is not empty. One thread.
//
// Rejected: a heap for everything (3-4 times slower with 10,000 events); slots that are not sorted
// (a run would depend on how the slots are cut).
#pragma once

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
  EventQueue() : slots_(kSlots) {}

  // An event in the past happens now.
  void schedule(Picos at, std::uint8_t kind, std::uint32_t a, std::uint32_t b = 0) {
    if (at < now_) at = now_;
    const Picos slot = at >> kSlotShift;
    if (slot - now_slot_ >= kSlots) return schedule_far(at, kind, a, b);
    insert(slot, take_node(at, kind, a, b));
  }

  // The next event with at <= limit, in (time, insertion) order; now() becomes its time.
  bool pop(Event& out, Picos limit) {
    if (near_ == 0) {
      if (far_next_ == kNever || far_next_ > limit) return false;
      move_to(far_next_);
    }
    const std::uint32_t index = first_slot();
    Slot& slot = slots_[index];
    const std::uint32_t id = slot.head;
    Node& node = nodes_[id];
    if (node.at > limit) return false;
    out = {node.at, node.kind, node.a, node.b};
    slot.head = node.next;
    if (slot.head == kNil) clear_bit(index);
    node.next = free_;
    free_ = id;
    --near_;
    move_to(out.at);
    return true;
  }

  // Time of the next event, kNever without one.
  [[nodiscard]] Picos next() const {
    return near_ == 0 ? far_next_ : nodes_[slots_[first_slot()].head].at;
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
  struct Slot {
    std::uint32_t head = kNil, tail = kNil;  // tail is valid while head is
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
  void insert(Picos absolute_slot, std::uint32_t id) {
    const std::uint32_t index = static_cast<std::uint32_t>(absolute_slot) & (kSlots - 1);
    Slot& slot = slots_[index];
    ++near_;
    if (slot.head == kNil) {
      slot.head = slot.tail = id;
      bits_[index / 64] |= std::uint64_t{1} << (index % 64);
      summary_[index / 4096] |= std::uint64_t{1} << (index / 64 % 64);
    } else if (nodes_[slot.tail].at <= nodes_[id].at) {
      nodes_[slot.tail].next = id;
      slot.tail = id;
    } else {
      std::uint32_t* at = &slot.head;
      while (nodes_[*at].at <= nodes_[id].at) at = &nodes_[*at].next;
      nodes_[id].next = *at;
      *at = id;
    }
  }
  void clear_bit(std::uint32_t index) {
    std::uint64_t& word = bits_[index / 64];
    word &= ~(std::uint64_t{1} << (index % 64));
    if (word == 0) summary_[index / 4096] &= ~(std::uint64_t{1} << (index / 64 % 64));
  }
  // Needs near_ > 0.
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
  void grow();

  Picos now_ = 0, now_slot_ = 0, far_next_ = kNever;
  std::uint32_t near_ = 0, free_ = kNil;
  std::array<std::uint64_t, 2> summary_{};
  std::array<std::uint64_t, kWords> bits_{};
  std::vector<Slot> slots_;
  std::vector<Node> nodes_;
  std::vector<Far> far_;
  std::uint64_t far_order_ = 0;
};

}  // namespace metaroce::fabric
