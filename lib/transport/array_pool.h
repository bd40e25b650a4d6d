// Arrays of one length, with a free list: allocated at start, bounded, O(1). As with FixedPool,
// memory is not touched before it is taken, and what take() gives holds anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace metaroce {

template <typename T>
class ArrayPool {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

 public:
  // `n` arrays of `length` elements.
  ArrayPool(std::uint32_t n, std::uint32_t length)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(std::size_t{n} * length * sizeof(T))),
        next_(std::make_unique_for_overwrite<std::uint32_t[]>(n)),
        items_(reinterpret_cast<T*>(memory_.get())),
        length_(length),
        size_(n) {}
  // nullptr: none is free.
  [[nodiscard]] T* take() {
    std::uint32_t i = free_;
    if (i != kNone) {
      free_ = next_[i];
    } else if (fresh_ < size_) {
      i = fresh_++;
    } else {
      return nullptr;
    }
    ++used_;
    return items_ + std::size_t{i} * length_;
  }
  void give(const T* a) {
    const std::uint32_t i = index(a);
    next_[i] = free_;
    free_ = i;
    --used_;
  }
  [[nodiscard]] const T* at(std::uint32_t i) const { return items_ + std::size_t{i} * length_; }
  // Which one `a` is, in [0, size()): low numbers first.
  [[nodiscard]] std::uint32_t index(const T* a) const {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(a - items_) / length_);
  }
  [[nodiscard]] std::uint32_t used() const { return used_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  // Those in [0, touched()) were taken once at least.
  [[nodiscard]] std::uint32_t touched() const { return fresh_; }
  [[nodiscard]] std::uint32_t length() const { return length_; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<std::uint32_t[]> next_;
  T* items_;
  std::uint32_t length_, size_;
  std::uint32_t fresh_ = 0, free_ = kNone, used_ = 0;
};

}  // namespace metaroce
