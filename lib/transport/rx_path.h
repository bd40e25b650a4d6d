// Receive side of one path: which pseq arrived, in which epoch, and what the next ACK says of it.
// rx-owned. [MR-2.3]
//
// Most paths have nothing to remember but one number: everything below `cum` arrived, nothing from
// there on. Only while something is missing there is a ring of 512 bits, from a pool of the role.
// It holds [cum - 256, cum + 256): the upper half is the 256-bit selective acknowledgment, the
// lower half remembers which of the closed numbers really arrived, so that a packet that comes
// after the sender gave it up counts as `late` (reordering inside the path) and a second copy of
// one that arrived does not. The ring goes back when 256 numbers without a hole have passed, or
// when the path was quiet for long.
//
// Without a ring to take, what arrives beyond a hole is not recorded, hence not acknowledged: the
// sender sends it again. Numbers below the first one of an epoch count as arrived.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/bitmap.h"
#include "base/serial.h"
#include "base/units.h"
#include "transport/array_pool.h"
#include "wire/packet.h"

namespace metaroce {

// What a path remembers while something is missing.
struct RxRing {
  std::array<std::uint64_t, 8> bits{};
  std::uint32_t owner = UINT32_MAX;  // as the taker named it; UINT32_MAX: free
};

class RxRingPool {
 public:
  static constexpr std::uint32_t kFree = UINT32_MAX;
  explicit RxRingPool(std::uint32_t n) : pool_(n, 1) {}
  RxRing* take(std::uint32_t owner) {
    RxRing* r = pool_.take();
    if (r == nullptr) {
      ++refused_;
      return nullptr;
    }
    r->owner = owner;
    return r;
  }
  void give(RxRing* r) {
    r->owner = kFree;
    pool_.give(r);
  }
  [[nodiscard]] std::uint32_t used() const { return pool_.used(); }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }
  // Those in [0, touched()) were taken once at least.
  [[nodiscard]] std::uint32_t touched() const { return pool_.touched(); }
  [[nodiscard]] std::uint32_t owner(std::uint32_t i) const { return pool_.at(i)->owner; }

 private:
  ArrayPool<RxRing> pool_;
  std::uint64_t refused_ = 0;
};

class RxPath {
 public:
  // Where a path gets its ring, and under which name.
  struct Rings {
    RxRingPool& pool;
    std::uint32_t owner;
  };
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
  void begin_epoch(RxRingPool& pool, std::uint8_t epoch, PathSeq pseq, std::uint8_t floor_delta) {
    epoch_ = epoch;
    cum_ = pseq - floor_delta;
    forget(pool);
  }
  // floor_delta closes the holes that the sender abandoned. [MR-2.3.2]
  void raise_floor(const Rings& rings, PathSeq pseq, std::uint8_t floor_delta) {
    const PathSeq floor = pseq - floor_delta;
    if (floor > cum_) {
      // Without a ring the closed numbers would count as arrived: a late one would not show.
      if (has_ring(rings))
        advance(static_cast<std::uint32_t>(floor - cum_));
      else
        cum_ = floor;
    }
    if (ring_ != nullptr) settle(rings.pool);
  }

  // kUnrecorded: beyond a hole, and no ring is free.
  enum class Arrival : std::uint8_t { kInOrder, kGap, kFill, kLate, kRepeated, kUnrecorded };
  // Records that `pseq` arrived and is to be acknowledged. raise_floor() went before. [MR-2.3.3]
  // [MR-2.3.6] [MR-2.3.7]
  Arrival accept(const Rings& rings, PathSeq pseq, WireTime sent, bool ce, Nanos now) {
    ++received_;
    if (ce) ++ce_packets_;
    if (ring_ == nullptr) {
      if (pseq < cum_) return Arrival::kRepeated;
      if (pseq == cum_) {
        ++cum_;
        newest(pseq, sent, now);
        return Arrival::kInOrder;
      }
      if (!has_ring(rings)) return Arrival::kUnrecorded;
    }
    if (pseq < cum_ - 256) return Arrival::kRepeated;  // beyond memory: cannot tell, not late
    if (test(pseq)) return Arrival::kRepeated;
    set(pseq);
    Arrival a = Arrival::kInOrder;
    if (pseq > highest_) {
      const PathSeq next = serial_max(highest_ + 1, cum_);
      if (pseq > next) a = Arrival::kGap;
      newest(pseq, sent, now);
    } else {
      ++late_;
      a = pseq < cum_ ? Arrival::kLate : Arrival::kFill;
    }
    settle(rings.pool);
    return a;
  }
  // Gives the ring back, whatever it says. Numbers beyond a hole are no longer acknowledged, which
  // is always safe; after long silence the sender has nothing unresolved any more.
  void forget(RxRingPool& pool) {
    if (ring_ != nullptr) pool.give(ring_);
    ring_ = nullptr;
    highest_ = cum_ - 1;
    any_ = false;
  }
  [[nodiscard]] bool has_ring() const { return ring_ != nullptr; }
  [[nodiscard]] Nanos newest_at() const { return highest_at_; }
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
    if (ring_ == nullptr) return s;
    const auto& bits = ring_->bits;
    const std::uint32_t base = cum_.v;
    for (std::uint32_t k = 0; k < 4; ++k) {
      const std::uint32_t at = (base + 64 * k) & kMask, w = at / 64, b = at % 64;
      s.words()[k] = b == 0 ? bits[w] : (bits[w] >> b) | (bits[(w + 1) % 8] << (64 - b));
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
  void newest(PathSeq pseq, WireTime sent, Nanos now) {
    highest_ = pseq;
    highest_sent_ = sent;
    highest_at_ = now;
    any_ = true;
  }
  // True: there is a ring, if need be a new one, to which all below `cum` has arrived.
  bool has_ring(const Rings& rings) {
    if (ring_ != nullptr) return true;
    ring_ = rings.pool.take(rings.owner);
    if (ring_ == nullptr) return false;
    ring_->bits = {};
    for (std::uint32_t at = cum_.v - 256, left = 256; left != 0;) {
      const std::uint32_t i = at & kMask, k = std::min(left, 64 - i % 64);
      ring_->bits[i / 64] |= run_of_ones(k) << (i % 64);
      at += k;
      left -= k;
    }
    return true;
  }
  static std::uint64_t run_of_ones(std::uint32_t k) {
    return k == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << k) - 1;
  }
  [[nodiscard]] bool test(PathSeq s) const {
    const std::uint32_t i = s.v & kMask;
    return ((ring_->bits[i / 64] >> (i % 64)) & 1U) != 0;
  }
  void set(PathSeq s) {
    const std::uint32_t i = s.v & kMask;
    ring_->bits[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  // Moves cum by n; the numbers that enter at the top are unseen.
  void advance(std::uint32_t n) {
    if (n >= 512) {
      ring_->bits = {};
    } else {
      std::uint32_t at = cum_.v + 256;
      for (std::uint32_t left = n; left != 0;) {
        const std::uint32_t i = at & kMask, k = std::min(left, 64 - i % 64);
        ring_->bits[i / 64] &= ~(run_of_ones(k) << (i % 64));
        at += k;
        left -= k;
      }
    }
    cum_ = cum_ + n;
  }
  void settle(RxRingPool& pool) {
    absorb();
    if (highest_ >= cum_) return;
    unsigned arrived = 0;
    for (const std::uint64_t w : ring_->bits) arrived += static_cast<unsigned>(std::popcount(w));
    if (arrived != 256) return;  // none is above `cum`: all of them are below
    pool.give(ring_);
    ring_ = nullptr;
  }
  // Steps cum over what has arrived.
  void absorb() {
    for (;;) {
      const std::uint32_t i = cum_.v & kMask;
      const auto run = std::min<std::uint32_t>(
          static_cast<std::uint32_t>(std::countr_one(ring_->bits[i / 64] >> (i % 64))),
          64 - i % 64);
      if (run == 0) return;
      advance(run);
      if (i % 64 + run < 64) return;
    }
  }

  RxRing* ring_ = nullptr;  // while something is missing
  PathSeq cum_, highest_;
  WireTime highest_sent_;
  std::uint32_t received_ = 0, ce_packets_ = 0;
  Nanos highest_at_ = 0;
  std::uint16_t late_ = 0, rejects_ = 0;
  std::uint8_t epoch_ = 0;
  bool any_ = false;
};
static_assert(sizeof(RxPath) <= 48);

}  // namespace metaroce
