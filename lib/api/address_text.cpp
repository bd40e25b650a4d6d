#include "api/address_text.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace metaroce {
namespace {

std::string quoted(std::string_view s) { return "'" + std::string(s.substr(0, 64)) + "'"; }

bool is_mapped(const std::uint8_t* b) {
  return std::all_of(b, b + 10, [](std::uint8_t x) { return x == 0; }) && b[10] == 0xff &&
         b[11] == 0xff;
}

bool to_numbers(int family, std::string_view text, std::uint8_t* out) {
  char buf[INET6_ADDRSTRLEN + 1];
  if (text.empty() || text.size() > INET6_ADDRSTRLEN) return false;
  // A zero byte inside would end the text early for inet_pton.
  if (text.find('\0') != std::string_view::npos) return false;
  std::memcpy(buf, text.data(), text.size());
  buf[text.size()] = '\0';
  return inet_pton(family, buf, out) == 1;
}

bool parse_v4(std::string_view text, std::string_view whole, IpAddress& out, std::string& error) {
  const auto colon = text.find(':');
  if (colon != std::string_view::npos) {
    error = quoted(text.substr(colon)) + " in " + quoted(whole) +
            ": no port belongs here; the service number is given separately";
    return false;
  }
  IpAddress a;
  if (!to_numbers(AF_INET, text, a.b.data())) {
    // Digits and dots were meant as an IPv4 address; anything else as a name.
    const auto bad = text.find_first_not_of("0123456789.");
    error = bad == std::string_view::npos
                ? quoted(text) + " is not an IPv4 address: four numbers 0..255 are needed"
                : quoted(text) +
                      " is not an address literal: names are not looked up, give the "
                      "IPv4 or IPv6 address of a plane";
    return false;
  }
  out = a;
  return true;
}

}  // namespace

bool parse_address(std::string_view text, IpAddress& out, std::string& error) {
  const std::string_view whole = text;
  if (text.empty()) {
    error = "the address is empty";
    return false;
  }
  const bool bracket = text.front() == '[';
  if (bracket) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) {
      error = quoted(whole) + " has no closing ']'";
      return false;
    }
    if (end + 1 != text.size()) {
      error = quoted(text.substr(end + 1)) + " after " + quoted(text.substr(0, end + 1)) +
              ": no port belongs here; the service number is given separately";
      return false;
    }
    text = text.substr(1, end - 1);
  }
  const auto zone = text.find('%');
  if (zone != std::string_view::npos) {
    error = "zone " + quoted(text.substr(zone)) + " in " + quoted(whole) +
            " is not wanted: the plane decides the port";
    return false;
  }
  // One colon is an IPv4 address or a name with a port, two or more are IPv6.
  if (!bracket && std::count(text.begin(), text.end(), ':') < 2)
    return parse_v4(text, whole, out, error);
  IpAddress a;
  a.v6 = true;
  if (!to_numbers(AF_INET6, text, a.b.data())) {
    error = quoted(text) + " is not an IPv6 address";
    return false;
  }
  out = is_mapped(a.b.data()) ? IpAddress::v4(a.b[12], a.b[13], a.b[14], a.b[15]) : a;
  return true;
}

std::string format_address(const IpAddress& a) {
  char buf[INET6_ADDRSTRLEN] = "";
  inet_ntop(a.v6 ? AF_INET6 : AF_INET, a.b.data(), buf, sizeof buf);
  return buf;
}

}  // namespace metaroce
