// What a polling loop does when there was nothing to do. A poller that shares its CPU with the
// one it waits for must let go of it, or both crawl; yielding after a few empty passes costs a
// system call only while idle. --spin never yields.
#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>

namespace metaroce::app {

class IdleWait {
 public:
  explicit IdleWait(bool spin) : spin_(spin) {}
  void busy() { empty_ = 0; }
  void idle() {
    if (spin_ || ++empty_ < kEmptyPolls) return;
    empty_ = 0;
    sched_yield();
  }

 private:
  static constexpr unsigned kEmptyPolls = 4;
  bool spin_;
  unsigned empty_ = 0;
};

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
inline constexpr std::int64_t kSecondNs = 1'000'000'000;

}  // namespace metaroce::app
