// Addresses as text: the one parser and printer for files, command lines and messages.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/daemon_config.h"
#include "transport/address.h"

namespace metaroce::config {

// A literal without brackets, port or zone; IPv4 needs four decimal parts without leading zeros.
std::optional<IpAddress> parse_ip(std::string_view text);
// Six pairs of hexadecimal digits, separated by colons.
std::optional<MacAddress> parse_mac(std::string_view text);
// domain:bus:device.function or bus:device.function; returns the full form in lower case.
std::optional<std::string> parse_pci(std::string_view text);

std::string to_text(const IpAddress& ip);
std::string to_text(const IpPrefix& prefix);
std::string to_text(const MacAddress& mac);

// Why `ip` cannot be the address of one host, or empty: unspecified, loopback, multicast,
// broadcast, link-local, IPv4 written as IPv6.
std::string_view not_unicast(const IpAddress& ip);
// Zero, multicast or broadcast.
std::string_view not_unicast(const MacAddress& mac);
// Equal in the first `length` bits; false across families.
bool same_network(const IpAddress& a, const IpAddress& b, unsigned length);

}  // namespace metaroce::config
