// For registry.cpp only: each kind's row and maker, defined in its folder.
#pragma once

#include "dataplane/port.h"

namespace metaroce::drivers {

#define METAROCE_PORT_KIND(kind)                \
  extern const PortCapabilities k_##kind##_row; \
  std::unique_ptr<Port> make_##kind(PortConfig config);
METAROCE_PORT_KIND(pci)
METAROCE_PORT_KIND(tap)
METAROCE_PORT_KIND(null)
METAROCE_PORT_KIND(ring)
METAROCE_PORT_KIND(memif)
METAROCE_PORT_KIND(af_packet)
METAROCE_PORT_KIND(af_xdp)
METAROCE_PORT_KIND(fabric)
#undef METAROCE_PORT_KIND

}  // namespace metaroce::drivers
