// Two bit sets over sequence numbers.
//   SackVector   256 bits relative to a moving base: bit i = base + i. Shifts on advance.
//   SeqWindow    a power-of-two ring of bits indexed by sequence: advances without moving bits.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <span>

namespace metaroce {

class SackVector {
 public:
  static constexpr unsigned kBits = 256;

  [[nodiscard]] constexpr bool test(unsigned i) const {
    return i < kBits && ((w_[i / 64] >> (i % 64)) & 1U) != 0;
  }
  // A bit beyond the vector cannot be represented and is ignored: to the sender of the packet it
  // stays unacknowledged, which is always safe.
  constexpr void set(unsigned i) {
    if (i < kBits) w_[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  constexpr void clear() { w_ = {}; }
  [[nodiscard]] constexpr bool any() const { return (w_[0] | w_[1] | w_[2] | w_[3]) != 0; }
  [[nodiscard]] constexpr unsigned count() const {
    unsigned n = 0;
    for (auto x : w_) n += static_cast<unsigned>(std::popcount(x));
    return n;
  }
  // Number of set bits before the first clear one.
  [[nodiscard]] constexpr unsigned leading_ones() const {
    for (unsigned k = 0; k < 4; ++k) {
      if (~w_[k] != 0) return k * 64 + static_cast<unsigned>(std::countr_one(w_[k]));
    }
    return kBits;
  }
  // Index of the highest set bit, or -1.
  [[nodiscard]] constexpr int highest() const {
    for (int k = 3; k >= 0; --k) {
      if (w_[static_cast<unsigned>(k)] != 0)
        return k * 64 + 63 - std::countl_zero(w_[static_cast<unsigned>(k)]);
    }
    return -1;
  }
  // Moves the base forward by n: bit i becomes what bit i + n was.
  constexpr void advance(unsigned n) {
    if (n == 0) return;
    if (n >= kBits) {
      clear();
      return;
    }
    const unsigned words = n / 64, bits = n % 64;
    for (unsigned k = 0; k < 4; ++k) {
      const std::uint64_t lo = k + words < 4 ? w_[k + words] : 0;
      const std::uint64_t hi = k + words + 1 < 4 ? w_[k + words + 1] : 0;
      w_[k] = bits == 0 ? lo : (lo >> bits) | (hi << (64 - bits));
    }
  }
  [[nodiscard]] constexpr const std::array<std::uint64_t, 4>& words() const { return w_; }
  [[nodiscard]] constexpr std::array<std::uint64_t, 4>& words() { return w_; }
  constexpr bool operator==(const SackVector&) const = default;

 private:
  std::array<std::uint64_t, 4> w_{};
};

// Bits for sequence numbers [base, base + bits). The storage is the owner's and its size a
// power of two >= 64; a bit's place is its sequence number modulo the size. The owner keeps `base`
// and admits only sequence numbers inside the window; without storage, bits() is 0 and none is.
class SeqWindow {
 public:
  constexpr SeqWindow() = default;
  // Takes storage of `words.size()` 64-bit words (a power of two) and clears it.
  constexpr explicit SeqWindow(std::span<std::uint64_t> words)
      : w_(words.data()), mask_(static_cast<std::uint32_t>(words.size() * 64 - 1)) {
    assert(words.empty() || std::has_single_bit(words.size()));
    for (auto& x : words) x = 0;
  }
  // The same over storage that is all zero already.
  static constexpr SeqWindow over_zeros(std::span<std::uint64_t> words) {
    SeqWindow s;
    s.w_ = words.data();
    s.mask_ = static_cast<std::uint32_t>(words.size() * 64 - 1);
    return s;
  }
  [[nodiscard]] constexpr std::uint32_t bits() const { return mask_ + 1; }
  [[nodiscard]] constexpr bool test(std::uint32_t seq) const {
    const std::uint32_t i = seq & mask_;
    return ((w_[i / 64] >> (i % 64)) & 1U) != 0;
  }
  constexpr void set(std::uint32_t seq) {
    const std::uint32_t i = seq & mask_;
    w_[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  // Clears and steps over the run of set bits that starts at `seq`; returns its length.
  constexpr std::uint32_t take_run(std::uint32_t seq) {
    std::uint32_t n = 0;
    while (n < bits()) {
      const std::uint32_t i = (seq + n) & mask_;
      const std::uint64_t word = w_[i / 64] >> (i % 64);
      const auto run = static_cast<std::uint32_t>(std::countr_one(word));
      if (run == 0) break;
      const std::uint64_t ones = run == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << run) - 1;
      w_[i / 64] &= ~(ones << (i % 64));
      n += run;
      if (run < 64 - i % 64) break;
    }
    return n;
  }

 private:
  std::uint64_t* w_ = nullptr;
  std::uint32_t mask_ = ~std::uint32_t{0};
};

}  // namespace metaroce
