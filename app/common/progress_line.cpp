#include "common/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "common/idle_wait.h"
#include "common/units.h"

namespace metaroce::app {
namespace {

constexpr std::int64_t kTerminalPeriod = kSecondNs / 5, kLogPeriod = 5 * kSecondNs;

}  // namespace

ProgressLine::ProgressLine(std::FILE* out, bool enabled)
    : out_(out),
      enabled_(enabled),
      terminal_(fileno(out) >= 0 && isatty(fileno(out)) == 1),
      start_(now_ns()),
      next_(start_ + (terminal_ ? kTerminalPeriod : kLogPeriod)) {}

std::string ProgressLine::text(std::uint64_t done, std::uint64_t total, std::uint64_t files,
                               std::int64_t now) const {
  const double share =
      total ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 1.0;
  const double rate = per_second(static_cast<double>(done), now - start_);
  std::string line = fmt::format("{:3.0f} %  {} of {}  {} files  {:.1f} MiB/s", share * 100,
                                 format_bytes(done), format_bytes(total), files, rate / 1048576);
  if (rate > 0 && total > done)
    line += fmt::format("  {:.0f} s left", static_cast<double>(total - done) / rate);
  if (!terminal_) return line;
  constexpr int kWidth = 24;
  const int full = static_cast<int>(share * kWidth);
  return fmt::format("[{:=<{}}{: <{}}] {}", "", full, "", kWidth - full, line);
}

void ProgressLine::update(std::uint64_t done, std::uint64_t total, std::uint64_t files) {
  if (!enabled_) return;
  const std::int64_t now = now_ns();
  if (now < next_) return;
  next_ = now + (terminal_ ? kTerminalPeriod : kLogPeriod);
  const std::string line = text(done, total, files, now);
  std::fprintf(out_, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(out_);
  drawn_ = terminal_;
}

void ProgressLine::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", out_);
  std::fflush(out_);
  drawn_ = false;
}

}  // namespace metaroce::app
