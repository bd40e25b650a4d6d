// Decimal numbers in text, without sign, exponent or separators.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace metaroce {

// Decimal digits only, nothing behind them.
inline bool read_number(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

// A decimal fraction with up to `digits` digits behind the point, times 10^digits.
inline bool read_fixed(std::string_view text, unsigned digits, std::uint64_t& out) {
  const auto point = text.find('.');
  std::uint64_t whole = 0, part = 0;
  if (!read_number(text.substr(0, point), whole) || whole > UINT32_MAX) return false;
  std::uint64_t scale = 1;
  for (unsigned i = 0; i < digits; ++i) scale *= 10;
  out = whole * scale;
  if (point == std::string_view::npos) return true;
  const std::string_view behind = text.substr(point + 1);
  if (behind.size() > digits || !read_number(behind, part)) return false;
  for (std::size_t i = behind.size(); i < digits; ++i) part *= 10;
  out += part;
  return true;
}

}  // namespace metaroce
