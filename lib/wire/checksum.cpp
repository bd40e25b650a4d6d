// The Internet checksum (RFC 1071) over long buffers: software's answer to ports without checksum
// offload, up to 4 KiB per packet in both directions, so it is worth two versions.
//
// Both add 32-bit words as they lie in memory into 64-bit lanes; the one's-complement sum does
// not depend on the byte order, so one swap at the end replaces one per word. A lane overflows
// after 2^32 words, far beyond a packet.
#include <bit>

#include "wire/net.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace metaroce::wire {
namespace {

template <typename T>
std::uint64_t load(const std::uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

// Sum of native words.
std::uint64_t sum_words(const std::uint8_t* p, std::size_t n) {
  std::uint64_t a = 0, b = 0;
  for (; n >= 16; p += 16, n -= 16) {
    a += load<std::uint32_t>(p) + load<std::uint32_t>(p + 8);
    b += load<std::uint32_t>(p + 4) + load<std::uint32_t>(p + 12);
  }
  for (; n >= 4; p += 4, n -= 4) a += load<std::uint32_t>(p);
  if (n >= 2) {
    a += load<std::uint16_t>(p);
    p += 2;
    n -= 2;
  }
  if (n != 0) {
    const std::uint8_t last[2] = {*p, 0};
    a += load<std::uint16_t>(last);
  }
  return a + b;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) std::uint64_t sum_words_avx2(const std::uint8_t* p, std::size_t n) {
  const __m256i low = _mm256_set1_epi64x(0xffffffff);
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (; n >= 64; p += 64, n -= 64) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
    a = _mm256_add_epi64(a, _mm256_and_si256(x, low));
    b = _mm256_add_epi64(b, _mm256_srli_epi64(x, 32));
    c = _mm256_add_epi64(c, _mm256_and_si256(y, low));
    d = _mm256_add_epi64(d, _mm256_srli_epi64(y, 32));
  }
  a = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
  alignas(32) std::uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), a);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3] + sum_words(p, n);
}
#endif

std::uint16_t fold_native(std::uint64_t s) {
  s = (s & 0xffffffff) + (s >> 32);
  s = (s & 0xffffffff) + (s >> 32);
  s = (s & 0xffff) + (s >> 16);
  s = (s & 0xffff) + (s >> 16);
  return static_cast<std::uint16_t>(s);
}

}  // namespace

std::uint64_t checksum_add(std::uint64_t sum, const std::uint8_t* p, std::size_t n) {
  std::uint64_t s;
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  s = n >= 128 && avx2 ? sum_words_avx2(p, n) : sum_words(p, n);
#else
  s = sum_words(p, n);
#endif
  std::uint16_t folded = fold_native(s);
  if constexpr (std::endian::native == std::endian::little) folded = __builtin_bswap16(folded);
  return sum + folded;
}

std::uint16_t checksum_fold(std::uint64_t sum) { return fold_native(sum); }

}  // namespace metaroce::wire
