// Numbers in files: the integer rule of codec.h and its units.
#include <algorithm>
#include <bit>
#include <charconv>

#include "config/codec.h"
#include "config/failure.h"

namespace metaroce::config {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string unit_names(const std::vector<Unit>& units) {
  std::string names;
  for (const Unit& u : units) names += (names.empty() ? "" : ", ") + std::string(u.name);
  return names;
}

std::uint64_t read_digits(std::string_view digits, std::string_view whole) {
  if (digits.size() > 1 && digits.front() == '0')
    throw ValueError(fmt::format("{} has a leading zero, which some read as octal", shown(whole)));
  std::uint64_t v = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), v);
  if (error != std::errc{}) throw ValueError(fmt::format("{} is out of range", shown(whole)));
  return v;
}

}  // namespace

NumberCodec::NumberCodec(std::string type_name, std::vector<Unit> units, bool bare,
                         std::uint64_t min, std::uint64_t max, std::string noun)
    : type(std::move(type_name)), units_(std::move(units)), bare_(bare), min_(min), max_(max) {
  accepts = fmt::format("{} to {}", print(min), print(max));
  if (!noun.empty()) accepts += " " + noun;
  if (!units_.empty())
    accepts += fmt::format(" (units {}{})", unit_names(units_), bare_ ? "; without: bytes" : "");
}

std::uint64_t NumberCodec::read(const Scalar& s) const {
  if (s.quoted)
    throw ValueError(fmt::format("\"{}\" is a quoted string, not a number", shown(s.text)));
  const auto end = static_cast<std::size_t>(
      std::find_if_not(s.text.begin(), s.text.end(), is_digit) - s.text.begin());
  const std::string_view digits = s.text.substr(0, end), suffix = s.text.substr(end);
  if (digits.empty() || (units_.empty() && !suffix.empty()))
    throw ValueError(fmt::format("{} is not a plain decimal number", shown(s.text)));
  std::uint64_t v = read_digits(digits, s.text);
  if (!units_.empty() && (!suffix.empty() || !bare_)) {
    const auto unit =
        std::find_if(units_.begin(), units_.end(), [&](const Unit& u) { return u.name == suffix; });
    if (unit == units_.end())
      throw ValueError(suffix.empty()
                           ? fmt::format("{} has no unit", shown(s.text))
                           : fmt::format("{} does not end in a known unit right after an integer",
                                         shown(s.text)));
    if (v > max_ / unit->factor) throw ValueError(fmt::format("{} is out of range", shown(s.text)));
    v *= unit->factor;
  }
  if (v < min_ || v > max_) throw ValueError(fmt::format("{} is out of range", shown(s.text)));
  return v;
}

std::string NumberCodec::print(std::uint64_t v) const {
  if (units_.empty()) return std::to_string(v);
  const Unit* best = &units_.front();
  for (const Unit& u : units_)
    if (v != 0 && v % u.factor == 0) best = &u;
  return fmt::format("{}{}", v / best->factor, best->name);
}

PowerOfTwoCodec::PowerOfTwoCodec(std::uint64_t min, std::uint64_t max, std::string noun)
    : NumberCodec(count(min, max, std::move(noun))) {
  accepts += ", a power of two";
}
std::uint64_t PowerOfTwoCodec::read(const Scalar& s) const {
  const std::uint64_t v = NumberCodec::read(s);
  if (!std::has_single_bit(v)) throw ValueError(fmt::format("{} is not a power of two", v));
  return v;
}

MebibytesCodec::MebibytesCodec(std::uint64_t min, std::uint64_t max)
    : NumberCodec(size(static_cast<Bytes>(min), static_cast<Bytes>(max))) {
  accepts += ", whole MiB";
}
std::uint64_t MebibytesCodec::read(const Scalar& s) const {
  const std::uint64_t v = NumberCodec::read(s);
  if (v % (1 << 20) != 0) throw ValueError(fmt::format("{} is not a whole number of MiB", s.text));
  return v;
}

NumberCodec count(std::uint64_t min, std::uint64_t max, std::string noun) {
  return {"integer", {}, true, min, max, std::move(noun)};
}
NumberCodec duration(Nanos min, Nanos max) {
  return {"duration",
          {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}},
          false,
          static_cast<std::uint64_t>(min),
          static_cast<std::uint64_t>(max),
          {}};
}
NumberCodec size(Bytes min, Bytes max) {
  return {"size",
          {{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}},
          true,
          static_cast<std::uint64_t>(min),
          static_cast<std::uint64_t>(max),
          {}};
}
NumberCodec rate(Mbps min, Mbps max) {
  return {"rate", {{"Mb/s", 1}, {"Gb/s", 1000}, {"Tb/s", 1000000}}, false, min, max, {}};
}

}  // namespace metaroce::config
