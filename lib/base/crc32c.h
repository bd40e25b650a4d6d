// CRC32C (Castagnoli, reflected 0x82f63b78), as in iSCSI (RFC 3720 B.4).
#pragma once

#include <cstddef>
#include <cstdint>

namespace metaroce {

// Continues `crc` over `n` bytes; start with 0. Result is the finished (inverted) value, and
// may be passed on as `crc` for the next piece.
std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t n);

// The same by table, for processors without the instruction. Public so that a test can compare
// the two on any machine.
std::uint32_t crc32c_portable(std::uint32_t crc, const void* data, std::size_t n);

}  // namespace metaroce
