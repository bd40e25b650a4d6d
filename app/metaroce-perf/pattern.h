// The content that proves a message right: a function of (key, offset), so that neither end keeps
// a copy, any byte can be checked alone, and a stale, shifted or foreign message does not match.
// One multiplication per 8 bytes: generation must not be what the tool measures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace metaroce::perf {

struct Mismatch {
  std::uint64_t offset = 0;
  std::uint8_t expected = 0, found = 0;
};

// Key of one message. `direction`: 0 from the client, 1 from the server.
std::uint64_t pattern_key(std::uint64_t seed, unsigned direction, std::uint32_t round,
                          std::uint32_t stream, std::uint64_t message);
std::uint8_t pattern_byte(std::uint64_t key, std::uint64_t offset);
void fill_pattern(std::uint64_t key, std::uint8_t* data, std::size_t length);
// The first byte that differs.
std::optional<Mismatch> check_pattern(std::uint64_t key, const std::uint8_t* data,
                                      std::size_t length);

}  // namespace metaroce::perf
