// The kinds of port: one row each, and the one function that opens any of them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "dataplane/port.h"

namespace metaroce {

// What doc/reference/ports.md documents; `kDevice` and 0 are replaced by what a port reports.
std::span<const PortCapabilities> port_kinds();
const PortCapabilities& port_kind(PortKind kind);
std::optional<PortKind> find_port_kind(std::string_view name);

// Makes the device, its queues and pools; the port is not started. EAL must run. On an error `out`
// stays empty and nothing is left behind.
Status open_port(const PortConfig& config, std::unique_ptr<Port>& out);

}  // namespace metaroce
