// Text of IP addresses as applications write them: literals only, never a name look-up (it could
// block for seconds, and a plane's address is not what a name service knows).
#pragma once

#include <string>
#include <string_view>

#include "transport/address.h"

namespace metaroce {

// Takes `10.0.0.1`, `fd00::1`, `[fd00::1]` and `::ffff:10.0.0.1` (which is IPv4). False with a
// sentence in `error` that names the bad part.
bool parse_address(std::string_view text, IpAddress& out, std::string& error);
std::string format_address(const IpAddress& a);

}  // namespace metaroce
