// Bits of stream windows, from a bounded pool: a stream has them only while something beyond its
// cumulative number is to be remembered. All arrays in the pool are zero.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

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

}  // namespace metaroce
