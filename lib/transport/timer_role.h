// The timer role: holds at most one deadline per identifier and tells TX when it has passed.
// Owns a hashed wheel: 8,192 slots of 2 us (2^11 ns), 16.8 ms in all; a later deadline stays in its
// slot for another round. The slot is fine enough for a probe timeout of 10 us. Arming, moving and
// cancelling are O(1); poll() visits the slots that time passed. Deadlines fire up to one slot
// late, never early. Passive: one thread calls poll(now).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/units.h"
#include "transport/events.h"
#include "transport/send_stream.h"

namespace metaroce {

class TimerWheel {
 public:
  static constexpr unsigned kTickShift = 11;
  static constexpr std::uint32_t kSlots = 8192;

  explicit TimerWheel(std::uint32_t ids)
      : entries_(std::make_unique_for_overwrite<Entry[]>(ids)), heads_(kSlots, kNil), ids_(ids) {}

  // Replaces the deadline of `id`; kNever cancels. False: no such id.
  bool arm(std::uint32_t id, Nanos deadline, Nanos now) {
    if (id >= ids_) return false;
    while (touched_ <= id) entries_[touched_++].slot = kNil;
    unlink(id);
    if (deadline == kNever) return true;
    if (!started_) {
      cursor_ = tick(now);
      started_ = true;
    }
    Entry& e = entries_[id];
    e.deadline = deadline;
    // Up to the end of its slot, and never in a slot that was visited already.
    const std::int64_t t = std::max(tick(deadline) + 1, cursor_ + 1);
    link(id, static_cast<std::uint32_t>(t) & (kSlots - 1));
    ++armed_;
    return true;
  }
  // Calls expired(id) -> bool for due entries; false stops and keeps the rest for the next call.
  template <typename F>
  void poll(Nanos now, F&& expired) {
    const std::int64_t to = tick(now);
    if (!started_ || armed_ == 0) {
      cursor_ = to;
      started_ = true;
      return;
    }
    // More than a whole round late: one round visits every slot.
    if (to - cursor_ > static_cast<std::int64_t>(kSlots))
      cursor_ = to - static_cast<std::int64_t>(kSlots);
    while (cursor_ < to) {
      const std::uint32_t slot = static_cast<std::uint32_t>(cursor_ + 1) & (kSlots - 1);
      for (std::uint32_t id = heads_[slot]; id != kNil;) {
        const std::uint32_t next = entries_[id].next;
        if (entries_[id].deadline <= now) {
          if (!expired(id)) return;
          unlink(id);
        }
        id = next;
      }
      ++cursor_;
    }
  }
  [[nodiscard]] std::uint32_t armed() const { return armed_; }

 private:
  struct Entry {
    Nanos deadline;
    std::uint32_t next, prev, slot;  // slot kNil: not armed, the rest holds anything
  };
  static std::int64_t tick(Nanos t) { return t >> kTickShift; }
  void link(std::uint32_t id, std::uint32_t slot) {
    Entry& e = entries_[id];
    e.slot = slot;
    e.prev = kNil;
    e.next = heads_[slot];
    if (e.next != kNil) entries_[e.next].prev = id;
    heads_[slot] = id;
  }
  void unlink(std::uint32_t id) {
    Entry& e = entries_[id];
    if (e.slot == kNil) return;
    if (e.prev != kNil)
      entries_[e.prev].next = e.next;
    else
      heads_[e.slot] = e.next;
    if (e.next != kNil) entries_[e.next].prev = e.prev;
    e.slot = kNil;
    --armed_;
  }

  // Not touched before an identifier is used: low ones are used first.
  std::unique_ptr<Entry[]> entries_;
  std::vector<std::uint32_t> heads_;
  std::int64_t cursor_ = 0;
  std::uint32_t armed_ = 0, ids_, touched_ = 0;
  bool started_ = false;
};

template <typename Queues>
class TimerRole {
 public:
  TimerRole(std::uint32_t ids, Queues& queues) : q_(queues), wheel_(ids) {}

  void poll(Nanos now) {
    TimerArm a;
    while (q_.tx_to_timer.pop(a)) wheel_.arm(a.id, a.deadline, now);
    wheel_.poll(now, [this](std::uint32_t id) {
      const bool told = q_.timer_to_tx.push(TimerFired{id});
      fired_ += told ? 1 : 0;
      return told;
    });
  }
  [[nodiscard]] std::uint64_t fired() const { return fired_; }

 private:
  Queues& q_;
  TimerWheel wheel_;
  std::uint64_t fired_ = 0;
};

}  // namespace metaroce
