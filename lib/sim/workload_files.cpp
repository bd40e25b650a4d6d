// Flow lists and traffic matrices from text, and lists to text.
#include <fmt/format.h>

#include <iterator>
#include <map>

#include "sim/text_fields.h"
#include "sim/workload.h"

namespace metaroce::sim {
namespace {

constexpr std::string_view kHeader = "id,src,dst,bytes,start_us,dep";

class FlowListReader {
 public:
  FlowListReader(Workload& w, const WorkloadContext& context, bool windowed)
      : w_(w), context_(context), windowed_(windowed), listed_(context.hosts, 0) {}

  // Returns what is wrong with the line, or "".
  std::string read(std::string_view line) {
    const auto fields = comma_fields(line);
    std::uint64_t id = 0, src = 0, dst = 0, start = 0;
    Flow f;
    if (fields.size() != 6 || !read_number(fields[0], id) || !read_number(fields[1], src) ||
        !read_number(fields[2], dst) || !read_number(fields[3], f.bytes) ||
        !read_fixed(fields[4], 3, start))
      return fmt::format("is not `{}`", kHeader);
    if (src >= context_.hosts || dst >= context_.hosts)
      return fmt::format("names a host over {}", context_.hosts - 1);
    if (w_.flows.size() == kMaxFlows) return fmt::format("is flow {}; too many", kMaxFlows + 1);
    if (!index_.emplace(id, static_cast<std::uint32_t>(w_.flows.size())).second)
      return fmt::format("has the id {} of an earlier line", id);
    f.src = static_cast<std::uint16_t>(src);
    f.dst = static_cast<std::uint16_t>(dst);
    f.start = static_cast<Nanos>(start);
    if (std::string why = read_dependency(fields[5], f); !why.empty()) return why;
    w_.flows.push_back(f);
    return {};
  }

 private:
  std::string read_dependency(std::string_view text, Flow& f) {
    std::uint64_t dep = 0;
    if (text.empty()) return {};
    if (!read_number(text, dep)) return "has a dependency that is not an id";
    if (windowed_) {
      if (dep != ++listed_[f.src])
        return fmt::format("has position {} in the list of host {}; {} is next", dep, f.src,
                           listed_[f.src]);
      f.window_list = f.src;
      return {};
    }
    const auto at = index_.find(dep);
    if (at == index_.end() || at->second == w_.flows.size())
      return fmt::format("waits for flow {}, which is not listed before it", dep);
    f.dep = at->second;
    return {};
  }

  Workload& w_;
  const WorkloadContext& context_;
  bool windowed_;
  std::map<std::uint64_t, std::uint32_t> index_;
  std::vector<std::uint64_t> listed_;  // by source: flows so far
};

}  // namespace

WorkloadResult flow_list(const WorkloadSpec& spec, const WorkloadContext& context) {
  Workload w;
  w.window = spec.window;
  w.window_lists = spec.window != 0 ? context.hosts : 0;
  FlowListReader reader(w, context, spec.window != 0);
  std::string_view rest = spec.text;
  for (int number = 1; !rest.empty(); ++number) {
    const auto line = without_comment(next_line(rest));
    if (line.empty() || line == kHeader) continue;
    if (const auto why = reader.read(line); !why.empty())
      return WorkloadError{fmt::format("{}: line {} {}", spec.file, number, why)};
  }
  return w;
}

// Row: source, column: destination; bytes. The diagonal is 0.
WorkloadResult matrix(const WorkloadSpec& spec, const WorkloadContext& context) {
  Workload w;
  std::string_view rest = spec.text;
  std::uint32_t row = 0;
  for (int number = 1; !rest.empty(); ++number) {
    const auto line = without_comment(next_line(rest));
    if (line.empty()) continue;
    const auto cells = words(line);
    if (row == context.hosts || cells.size() != context.hosts)
      return WorkloadError{fmt::format("{}: line {}: a matrix of {} rows of {} numbers is wanted",
                                       spec.file, number, context.hosts, context.hosts)};
    for (std::uint32_t column = 0; column < cells.size(); ++column) {
      Flow f;
      if (!read_number(cells[column], f.bytes) || (f.bytes != 0 && column == row))
        return WorkloadError{
            fmt::format("{}: line {}, number {}: {}", spec.file, number, column + 1,
                        column == row ? "traffic of a host to itself" : "not a number of bytes")};
      f.src = static_cast<std::uint16_t>(row);
      f.dst = static_cast<std::uint16_t>(column);
      if (f.bytes != 0) w.flows.push_back(f);
    }
    ++row;
  }
  if (row != context.hosts)
    return WorkloadError{fmt::format("{}: {} rows for {} hosts", spec.file, row, context.hosts)};
  return w;
}

std::string to_csv(const Workload& w) {
  std::string out(kHeader);
  out += '\n';
  std::vector<std::uint32_t> listed(w.window_lists, 0);
  for (const Flow& f : w.flows) {
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{}", f.id + 1, f.src, f.dst, f.bytes,
                   f.start / 1000);
    if (f.start % 1000 != 0) fmt::format_to(std::back_inserter(out), ".{:03}", f.start % 1000);
    if (f.window_list != kNoFlow)
      fmt::format_to(std::back_inserter(out), ",{}\n", ++listed[f.window_list]);
    else if (f.dep != kNoFlow)
      fmt::format_to(std::back_inserter(out), ",{}\n", f.dep + 1);
    else
      out += ",\n";
  }
  return out;
}

}  // namespace metaroce::sim
