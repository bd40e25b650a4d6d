#include "config/probability_codec.h"

#include "base/decimal.h"
#include "config/failure.h"

namespace metaroce::config {
namespace {

constexpr unsigned kDigits = 7;
constexpr std::uint64_t kPercent = 10'000'000;  // 1 % in 10^-9

}  // namespace

std::uint32_t ProbabilityCodec::read(const Scalar& s) const {
  std::uint64_t v = 0;
  if (s.quoted || !s.text.ends_with('%') ||
      !read_fixed(s.text.substr(0, s.text.size() - 1), kDigits, v))
    throw ValueError(fmt::format("{} is not a percentage", shown(s.text)));
  if (v > 100 * kPercent) throw ValueError(fmt::format("{} is out of range", shown(s.text)));
  return static_cast<std::uint32_t>(v);
}

std::string ProbabilityCodec::print(Value v) const {
  if (v % kPercent == 0) return fmt::format("{}%", v / kPercent);
  std::string out = fmt::format("{}.{:07}", v / kPercent, v % kPercent);
  out.erase(out.find_last_not_of('0') + 1);
  return out + "%";
}

}  // namespace metaroce::config
