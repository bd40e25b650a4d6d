// One line on stderr while a run goes on: redrawn on a terminal, every five seconds elsewhere.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "sim/run.h"

namespace metaroce::simapp {

class Progress {
 public:
  Progress(std::FILE* out, bool enabled)
      : out_(out),
        enabled_(enabled),
        terminal_(fileno(out) >= 0 && isatty(fileno(out)) == 1),
        next_(Clock::now() + period()) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::uint64_t seed, const sim::RunProgress& p) {
    if (!enabled_ || Clock::now() < next_) return;
    next_ = Clock::now() + period();
    const auto line = fmt::format("seed {}: {} of {} flows, {} packets, {:.3f} ms of virtual time",
                                  seed, p.flows_done, p.flows, p.delivered_packets,
                                  static_cast<double>(p.virtual_time) / 1e6);
    std::fprintf(out_, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
    std::fflush(out_);
    drawn_ = terminal_;
  }
  void clear() {
    if (drawn_) std::fputs("\r\033[K", out_);
    drawn_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] Clock::duration period() const {
    return terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(5000);
  }
  std::FILE* out_;
  bool enabled_, terminal_, drawn_ = false;
  Clock::time_point next_;
};

}  // namespace metaroce::simapp
