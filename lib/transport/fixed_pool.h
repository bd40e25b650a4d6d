// Objects of one kind that are taken and given back: the bounded pools of the roles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "transport/send_stream.h"

namespace metaroce {

// Fixed set of objects with a free list: allocated at start, bounded, O(1). Memory is not touched
// before it is taken, so a pool may be as large as the worst case; what take() gives holds
// anything.
template <typename T>
class FixedPool {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

 public:
  explicit FixedPool(std::uint32_t n)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(n * sizeof(T))),
        next_(std::make_unique_for_overwrite<std::uint32_t[]>(n)),
        items_(reinterpret_cast<T*>(memory_.get())),
        size_(n) {}
  [[nodiscard]] std::uint32_t take() {
    std::uint32_t i = free_;
    if (i != kNil) {
      free_ = next_[i];
    } else if (fresh_ < size_) {
      i = fresh_++;
    } else {
      return kNil;
    }
    ++used_;
    return i;
  }
  void give(std::uint32_t i) {
    next_[i] = free_;
    free_ = i;
    --used_;
  }
  T& operator[](std::uint32_t i) { return items_[i]; }
  const T& operator[](std::uint32_t i) const { return items_[i]; }
  [[nodiscard]] std::uint32_t used() const { return used_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  // Those in [0, touched()) were taken once at least: what lies behind is not initialised.
  [[nodiscard]] std::uint32_t touched() const { return fresh_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<std::uint32_t[]> next_;
  T* items_;
  std::uint32_t size_, fresh_ = 0;  // taken once, so far
  std::uint32_t free_ = kNil, used_ = 0;
};

}  // namespace metaroce
