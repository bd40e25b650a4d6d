// Frames in flight: the encoded header as real bytes, the payload by reference. Three size
// classes, because a DATA header takes 44 bytes and an ACK up to 2 KiB. Buffers never move; the
// pools grow to the largest number of frames that were in flight at once.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace metaroce::sim {

struct FrameInfo {
  // Where the sender read it: an address, never read here. nullptr: none, or padding.
  const std::uint8_t* payload = nullptr;
  std::uint32_t payload_bytes = 0;
  std::uint16_t header_bytes = 0;
  std::uint16_t src_port = 0, dst_port = 0;
  std::uint16_t src_host = 0;
  std::uint8_t plane = 0;
  bool control = false;            // class, as the sender said it by its DSCP
  std::uint16_t transmission = 0;  // of these bytes, from 1; only while losses are listed
};

class FramePool {
 public:
  static constexpr std::uint32_t kMaxHeader = 2048;

  // Header bytes are copied; n <= kMaxHeader.
  std::uint32_t take(const FrameInfo& info, const std::uint8_t* header) {
    const unsigned c = info.header_bytes <= kSizes[0] ? 0 : info.header_bytes <= kSizes[1] ? 1 : 2;
    Pool& p = pools_[c];
    if (p.free.empty()) grow(c);
    const std::uint32_t i = p.free.back();
    p.free.pop_back();
    std::uint8_t* at = slot(c, i);
    std::memcpy(at, &info, sizeof info);
    std::memcpy(at + kInfoBytes, header, info.header_bytes);
    ++used_;
    return (i << 2) | c;
  }
  // Another frame with the same bytes.
  std::uint32_t copy(std::uint32_t handle) {
    return take(info(handle), header(handle));  // buffers never move
  }
  void number(std::uint32_t handle, std::uint16_t transmission) {
    FrameInfo now = info(handle);
    now.transmission = transmission;
    std::memcpy(slot(handle & 3, handle >> 2), &now, sizeof now);
  }
  void give(std::uint32_t handle) {
    pools_[handle & 3].free.push_back(handle >> 2);
    --used_;
  }
  [[nodiscard]] const FrameInfo& info(std::uint32_t handle) const {
    return *reinterpret_cast<const FrameInfo*>(slot(handle & 3, handle >> 2));
  }
  [[nodiscard]] const std::uint8_t* header(std::uint32_t handle) const {
    return slot(handle & 3, handle >> 2) + kInfoBytes;
  }
  void prefetch(std::uint32_t handle) const {
    const std::uint8_t* at = slot(handle & 3, handle >> 2);
    __builtin_prefetch(at);
    __builtin_prefetch(at + 64);
  }
  [[nodiscard]] std::uint32_t used() const { return used_; }

 private:
  static constexpr std::uint32_t kInfoBytes = 32;
  static_assert(sizeof(FrameInfo) <= kInfoBytes);
  static constexpr std::array<std::uint32_t, 3> kSizes{96, 480, kMaxHeader};
  static constexpr std::uint32_t kChunk = 1024;  // frames
  struct Pool {
    std::vector<std::unique_ptr<std::uint8_t[]>> chunks;
    std::vector<std::uint32_t> free;
  };
  [[nodiscard]] std::uint8_t* slot(unsigned c, std::uint32_t i) const {
    return pools_[c].chunks[i / kChunk].get() + std::size_t{i % kChunk} * (kInfoBytes + kSizes[c]);
  }
  void grow(unsigned c) {
    Pool& p = pools_[c];
    const auto first = static_cast<std::uint32_t>(p.chunks.size()) * kChunk;
    p.chunks.push_back(
        std::make_unique<std::uint8_t[]>(std::size_t{kChunk} * (kInfoBytes + kSizes[c])));
    p.free.reserve(p.chunks.size() * kChunk);
    for (std::uint32_t i = kChunk; i-- > 0;) p.free.push_back(first + i);
  }

  std::array<Pool, 3> pools_;
  std::uint32_t used_ = 0;
};

}  // namespace metaroce::sim
