#include "metaroce-perf/pattern.h"

#include <bit>
#include <cstring>

#include "base/rng.h"

namespace metaroce::perf {
namespace {

static_assert(std::endian::native == std::endian::little);

inline std::uint64_t word(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t x = (key + index) * 0x9e3779b97f4a7c15ULL;
  return x ^ (x >> 32);
}

}  // namespace

std::uint64_t pattern_key(std::uint64_t seed, unsigned direction, std::uint32_t round,
                          std::uint32_t stream, std::uint64_t message) {
  const std::uint64_t where =
      (std::uint64_t{direction} << 63) ^ (std::uint64_t{round} << 32) ^ stream;
  return mix64(mix64(seed ^ mix64(where)) ^ message);
}

std::uint8_t pattern_byte(std::uint64_t key, std::uint64_t offset) {
  return static_cast<std::uint8_t>(word(key, offset / 8) >> (offset % 8 * 8));
}

void fill_pattern(std::uint64_t key, std::uint8_t* data, std::size_t length) {
  const std::size_t words = length / 8;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t w = word(key, i);
    std::memcpy(data + i * 8, &w, 8);
  }
  if (length % 8) {
    const std::uint64_t w = word(key, words);
    std::memcpy(data + words * 8, &w, length % 8);
  }
}

std::optional<Mismatch> check_pattern(std::uint64_t key, const std::uint8_t* data,
                                      std::size_t length) {
  const std::size_t words = length / 8;
  constexpr std::size_t kBlock = 64;  // words whose differences are collected before a branch
  std::size_t i = 0;
  for (; i + kBlock <= words; i += kBlock) {
    std::uint64_t difference = 0;
    for (std::size_t j = i; j < i + kBlock; ++j) {
      std::uint64_t w;
      std::memcpy(&w, data + j * 8, 8);
      difference |= w ^ word(key, j);
    }
    if (difference) break;
  }
  for (std::size_t at = i * 8; at < length; ++at) {
    const std::uint8_t expected = pattern_byte(key, at);
    if (data[at] != expected) return Mismatch{at, expected, data[at]};
  }
  return std::nullopt;
}

}  // namespace metaroce::perf
