// Big-endian integers with alignment 1: a wire structure made of these has no padding and can
// lie at any address. Reads and writes compile to one load or store and a byte swap.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace metaroce::wire {

template <typename T>
class BigEndian {
 public:
  constexpr BigEndian() = default;
  BigEndian(T v) { *this = v; }  // NOLINT(google-explicit-constructor): stands for the integer
  BigEndian& operator=(T v) {
    if constexpr (std::endian::native == std::endian::little) v = swap(v);
    std::memcpy(b_, &v, sizeof(T));
    return *this;
  }
  operator T() const {  // NOLINT(google-explicit-constructor)
    T v;
    std::memcpy(&v, b_, sizeof(T));
    if constexpr (std::endian::native == std::endian::little) v = swap(v);
    return v;
  }

 private:
  static T swap(T v) {
    if constexpr (sizeof(T) == 2)
      return __builtin_bswap16(v);
    else if constexpr (sizeof(T) == 4)
      return __builtin_bswap32(v);
    else
      return __builtin_bswap64(v);
  }
  std::uint8_t b_[sizeof(T)]{};
};

using Be16 = BigEndian<std::uint16_t>;
using Be32 = BigEndian<std::uint32_t>;
using Be64 = BigEndian<std::uint64_t>;

// 24 bits; values are taken modulo 2^24.
class Be24 {
 public:
  constexpr Be24() = default;
  Be24& operator=(std::uint32_t v) {
    b_[0] = static_cast<std::uint8_t>(v >> 16);
    b_[1] = static_cast<std::uint8_t>(v >> 8);
    b_[2] = static_cast<std::uint8_t>(v);
    return *this;
  }
  operator std::uint32_t() const {  // NOLINT(google-explicit-constructor)
    return (std::uint32_t{b_[0]} << 16) | (std::uint32_t{b_[1]} << 8) | b_[2];
  }

 private:
  std::uint8_t b_[3]{};
};

}  // namespace metaroce::wire
