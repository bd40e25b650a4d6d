// Single-producer single-consumer ring of fixed-size trivially copyable entries.
//
// One layout serves three places: queues between roles in simulation and tests, and shared
// memory between the daemon and an application. In the last case the other side is hostile:
//   - each end keeps its own cursor and a cached view of the other's in private memory and reads
//     the foreign cursor once per refill;
//   - a foreign cursor may only move forward, and only over entries that exist: anything else is
//     reported as corrupt(), never followed, and the end stays closed (no room, nothing
//     available), because a peer that lied once cannot be resynchronized;
//   - slot addresses are masked with a private capacity, so that no cursor leads out of bounds;
//   - an entry is copied out before it is looked at, and a compiler fence after the copy keeps the
//     compiler from reading the shared slot a second time (the entry may have changed since).
//
// Ordering: the producer's release store of `head` publishes the slots, the consumer's release
// store of `tail` hands them back; each is read with acquire.
//
// Rejected: storing the capacity in the shared header (a client could change it); asserting in
// stage() that there is room (after a corrupt cursor the answer depends on the foreign side).
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

namespace metaroce {

// What lies in (possibly shared) memory in front of the slots: two cursors, a line apart.
struct RingHeader {
  alignas(64) std::atomic<std::uint32_t> head{0};  // written by the producer
  alignas(64) std::atomic<std::uint32_t> tail{0};  // written by the consumer
};
static_assert(sizeof(RingHeader) == 128);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

template <typename T>
constexpr std::size_t ring_bytes(std::uint32_t capacity) {
  return sizeof(RingHeader) + std::size_t{capacity} * sizeof(T);
}

// Capacity is a power of two (another value counts as the next lower one); all of it is usable.
// Owned by the producing thread.
template <typename T>
class RingProducer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  RingProducer() = default;
  // Continues at the cursors in `h`.
  RingProducer(RingHeader* h, T* slots, std::uint32_t capacity)
      : h_(h),
        slots_(slots),
        cap_(std::bit_floor(capacity)),
        head_(h->head.load(std::memory_order_relaxed)),
        tail_(h->tail.load(std::memory_order_acquire)) {
    if (head_ - tail_ > cap_) corrupt_ = true;
  }

  [[nodiscard]] bool valid() const { return h_ != nullptr; }
  [[nodiscard]] std::uint32_t capacity() const { return cap_; }
  // Free slots at least; refreshes the foreign cursor only when fewer than `want` are known.
  [[nodiscard]] std::uint32_t room(std::uint32_t want = 1) {
    if (corrupt_) return 0;
    if (cap_ - (head_ - tail_) < want) {
      const std::uint32_t tail = h_->tail.load(std::memory_order_acquire);
      if (tail - tail_ > head_ - tail_) {  // behind where it was, or past our head
        corrupt_ = true;
        return 0;
      }
      tail_ = tail;
    }
    return cap_ - (head_ - tail_);
  }
  bool push(const T& v) {
    if (room(1) == 0) return false;
    stage(v);
    publish();
    return true;
  }
  // Writes without making visible; the caller checked room(). publish() ends the batch.
  void stage(const T& v) {
    std::memcpy(static_cast<void*>(slots_ + (head_ & (cap_ - 1))), &v, sizeof(T));
    ++head_;
  }
  void publish() { h_->head.store(head_, std::memory_order_release); }
  [[nodiscard]] bool corrupt() const { return corrupt_; }

 private:
  RingHeader* h_ = nullptr;
  T* slots_ = nullptr;
  std::uint32_t cap_ = 0, head_ = 0, tail_ = 0;
  bool corrupt_ = false;
};

// Owned by the consuming thread; the same capacity as the producer's.
template <typename T>
class RingConsumer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  RingConsumer() = default;
  // Continues at the cursor in `h`.
  RingConsumer(RingHeader* h, const T* slots, std::uint32_t capacity)
      : h_(h),
        slots_(slots),
        cap_(std::bit_floor(capacity)),
        tail_(h->tail.load(std::memory_order_relaxed)),
        head_(tail_) {}

  [[nodiscard]] bool valid() const { return h_ != nullptr; }
  [[nodiscard]] std::uint32_t capacity() const { return cap_; }
  // Entries known to be there; refreshes the foreign cursor only when none is known.
  [[nodiscard]] std::uint32_t available() {
    if (head_ == tail_ && !corrupt_) {
      const std::uint32_t head = h_->head.load(std::memory_order_acquire);
      if (head - tail_ > cap_) {
        corrupt_ = true;
        return 0;
      }
      head_ = head;
    }
    return head_ - tail_;
  }
  // Copies the oldest entry without consuming it; false when empty.
  bool peek(T& out) {
    if (available() == 0) return false;
    std::memcpy(static_cast<void*>(&out), slots_ + (tail_ & (cap_ - 1)), sizeof(T));
    std::atomic_signal_fence(std::memory_order_acq_rel);  // no second read of the slot
    return true;
  }
  // Consumes the oldest entry, after peek(). Does nothing when no entry is known.
  void drop() {
    if (head_ == tail_) return;
    h_->tail.store(++tail_, std::memory_order_release);
  }
  bool pop(T& out) {
    if (!peek(out)) return false;
    drop();
    return true;
  }
  [[nodiscard]] bool corrupt() const { return corrupt_; }

 private:
  RingHeader* h_ = nullptr;
  const T* slots_ = nullptr;
  std::uint32_t cap_ = 0, tail_ = 0, head_ = 0;
  bool corrupt_ = false;
};

// A ring within one process that owns its memory: both ends in one object. The two ends may
// be used by two threads, one each.
template <typename T>
class SpscRing {
 public:
  explicit SpscRing(std::uint32_t capacity_pow2)
      : header_(std::make_unique<RingHeader>()),
        slots_(std::make_unique<T[]>(capacity_pow2)),
        prod_(header_.get(), slots_.get(), capacity_pow2),
        cons_(header_.get(), slots_.get(), capacity_pow2) {}
  bool push(const T& v) { return prod_.push(v); }
  bool pop(T& v) { return cons_.pop(v); }
  bool peek(T& v) { return cons_.peek(v); }
  [[nodiscard]] std::uint32_t room(std::uint32_t want = 1) { return prod_.room(want); }
  [[nodiscard]] bool empty() { return cons_.available() == 0; }
  RingProducer<T>& producer() { return prod_; }
  RingConsumer<T>& consumer() { return cons_; }

 private:
  std::unique_ptr<RingHeader> header_;
  std::unique_ptr<T[]> slots_;
  alignas(64) RingProducer<T> prod_;
  alignas(64) RingConsumer<T> cons_;
};

}  // namespace metaroce
