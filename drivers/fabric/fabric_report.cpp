#include "drivers/fabric/fabric_report.h"

#include <nlohmann/json.hpp>

namespace metaroce {
namespace {

using fabric::FabricState;
using fabric::LinkCounters;
using nlohmann::json;

json losses(const std::array<std::uint64_t, fabric::kLossKinds>& counts) {
  json j = json::object();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0) j[fabric::loss_name(static_cast<fabric::Loss>(i))] = counts[i];
  return j;
}

// What left the hosts of a plane, and what happened on any of its links.
json plane_report(const FabricState& s, std::uint32_t plane) {
  std::uint64_t packets = 0, bytes = 0, marks = 0, lost = 0;
  std::uint32_t down = 0;
  for (std::uint32_t l = plane * s.links_per_plane(); l < (plane + 1) * s.links_per_plane(); ++l) {
    const LinkCounters c = s.counters(l);
    marks += c.ce_marks;
    for (const std::uint64_t n : c.drops) lost += n;
    down += s.is_up(l) ? 0 : 1;
    if (l - plane * s.links_per_plane() >= s.hosts()) continue;
    packets += c.packets;
    bytes += c.bytes;
  }
  return {{"plane", plane}, {"links_down", down}, {"packets", packets},
          {"bytes", bytes}, {"ce_marks", marks},  {"lost", lost}};
}

json link_report(const FabricState& s, std::uint32_t link, const LinkCounters& c) {
  return {{"link", s.link_name(link)},
          {"up", s.is_up(link)},
          {"packets", c.packets},
          {"bytes", c.bytes},
          {"busy_ns", c.busy / fabric::kPicosPerNano},
          {"ce_marks", c.ce_marks},
          {"max_queue_bytes", c.max_queue_bytes},
          {"lost", losses(c.drops)}};
}

}  // namespace

json fabric_report(const EmulatedFabric& f, bool links) {
  const FabricState& s = f.state();
  const fabric::FabricTotals& t = s.totals();
  json j;
  j["running_ns"] = f.running_ns();
  j["hosts"] = s.hosts();
  j["planes"] = json::array();
  for (std::uint32_t p = 0; p < s.config().planes; ++p) j["planes"].push_back(plane_report(s, p));
  j["frames"] = {
      {"sent", t.sent},           {"delivered", t.delivered}, {"duplicated", t.duplicated},
      {"corrupted", t.corrupted}, {"delayed", t.delayed},     {"inside", s.packets_inside()}};
  j["lost"] = losses(t.lost);
  j["dropped"] = json::object();
  for (std::size_t i = 0; i < kFabricDrops; ++i)
    if (f.drops()[i] != 0)
      j["dropped"][fabric_drop_name(static_cast<FabricDrop>(i))] = f.drops()[i];
  if (!links) return j;
  j["links"] = json::array();
  for (std::uint32_t l = 0; l < s.links() && j["links"].size() < kMaxReportedLinks; ++l) {
    const LinkCounters c = s.counters(l);
    const bool lost = std::any_of(c.drops.begin(), c.drops.end(), [](auto n) { return n != 0; });
    if (c.packets != 0 || lost || !s.is_up(l)) j["links"].push_back(link_report(s, l, c));
  }
  return j;
}

}  // namespace metaroce
