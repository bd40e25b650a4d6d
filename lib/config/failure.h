// How the parts of the loader report: exceptions that never leave load_text(). Loading happens
// once, before any packet; unwinding keeps the readers free of plumbing.
#pragma once

#include <stdexcept>
#include <string>

namespace metaroce::config {

// A value that its codec refuses; the reader adds where, and what would be accepted.
struct ValueError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Complete but for the file's name. Line 0: the file as a whole.
struct Failure : std::runtime_error {
  Failure(int at_line, std::string at_path, const std::string& what)
      : std::runtime_error(what), line(at_line), path(std::move(at_path)) {}
  int line;
  std::string path;
};

}  // namespace metaroce::config
