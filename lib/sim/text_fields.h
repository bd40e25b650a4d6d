// Splitting of the small text formats that workloads are read from.
#pragma once

#include <string_view>
#include <vector>

#include "base/decimal.h"

namespace metaroce::sim {

// The next line of `rest`, without its end; a carriage return before it is dropped.
inline std::string_view next_line(std::string_view& rest) {
  const auto end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

inline std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

inline std::string_view without_comment(std::string_view line) {
  return trimmed(line.substr(0, line.find('#')));
}

// Fields between commas, empty ones kept.
inline std::vector<std::string_view> comma_fields(std::string_view line) {
  std::vector<std::string_view> out;
  for (;;) {
    const auto comma = line.find(',');
    out.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return out;
    line.remove_prefix(comma + 1);
  }
}

// Words between blanks and commas.
inline std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  for (;;) {
    const auto first = line.find_first_not_of(" \t,");
    if (first == std::string_view::npos) return out;
    line.remove_prefix(first);
    const auto end = line.find_first_of(" \t,");
    out.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return out;
    line.remove_prefix(end);
  }
}

using metaroce::read_fixed;
using metaroce::read_number;

}  // namespace metaroce::sim
