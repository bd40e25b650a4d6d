// Receive side of one path: which pseq arrived, in which epoch, and what the next ACK says of it.
// rx-owned. [MR-2.3]
//
// A ring of 512 bits holds [cum - 256, cum + 256): the upper half is the 256-bit selective
// acknowledgment, the lower half remembers which of the closed numbers really arrived, so that
// a packet that comes after the sender gave it up counts as `late` (reordering inside the path)
// and a second copy of one that arrived does not.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/bitmap.h"
#include "base/serial.h"
#include "base/units.h"
#include "wire/packet.h"

namespace metaroce {

class RxPath {
 public:
  static constexpr std::uint32_t kMaxAhead = 4096;  // plausibility of pseq [MR-4.2.1]

  // [MR-4.2.3]
  enum class Epoch : std::uint8_t { kCurrent, kNext, kOld, kBad };

  void start(PathSeq initial) {
    cum_ = initial;
    highest_ = initial - 1;
  }

  [[nodiscard]] Epoch classify(std::uint8_t epoch) const {
    switch (static_cast<std::uint8_t>(epoch - epoch_)) {
      case 0:
        return Epoch::kCurrent;
      case 1:
        return Epoch::kNext;
      case 0xff:
        return Epoch::kOld;
      default:
        return Epoch::kBad;
    }
  }
  [[nodiscard]] bool plausible(PathSeq pseq) const {
    // A rejected packet does not raise highest_, but its floor raises cum_: thousands of rejects in
    // a row must not leave the sender's numbers behind. Unsigned, because at exactly half the
    // number space a signed distance is negative both ways.
    const PathSeq seen = serial_max(highest_, cum_ - 1);
    return pseq.v - seen.v + kMaxAhead <= 2U * kMaxAhead;
  }
  // The first valid packet of the next epoch: the sender has nothing unresolved from before.
  // [MR-9.3.3]
  void begin_epoch(std::uint8_t epoch, PathSeq pseq, std::uint8_t floor_delta) {
    epoch_ = epoch;
    cum_ = pseq - floor_delta;
    highest_ = cum_ - 1;
    bits_ = {};
    any_ = false;
  }
  // floor_delta closes the holes that the sender abandoned. [MR-2.3.2]
  void raise_floor(PathSeq pseq, std::uint8_t floor_delta) {
    const PathSeq floor = pseq - floor_delta;
    if (floor > cum_) advance(static_cast<std::uint32_t>(floor - cum_));
    absorb();
  }

  enum class Arrival : std::uint8_t { kInOrder, kGap, kFill, kLate, kRepeated };
  // Records that `pseq` arrived and is to be acknowledged. raise_floor() went before. [MR-2.3.3]
  // [MR-2.3.6] [MR-2.3.7]
  Arrival accept(PathSeq pseq, WireTime sent, bool ce, Nanos now) {
    ++received_;
    if (ce) ++ce_packets_;
    if (pseq < cum_ - 256) return Arrival::kRepeated;  // beyond memory: cannot tell, not late
    if (test(pseq)) return Arrival::kRepeated;
    set(pseq);
    Arrival a = Arrival::kInOrder;
    if (pseq > highest_) {
      const PathSeq next = serial_max(highest_ + 1, cum_);
      if (pseq > next) a = Arrival::kGap;
      highest_ = pseq;
      highest_sent_ = sent;
      highest_at_ = now;
      any_ = true;
    } else {
      ++late_;
      a = pseq < cum_ ? Arrival::kLate : Arrival::kFill;
    }
    absorb();
    return a;
  }
  void count_reject() { ++rejects_; }

  [[nodiscard]] bool any() const { return any_; }
  [[nodiscard]] PathSeq cum() const { return cum_; }
  [[nodiscard]] PathSeq highest() const { return highest_; }
  [[nodiscard]] std::uint8_t epoch() const { return epoch_; }
  [[nodiscard]] std::uint16_t late() const { return late_; }
  [[nodiscard]] std::uint32_t received() const { return received_; }
  [[nodiscard]] std::uint32_t ce_packets() const { return ce_packets_; }

  // Bit i = cum + i.
  [[nodiscard]] SackVector sack() const {
    SackVector s;
    const std::uint32_t base = cum_.v;
    for (std::uint32_t k = 0; k < 4; ++k) {
      const std::uint32_t at = (base + 64 * k) & kMask, w = at / 64, b = at % 64;
      s.words()[k] = b == 0 ? bits_[w] : (bits_[w] >> b) | (bits_[(w + 1) % 8] << (64 - b));
    }
    return s;
  }
  // Writes this path's block; returns its bytes (32, or 64 with SACK). [MR-3.6.2] [MR-3.6.3]
  // [MR-3.6.5]
  std::uint32_t write_block(std::uint8_t* out, PathId id, Nanos now) const {
    wire::AckPath b{};
    b.path = id.v;
    b.epoch = epoch_;
    b.cum = cum_.v;
    b.highest = highest_.v;
    b.timestamp_echo = highest_sent_.v;
    const std::uint64_t delay = static_cast<std::uint64_t>(now - highest_at_) >> kWireTimeShift;
    b.ack_delay = any_ && delay < wire::kNoDelaySample ? static_cast<std::uint16_t>(delay)
                                                       : wire::kNoDelaySample;
    b.late = late_;
    b.rejects = rejects_;
    b.ce_packets = ce_packets_;
    b.received_packets = received_;
    const SackVector s = sack();
    if (s.any()) b.flags = wire::kAckSack;
    std::memcpy(out, &b, sizeof b);
    if (!s.any()) return sizeof b;
    // Bit i of the wire is byte i / 8, bit i % 8: little-endian words. [MR-3.6.4]
    for (unsigned i = 0; i < 32; ++i)
      out[sizeof b + i] = static_cast<std::uint8_t>(s.words()[i / 8] >> (8 * (i % 8)));
    return sizeof b + 32;
  }

 private:
  static constexpr std::uint32_t kMask = 511;
  [[nodiscard]] bool test(PathSeq s) const {
    const std::uint32_t i = s.v & kMask;
    return ((bits_[i / 64] >> (i % 64)) & 1U) != 0;
  }
  void set(PathSeq s) {
    const std::uint32_t i = s.v & kMask;
    bits_[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  // Moves cum by n; the numbers that enter at the top are unseen.
  void advance(std::uint32_t n) {
    if (n >= 512) {
      bits_ = {};
    } else {
      std::uint32_t at = cum_.v + 256;
      for (std::uint32_t left = n; left != 0;) {
        const std::uint32_t i = at & kMask, k = std::min(left, 64 - i % 64);
        const std::uint64_t ones = k == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << k) - 1;
        bits_[i / 64] &= ~(ones << (i % 64));
        at += k;
        left -= k;
      }
    }
    cum_ = cum_ + n;
  }
  // Steps cum over what has arrived.
  void absorb() {
    for (;;) {
      const std::uint32_t i = cum_.v & kMask;
      const auto run = std::min<std::uint32_t>(
          static_cast<std::uint32_t>(std::countr_one(bits_[i / 64] >> (i % 64))), 64 - i % 64);
      if (run == 0) return;
      advance(run);
      if (i % 64 + run < 64) return;
    }
  }

  std::array<std::uint64_t, 8> bits_{};
  PathSeq cum_, highest_;
  WireTime highest_sent_;
  std::uint32_t received_ = 0, ce_packets_ = 0;
  Nanos highest_at_ = 0;
  std::uint16_t late_ = 0, rejects_ = 0;
  std::uint8_t epoch_ = 0;
  bool any_ = false;
};
static_assert(sizeof(RxPath) <= 2 * 64, "two cache lines");

}  // namespace metaroce
