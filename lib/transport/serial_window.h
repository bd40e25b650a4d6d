// Which control requests of a peer were processed, and how they were answered: a repeated or
// late request gets the same answer and never a second effect.
//
// Holds the last kSpan serials. The sender keeps its newest serial less than kSpan / 2 ahead of
// its oldest unanswered one, so an honest request is never too old here. [MR-5.5.3] [MR-5.5.8]
#pragma once

#include <array>
#include <cstdint>

namespace metaroce::control {

class SerialWindow {
 public:
  static constexpr std::uint32_t kSpan = 512;
  enum class Verdict : std::uint8_t { kNew, kSeen, kOutside };

  void start(std::uint32_t first) {
    next_ = first;
    answer_.fill(0);
  }

  [[nodiscard]] Verdict look(std::uint32_t serial) const {
    const auto ahead = static_cast<std::int32_t>(serial - next_);
    if (ahead >= 0)
      return ahead < static_cast<std::int32_t>(kSpan) ? Verdict::kNew : Verdict::kOutside;
    if (ahead < -static_cast<std::int32_t>(kSpan)) return Verdict::kOutside;
    return answer_[serial % kSpan] != 0 ? Verdict::kSeen : Verdict::kNew;
  }
  // The answer to a seen serial, as given to mark().
  [[nodiscard]] std::uint8_t answer(std::uint32_t serial) const {
    return static_cast<std::uint8_t>(answer_[serial % kSpan] - 1);
  }
  // Precondition: look() is not kOutside.
  void mark(std::uint32_t serial, std::uint8_t answer) {
    while (static_cast<std::int32_t>(serial - next_) >= 0) answer_[next_++ % kSpan] = 0;
    answer_[serial % kSpan] = static_cast<std::uint8_t>(answer + 1);
  }

 private:
  std::uint32_t next_ = 0;  // highest serial seen + 1
  std::array<std::uint8_t, kSpan> answer_{};
};

}  // namespace metaroce::control
