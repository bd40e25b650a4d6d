#include "dataplane/capabilities.h"

#include <fmt/format.h>

namespace metaroce {
namespace {

const char* text(Support s) {
  return s == Support::kNo ? "no" : s == Support::kYes ? "yes" : "device";
}
const char* text(bool b) { return b ? "yes" : "no"; }
std::string text(std::uint32_t n) { return n == 0 ? "device" : std::to_string(n); }

}  // namespace

std::string capability_table(std::span<const PortCapabilities> rows) {
  std::string s =
      "| kind | rx checksum | tx checksum | queue pairs | steering | scatter | multi-segment tx | "
      "max frame | needs root | needs hugepages | memory link | reconnect by owner |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const PortCapabilities& c : rows)
    s += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", c.name,
                     text(c.rx_checksum), text(c.tx_checksum), text(c.max_queues), text(c.steering),
                     text(c.scatter), text(c.multi_segment_tx), text(c.max_frame),
                     text(c.needs_root), text(c.needs_hugepages), text(c.memory_link),
                     text(c.reconnect));
  return s;
}

}  // namespace metaroce
