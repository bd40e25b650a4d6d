// Which transmissions of one path an acknowledgment resolves: a pure function of state and time.
// [MR-2.4] [MR-7.3]
//
// A path is FIFO, so an unresolved pseq behind `dup_thresh` later acknowledged ones is lost, or
// behind any later one once srtt / 4 has passed since that gap was first seen. `dup_thresh` is 1
// unless the receiver reported late arrivals, i.e. reordering inside the path; then 3, then 8,
// and back to 1 after a second without. All vectors are relative to `floor`, the lowest
// unresolved pseq: bit i = floor + i.
#pragma once

#include <bit>
#include <cstdint>

#include "base/bitmap.h"
#include "base/serial.h"
#include "base/units.h"
#include "transport/events.h"

namespace metaroce {

// What is outstanding on a path.
struct PathWindow {
  PathSeq floor, next;  // lowest unresolved (== next: nothing is), next to assign
  SackVector unresolved;

  static constexpr std::uint32_t kDataLimit = 253;  // [MR-2.3.5]: the rest is for FLUSH
  static constexpr std::uint32_t kLimit = 255;      // [MR-2.3.4]
  [[nodiscard]] std::uint32_t span() const { return static_cast<std::uint32_t>(next - floor); }
  PathSeq take() {
    unresolved.set(span());
    const PathSeq s = next;
    ++next;
    return s;
  }
  void resolve(unsigned i) { unresolved.words()[i / 64] &= ~(std::uint64_t{1} << (i % 64)); }
  // Steps the floor over what is resolved.
  void settle() {
    const auto& w = unresolved.words();
    unsigned n = 0;
    for (unsigned k = 0; k < 4; ++k) {
      if (w[k] != 0) {
        n = k * 64 + static_cast<unsigned>(std::countr_zero(w[k]));
        break;
      }
      if (k == 3) n = span();
    }
    n = std::min(n, span());
    unresolved.advance(n);
    floor = floor + n;
  }
};

enum class AckCheck : std::uint8_t { kOk, kStale, kUnsent };

// Acknowledged numbers relative to w.floor, or why the block cannot be believed. [MR-3.6.8]
// [MR-3.6.9]
inline AckCheck acked_vector(const PathWindow& w, const PathAck& a, std::uint8_t epoch,
                             SackVector& out) {
  if (a.epoch != epoch) return AckCheck::kStale;
  if (a.cum > w.next || a.highest >= w.next) return AckCheck::kUnsent;
  const int top = a.sack.highest();
  if (top >= 0 && a.cum + static_cast<std::uint32_t>(top) >= w.next) return AckCheck::kUnsent;
  out = a.sack;
  const std::int32_t d = a.cum - w.floor;
  if (d <= 0) {
    out.advance(d <= -256 ? 256U : static_cast<unsigned>(-d));
    return AckCheck::kOk;
  }
  // Everything in [floor, cum) is acknowledged; d <= span <= 255. Shift up by d, fill below.
  const auto n = static_cast<unsigned>(d), words = n / 64, bits = n % 64;
  SackVector r;
  for (unsigned k = 4; k-- > 0;) {
    std::uint64_t v = 0;
    if (k >= words) {
      v = out.words()[k - words] << bits;
      if (bits != 0 && k > words) v |= out.words()[k - words - 1] >> (64 - bits);
    }
    if (k < words)
      v = ~std::uint64_t{0};
    else if (k == words && bits != 0)
      v |= (std::uint64_t{1} << bits) - 1;
    r.words()[k] = v;
  }
  out = r;
  return AckCheck::kOk;
}

// [MR-7.3.1] Unresolved numbers that count as lost once `acked` is known. `gap_ripe`: srtt / 4 has
// passed since the oldest gap was first seen.
inline SackVector lost_vector(const PathWindow& w, const SackVector& acked, unsigned dup_thresh,
                              bool gap_ripe) {
  SackVector lost;
  // Position of the dup_thresh-th highest acknowledged number: everything below it is lost.
  unsigned need = gap_ripe ? 1 : dup_thresh;
  int limit = -1;
  for (int k = 3; k >= 0 && limit < 0; --k) {
    std::uint64_t v = acked.words()[static_cast<unsigned>(k)];
    if (v == 0) continue;
    const auto have = need == 1 ? 1U : static_cast<unsigned>(std::popcount(v));
    if (have < need) {
      need -= have;
      continue;
    }
    for (; need > 1; --need) v &= ~(std::uint64_t{1} << (63 - std::countl_zero(v)));
    limit = k * 64 + 63 - std::countl_zero(v);
  }
  if (limit <= 0) return lost;
  for (unsigned k = 0; k < 4; ++k) {
    std::uint64_t v = w.unresolved.words()[k] & ~acked.words()[k];
    const unsigned lo = k * 64, top = static_cast<unsigned>(limit);
    if (top < lo + 64) v &= top > lo ? (std::uint64_t{1} << (top - lo)) - 1 : 0;
    lost.words()[k] = v;
  }
  return lost;
}

// Reordering inside the path raises the threshold, quiet lowers it. [MR-7.3.2] [MR-7.3.3]
// [MR-7.3.4]
class DupThreshold {
 public:
  DupThreshold() = default;
  // As another left it: the quiet second begins again.
  DupThreshold(std::uint8_t value, Nanos now) : raised_at_(now), value_(value) {}
  [[nodiscard]] std::uint8_t last() const { return value_; }
  static constexpr Nanos kDecay = kSecond;
  void late_seen(Nanos now) {
    if (value_ < 8) value_ = value_ == 1 ? 3 : 8;
    raised_at_ = now;
  }
  [[nodiscard]] unsigned value(Nanos now) {
    if (value_ != 1 && now - raised_at_ >= kDecay) {
      value_ = value_ == 8 ? 3 : 1;
      raised_at_ = now;
    }
    return value_;
  }

 private:
  Nanos raised_at_ = 0;
  std::uint8_t value_ = 1;
};

}  // namespace metaroce
