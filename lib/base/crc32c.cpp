// Two implementations behind one function: the SSE4.2 instruction where the CPU has it (three
// interleaved streams hide its latency for long inputs), a byte table elsewhere.
#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace metaroce {
namespace {

constexpr std::uint32_t kPoly = 0x82f63b78U;

constexpr auto kTable = [] {
  std::array<std::uint32_t, 256> t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1U) != 0 ? (c >> 1) ^ kPoly : c >> 1;
    t[i] = c;
  }
  return t;
}();

std::uint32_t crc_table(std::uint32_t c, const unsigned char* p, std::size_t n) {
  while (n-- != 0) c = (c >> 8) ^ kTable[(c ^ *p++) & 0xff];
  return c;
}

#if defined(__x86_64__)
// Appending `kLane` zero bytes to a CRC is linear in its bits: a 4 x 256 table applies it.
constexpr std::size_t kLane = 512;
using Shift = std::array<std::array<std::uint32_t, 256>, 4>;

Shift make_shift() {
  std::array<std::uint32_t, 32> column{};
  const unsigned char zeros[kLane] = {};
  for (unsigned b = 0; b < 32; ++b) column[b] = crc_table(1U << b, zeros, kLane);
  Shift s{};
  for (unsigned byte = 0; byte < 4; ++byte)
    for (unsigned v = 0; v < 256; ++v)
      for (unsigned b = 0; b < 8; ++b)
        if ((v >> b) & 1U) s[byte][v] ^= column[byte * 8 + b];
  return s;
}

std::uint32_t shift_lane(const Shift& s, std::uint32_t c) {
  return s[0][c & 0xff] ^ s[1][(c >> 8) & 0xff] ^ s[2][(c >> 16) & 0xff] ^ s[3][c >> 24];
}

std::uint64_t load64(const unsigned char* p) {
  std::uint64_t v;
  std::memcpy(&v, p, 8);
  return v;
}

__attribute__((target("sse4.2"))) std::uint32_t crc_hw(std::uint32_t c32, const unsigned char* p,
                                                       std::size_t n) {
  static const Shift shift = make_shift();
  std::uint64_t c = c32;
  while (n >= 3 * kLane) {
    std::uint64_t c1 = 0, c2 = 0;
    for (std::size_t i = 0; i < kLane; i += 8) {
      c = _mm_crc32_u64(c, load64(p + i));
      c1 = _mm_crc32_u64(c1, load64(p + kLane + i));
      c2 = _mm_crc32_u64(c2, load64(p + 2 * kLane + i));
    }
    c = shift_lane(shift, static_cast<std::uint32_t>(c)) ^ static_cast<std::uint32_t>(c1);
    c = shift_lane(shift, static_cast<std::uint32_t>(c)) ^ static_cast<std::uint32_t>(c2);
    p += 3 * kLane;
    n -= 3 * kLane;
  }
  for (; n >= 8; n -= 8, p += 8) c = _mm_crc32_u64(c, load64(p));
  auto r = static_cast<std::uint32_t>(c);
  while (n-- != 0) r = _mm_crc32_u8(r, *p++);
  return r;
}
#endif

}  // namespace

std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t n) {
#if defined(__x86_64__)
  static const bool hw = __builtin_cpu_supports("sse4.2") != 0;
  if (hw) return ~crc_hw(~crc, static_cast<const unsigned char*>(data), n);
#endif
  return crc32c_portable(crc, data, n);
}

std::uint32_t crc32c_portable(std::uint32_t crc, const void* data, std::size_t n) {
  return ~crc_table(~crc, static_cast<const unsigned char*>(data), n);
}

}  // namespace metaroce
