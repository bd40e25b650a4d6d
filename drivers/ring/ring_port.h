// A ring port over rings that the caller owns, for an emulated fabric: rx[q] is what queue q
// receives from, tx[q] what it sends to. The rings must outlive the port.
#pragma once

#include <rte_ring.h>
#include <span>

#include "dataplane/port.h"

namespace metaroce {

Status open_ring_port(const PortConfig& config, std::span<rte_ring* const> rx,
                      std::span<rte_ring* const> tx, std::unique_ptr<Port>& out);

}  // namespace metaroce
