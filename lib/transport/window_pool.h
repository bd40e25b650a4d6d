// What a stream has only while it is used. Bits of its window, from a bounded pool: they are needed
// while something beyond the cumulative number is to be remembered. All arrays in the pool are
// zero. And rings of what applications posted.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "base/bitmap.h"
#include "transport/array_pool.h"

namespace metaroce {

class WindowPool {
 public:
  // `n` windows of up to `bits`, a power of two of at least 64.
  WindowPool(std::uint32_t n, std::uint32_t bits) : pool_(n, std::max(64U, bits) / 64) {}
  [[nodiscard]] std::uint32_t bits() const { return pool_.length() * 64; }
  // nullptr: none is free.
  std::uint64_t* take() {
    const std::uint32_t fresh = pool_.touched();
    std::uint64_t* w = pool_.take();
    if (w == nullptr) {
      ++refused_;
      return nullptr;
    }
    if (pool_.touched() != fresh) std::fill_n(w, pool_.length(), 0);
    return w;
  }
  void give(std::uint64_t* w, bool zero) {
    if (!zero) std::fill_n(w, pool_.length(), 0);
    pool_.give(w);
  }
  [[nodiscard]] std::uint32_t used() const { return pool_.used(); }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

 private:
  ArrayPool<std::uint64_t> pool_;
  std::uint64_t refused_ = 0;
};

// One stream's window; bits() is the same whether there are any at present.
class PooledWindow {
 public:
  void start(WindowPool& pool, std::uint32_t bits) {
    pool_ = &pool;
    size_ = std::min(std::max(64U, bits), pool.bits());
  }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] bool present() const { return words_ != nullptr; }
  // False: the pool is empty.
  bool take() {
    if (words_ != nullptr) return true;
    words_ = pool_->take();
    if (words_ == nullptr) return false;
    bits_ = SeqWindow::over_zeros({words_, size_ / 64});
    return true;
  }
  void give(bool zero) {
    if (words_ != nullptr) pool_->give(words_, zero);
    words_ = nullptr;
    bits_ = SeqWindow{};
  }
  [[nodiscard]] bool test(std::uint32_t seq) const { return bits_.test(seq); }
  void set(std::uint32_t seq) { bits_.set(seq); }
  std::uint32_t take_run(std::uint32_t seq) { return bits_.take_run(seq); }

 private:
  WindowPool* pool_ = nullptr;
  std::uint64_t* words_ = nullptr;
  SeqWindow bits_;
  std::uint32_t size_ = 0;
};

// A ring indexed by numbers that only grow. It grows with what it holds at most, up to a depth, so
// that an object that is never used costs nothing; entries are posted by applications, not packets.
template <typename T>
class GrowingRing {
 public:
  void start(std::uint32_t depth) {
    items_ = {};
    depth_ = std::bit_ceil(std::max(1U, depth));
  }
  void release() { items_ = {}; }
  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  // Room for [first, end] ? False: the depth, or memory, is at its end.
  bool make_room(std::uint32_t first, std::uint32_t end) {
    const std::uint32_t used = end - first, have = static_cast<std::uint32_t>(items_.size());
    if (used < have) return true;
    if (used >= depth_) return false;
    try {
      std::vector<T> more(std::min(depth_, std::max(kLeast, 2 * have)));
      for (std::uint32_t i = first; i != end; ++i)
        more[i & (more.size() - 1)] = items_[i & (have - 1)];
      items_.swap(more);
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }
  T& operator[](std::uint32_t i) { return items_[i & (items_.size() - 1)]; }
  const T& operator[](std::uint32_t i) const { return items_[i & (items_.size() - 1)]; }

 private:
  static constexpr std::uint32_t kLeast = 8;
  std::vector<T> items_;
  std::uint32_t depth_ = 1;
};

}  // namespace metaroce
