// Progress on stderr: a line that redraws itself five times a second on a terminal, a line of its
// own every five seconds elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace metaroce::app {

class ProgressLine {
 public:
  ProgressLine(std::FILE* out, bool enabled);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  // Bytes that the receiver has taken, of `total`; cheap when it is not time to draw.
  void update(std::uint64_t done_bytes, std::uint64_t total_bytes, std::uint64_t files);
  // Before anything else is printed.
  void clear();

 private:
  std::string text(std::uint64_t done, std::uint64_t total, std::uint64_t files,
                   std::int64_t now) const;

  std::FILE* out_;
  bool enabled_, terminal_, drawn_ = false;
  std::int64_t start_, next_;
};

}  // namespace metaroce::app
