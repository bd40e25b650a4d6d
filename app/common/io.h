// Where a program prints and what tells it to stop: arguments, so that tests run two ends of a
// program in one process.
#pragma once

#include <atomic>
#include <cstdio>

namespace metaroce::app {

struct Io {
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  const std::atomic<int>* stop = nullptr;  // number of the signal that asked to stop, 0 = none
  bool stopping() const { return stop && stop->load(std::memory_order_relaxed) != 0; }
};

}  // namespace metaroce::app
