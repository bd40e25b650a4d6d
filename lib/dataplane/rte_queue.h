// rte_ring (single producer, single consumer, elements of any size) behind the interface that the
// transport's roles expect of a queue. Memory on the given NUMA socket.
#pragma once

#include <bit>
#include <cstdint>
#include <new>
#include <type_traits>

#include <rte_malloc.h>
#include <rte_ring_elem.h>

namespace metaroce {

template <typename T>
class RteQueue {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 4 == 0);

 public:
  // Throws std::bad_alloc: queues are made at start, before anything runs.
  explicit RteQueue(std::uint32_t capacity, int socket = SOCKET_ID_ANY) {
    const std::uint32_t count = std::bit_ceil(capacity + 1);  // an rte_ring keeps one slot free
    const auto bytes = rte_ring_get_memsize_elem(sizeof(T), count);
    if (bytes > 0)
      ring_ = static_cast<rte_ring*>(rte_zmalloc_socket("metaroce", static_cast<std::size_t>(bytes),
                                                        RTE_CACHE_LINE_SIZE, socket));
    if (ring_ == nullptr ||
        rte_ring_init(ring_, "metaroce", count, RING_F_SP_ENQ | RING_F_SC_DEQ) != 0)
      throw std::bad_alloc();
  }
  ~RteQueue() { rte_free(ring_); }
  RteQueue(const RteQueue&) = delete;
  RteQueue& operator=(const RteQueue&) = delete;

  bool push(const T& v) {
    return rte_ring_sp_enqueue_elem(ring_, const_cast<T*>(&v), sizeof(T)) == 0;
  }
  [[nodiscard]] std::uint32_t room(std::uint32_t = 1) const { return rte_ring_free_count(ring_); }
  bool pop(T& v) {
    if (has_front_) [[unlikely]] {
      v = front_;
      has_front_ = false;
      return true;
    }
    return rte_ring_sc_dequeue_elem(ring_, &v, sizeof(T)) == 0;
  }
  // Keeps the oldest entry on the consumer's side until it is popped.
  bool peek(T& v) {
    if (!has_front_) has_front_ = rte_ring_sc_dequeue_elem(ring_, &front_, sizeof(T)) == 0;
    if (has_front_) v = front_;
    return has_front_;
  }

 private:
  rte_ring* ring_ = nullptr;
  alignas(64) T front_{};  // consumer's
  bool has_front_ = false;
};

}  // namespace metaroce
