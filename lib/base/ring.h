// Single-producer single-consumer ring of fixed-size trivially copyable entries.
//
// One layout serves three places: queues between roles in simulation and tests, and shared
// memory between the daemon and an application. In the last case the other side is hostile:
// each end keeps its own cursor and a cached view of the other's in private memory (RingProducer,
// RingConsumer), reads the foreign cursor once per refill, and a foreign cursor that claims more
// than the capacity is reported as `corrupt()`, never followed. Entries are copied out before
// they are looked at.
//
// Rejected: storing the capacity in the shared header (a client could change it).
#pragma once

#include <atomic>
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

// Capacity is a power of two; all of it is usable. Owned by the producing thread.
template <typename T>
class RingProducer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  RingProducer() = default;
  RingProducer(RingHeader* h, T* slots, std::uint32_t capacity)
      : h_(h), slots_(slots), cap_(capacity), head_(h->head.load(std::memory_order_relaxed)),
        tail_(h->tail.load(std::memory_order_acquire)) {}

  [[nodiscard]] bool valid() const { return h_ != nullptr; }
  [[nodiscard]] std::uint32_t capacity() const { return cap_; }
  // Free slots at least; refreshes the foreign cursor only when fewer than `want` are known.
  [[nodiscard]] std::uint32_t room(std::uint32_t want = 1) {
    std::uint32_t used = head_ - tail_;
    if (cap_ - used < want) {
      tail_ = h_->tail.load(std::memory_order_acquire);
      used = head_ - tail_;
      if (used > cap_) { corrupt_ = true; tail_ = head_ - cap_; return 0; }
    }
    return cap_ - used;
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

template <typename T>
class RingConsumer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  RingConsumer() = default;
  RingConsumer(RingHeader* h, const T* slots, std::uint32_t capacity)
      : h_(h), slots_(slots), cap_(capacity), tail_(h->tail.load(std::memory_order_relaxed)),
        head_(tail_) {}

  [[nodiscard]] bool valid() const { return h_ != nullptr; }
  [[nodiscard]] std::uint32_t capacity() const { return cap_; }
  [[nodiscard]] std::uint32_t available() {
    if (head_ == tail_) {
      head_ = h_->head.load(std::memory_order_acquire);
      if (head_ - tail_ > cap_) { corrupt_ = true; head_ = tail_; }
    }
    return head_ - tail_;
  }
  // Copies the oldest entry without consuming it; false when empty.
  bool peek(T& out) {
    if (available() == 0) return false;
    std::memcpy(static_cast<void*>(&out), slots_ + (tail_ & (cap_ - 1)), sizeof(T));
    return true;
  }
  void drop() { h_->tail.store(++tail_, std::memory_order_release); }
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
      : header_(std::make_unique<RingHeader>()), slots_(std::make_unique<T[]>(capacity_pow2)),
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
