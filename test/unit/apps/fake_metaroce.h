// The C API in one process: contexts of one process exchange bytes through memcpy, at once and in
// order. Enough to run both ends of a tool in two threads, and to break things on purpose. One
// lock for everything; not for measuring.
#pragma once

#include <cstdint>

namespace fake {

struct Faults {
  // Flips the bits of `flip_mask` in one byte of a data message: the flip_message-th (from 0) that
  // is at least flip_min_length long, at offset flip_offset. Counted over Writes and Sends.
  std::int64_t flip_message = -1;
  std::uint64_t flip_min_length = 1, flip_offset = 0;
  std::uint8_t flip_mask = 0x01;
  // Streams of every context die when that many data messages have passed.
  std::int64_t cut_after = -1;
  bool refuse_attach = false;
  std::uint64_t memory_limit = UINT64_MAX;  // bytes that one registration may have
};

void reset(const Faults& faults = {});
void kill_dataplane();     // as if metaroced died
std::uint64_t messages();  // data messages passed (longer than 0)
int open_streams();
int open_regions();
int open_queues();

}  // namespace fake
