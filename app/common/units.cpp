#include "common/units.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace metaroce::app {
namespace {

// The digits at the start of `text`; what follows them in `rest`.
std::string parse_digits(std::string_view text, std::uint64_t& out, std::string_view& rest) {
  if (text.empty()) return "is empty; a number is wanted";
  if (text.front() == '-') return fmt::format("{} is negative", quoted(text));
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = hex ? text.substr(2) : text;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), out, hex ? 16 : 10);
  if (error == std::errc::result_out_of_range) return fmt::format("{} is too large", quoted(text));
  if (error != std::errc{}) return fmt::format("{} is not a number", quoted(text));
  rest = digits.substr(static_cast<std::size_t>(end - digits.data()));
  return "";
}

}  // namespace

std::string parse_count(std::string_view text, std::uint64_t& out) {
  std::string_view rest;
  std::string error = parse_digits(text, out, rest);
  if (error.empty() && !rest.empty())
    error = fmt::format("{} is not a whole number (decimal or 0x...)", quoted(text));
  return error;
}

std::string parse_bytes(std::string_view text, std::uint64_t& out) {
  std::string_view rest;
  if (std::string error = parse_digits(text, out, rest); !error.empty()) return error;
  unsigned shift = 0;
  if (!rest.empty()) {
    switch (rest.front()) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
    const std::string_view tail = rest.substr(1);
    if (shift == 0 || !(tail.empty() || tail == "iB"))
      return fmt::format("{} is not a size: bytes, or a number with K, M or G (2^10, 2^20, 2^30)",
                         quoted(text));
  }
  if (out > (UINT64_MAX >> shift)) return fmt::format("{} is too large", quoted(text));
  out <<= shift;
  return "";
}

std::string parse_seconds(std::string_view text, double& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(out))
    return fmt::format("{} is not a number of seconds", quoted(text));
  if (out <= 0 || out > 1e6) return fmt::format("{} is not between 0 and 1000000 s", quoted(text));
  return "";
}

double per_second(double amount, std::int64_t ns) {
  return ns > 0 ? amount * 1e9 / static_cast<double>(ns) : 0.0;
}
double gigabits_per_second(std::uint64_t bytes, std::int64_t ns) {
  return per_second(static_cast<double>(bytes) * 8 / 1e9, ns);
}
double mebibytes_per_second(std::uint64_t bytes, std::int64_t ns) {
  return per_second(static_cast<double>(bytes) / 1048576.0, ns);
}
double millions_per_second(std::uint64_t count, std::int64_t ns) {
  return per_second(static_cast<double>(count) / 1e6, ns);
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  unsigned unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string quoted(std::string_view name) { return fmt::format("{:?}", name); }

}  // namespace metaroce::app
