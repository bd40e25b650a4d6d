#include "sim/size_distribution.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/exponential.h"
#include "sim/text_fields.h"

namespace metaroce::sim {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40;
constexpr std::size_t kMaxPoints = 65536;

}  // namespace

std::string SizeDistribution::read_line(std::string_view line) {
  const auto fields = words(line);
  std::uint64_t bytes = 0, ppb = 0;
  if (fields.size() != 2 || !read_number(fields[0], bytes) || !read_fixed(fields[1], 9, ppb))
    return "is not `bytes cumulative_probability`, like `10000 0.15`";
  if (bytes < 1 || bytes > kMaxBytes) return "has a size outside 1 to 2^40 bytes";
  if (ppb > kOne) return "has a probability over 1";
  if (!points_.empty() && (bytes < points_.back().bytes || ppb < points_.back().ppb))
    return "is less than the line before";
  if (points_.size() == kMaxPoints) return fmt::format("is one more than {} lines", kMaxPoints);
  points_.push_back({bytes, static_cast<std::uint32_t>(ppb)});
  return {};
}

std::string SizeDistribution::read(std::string_view text) {
  points_.clear();
  for (int number = 1; !text.empty(); ++number) {
    const auto line = without_comment(next_line(text));
    if (line.empty()) continue;
    if (const auto why = read_line(line); !why.empty())
      return fmt::format("line {} {}", number, why);
  }
  if (points_.empty()) return "there is no line";
  if (points_.back().ppb != kOne) return "the last probability is not 1";
  return {};
}

std::uint64_t SizeDistribution::draw(Rng& rng) const {
  const std::uint32_t u = rng.below(kOne) + 1;  // (0, 1]
  const auto above = std::lower_bound(points_.begin(), points_.end(), u,
                                      [](const Point& p, std::uint32_t x) { return p.ppb < x; });
  if (above == points_.begin()) return above->bytes;
  const Point& a = *(above - 1);
  const Wide part = Wide{above->bytes - a.bytes} * (u - a.ppb);
  return a.bytes + static_cast<std::uint64_t>(part / (above->ppb - a.ppb));
}

std::uint64_t SizeDistribution::mean() const {
  Wide sum = Wide{points_.front().bytes} * points_.front().ppb * 2;  // in halves
  for (std::size_t i = 1; i < points_.size(); ++i)
    sum += Wide{points_[i].bytes + points_[i - 1].bytes} * (points_[i].ppb - points_[i - 1].ppb);
  return static_cast<std::uint64_t>(sum / (2 * Wide{kOne}));
}

}  // namespace metaroce::sim
