// Kernel interfaces under a port (af_packet, af_xdp, tap): is it there, and is its MTU enough?
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/status.h"

namespace metaroce::drivers {

bool valid_interface_name(const std::string& name);  // 1 to 15 characters, no '/', no space
// kNoDevice when it does not exist; kTooLarge when IP packets of `ip_bytes` do not pass its MTU.
Status check_interface(const std::string& port, const std::string& interface,
                       std::uint32_t ip_bytes);

}  // namespace metaroce::drivers
