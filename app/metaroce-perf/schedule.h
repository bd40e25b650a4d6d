// Arithmetic of one sender on one stream: how many messages may be posted now, which of them ask
// for a completion, when the stream is done. Invariants, for any mix of iterations, depth and
// moderation: exactly `limit` messages are posted; the last one asks for a completion, so the end
// never waits for one that nobody requested; outstanding <= depth; at most `slots` messages are
// not yet released by the far end (or, without verification, unlimited).
//
// Ends are per stream: a total over streams hides one that is short.
#pragma once

#include <algorithm>
#include <cstdint>

namespace metaroce::perf {

class PostSchedule {
 public:
  static constexpr std::uint64_t kUnlimited = UINT64_MAX;

  // moderation is clamped to what can be outstanding: a completion must come before the queue or
  // the slots run out.
  PostSchedule(std::uint64_t limit, std::uint32_t depth, std::uint32_t moderation,
               std::uint64_t slots)
      : limit_(limit),
        depth_(std::max(1U, depth)),
        slots_(std::max<std::uint64_t>(1, slots)),
        moderation_(static_cast<std::uint32_t>(
            std::clamp<std::uint64_t>(moderation, 1, std::min<std::uint64_t>(depth_, slots_)))) {}

  std::uint64_t room() const {
    const std::uint64_t by_depth = depth_ - (posted_ - completed_);
    const std::uint64_t by_slots = slots_ - (posted_ - released_);
    return std::min({by_depth, by_slots, limit_ - posted_});
  }
  // Number of the next message and whether it is to be signalled, for index i beyond posted().
  bool signaled(std::uint64_t i) const {
    const std::uint64_t n = posted_ + i + 1;
    return n == limit_ || n % moderation_ == 0;
  }
  void post(std::uint64_t n) { posted_ += n; }
  // The signalled message `number` completed, hence all before it.
  void complete(std::uint64_t number) { completed_ = std::max(completed_, number + 1); }
  // Messages below `count` need their slots no longer.
  void release(std::uint64_t count) { released_ = std::clamp(count, released_, posted_); }
  // No more than needed: when the tail is unsignalled, one more message that is.
  void stop() {
    const bool tail = posted_ % moderation_ != 0 && posted_ != limit_;
    limit_ = std::min(limit_, posted_ + (tail ? 1 : 0));
  }

  bool done() const { return posted_ == limit_ && completed_ == limit_; }
  bool all_released() const { return released_ == posted_; }
  std::uint64_t posted() const { return posted_; }
  std::uint64_t completed() const { return completed_; }
  std::uint64_t released() const { return released_; }
  std::uint32_t moderation() const { return moderation_; }

 private:
  std::uint64_t limit_;
  std::uint32_t depth_;
  std::uint64_t slots_;
  std::uint32_t moderation_;
  std::uint64_t posted_ = 0, completed_ = 0, released_ = 0;
};

}  // namespace metaroce::perf
