#include "drivers/registry.h"

#include <algorithm>
#include <array>

#include "drivers/kinds.h"

namespace metaroce {
namespace {

using Maker = std::unique_ptr<Port> (*)(PortConfig);

// In the order of PortKind.
constexpr std::array<Maker, kPortKinds> kMakers = {
    drivers::make_pci,   drivers::make_tap,       drivers::make_null,   drivers::make_ring,
    drivers::make_memif, drivers::make_af_packet, drivers::make_af_xdp, drivers::make_fabric};

}  // namespace

std::span<const PortCapabilities> port_kinds() {
  static const std::array<PortCapabilities, kPortKinds> rows = {
      drivers::k_pci_row,   drivers::k_tap_row,       drivers::k_null_row,   drivers::k_ring_row,
      drivers::k_memif_row, drivers::k_af_packet_row, drivers::k_af_xdp_row, drivers::k_fabric_row};
  return rows;
}

const PortCapabilities& port_kind(PortKind kind) {
  return port_kinds()[static_cast<std::size_t>(kind)];
}

std::optional<PortKind> find_port_kind(std::string_view name) {
  const auto rows = port_kinds();
  const auto it = std::find_if(rows.begin(), rows.end(),
                               [&](const PortCapabilities& r) { return r.name == name; });
  return it == rows.end() ? std::nullopt : std::optional(it->kind);
}

Status open_port(const PortConfig& config, std::unique_ptr<Port>& out) {
  out.reset();
  std::unique_ptr<Port> port = kMakers[static_cast<std::size_t>(config.kind)](config);
  if (Status s = port->open(); !s.ok()) return s;
  out = std::move(port);
  return {};
}

}  // namespace metaroce
