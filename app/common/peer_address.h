// "10.0.0.2", "fd00::1", "[fd00::1]:7", "10.0.0.2:7": a literal of one plane of the peer and,
// optionally, a service. Names are refused: the dataplane's addresses are not the kernel's, and
// what a resolver says about them is as a rule something else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace metaroce::app {

struct PeerAddress {
  std::string host;                      // literal, without brackets
  std::optional<std::uint32_t> service;  // after the last colon
};
// Returns a sentence that names the bad part, or "".
std::string parse_peer(std::string_view text, PeerAddress& out);
// True for an IPv4 or IPv6 literal without a scope.
bool is_ip_literal(std::string_view text);

}  // namespace metaroce::app
