#include "common/peer_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "common/units.h"

namespace metaroce::app {
namespace {

std::string check_host(std::string_view host) {
  if (host.empty()) return "the address before the colon is empty";
  if (host.find('%') != std::string_view::npos)
    return fmt::format("{} has a scope: link-local addresses are not used, give another address",
                       quoted(host));
  if (!is_ip_literal(host))
    return fmt::format("{} is not an IPv4 or IPv6 address (names are not looked up)", quoted(host));
  return "";
}

std::string parse_service(std::string_view text, std::optional<std::uint32_t>& out) {
  std::uint64_t number = 0;
  if (text.empty()) return "the service number after the colon is empty";
  if (std::string error = parse_count(text, number); !error.empty()) return "service " + error;
  if (number < 1 || number > UINT32_MAX)
    return fmt::format("service {} is not between 1 and {}", number, UINT32_MAX);
  out = static_cast<std::uint32_t>(number);
  return "";
}

}  // namespace

bool is_ip_literal(std::string_view text) {
  const std::string copy(text);
  if (copy.find('\0') != std::string::npos) return false;
  in6_addr six;
  in_addr four;
  return inet_pton(AF_INET, copy.c_str(), &four) == 1 ||
         inet_pton(AF_INET6, copy.c_str(), &six) == 1;
}

std::string parse_peer(std::string_view text, PeerAddress& out) {
  out = {};
  std::string_view host = text, service;
  bool has_service = false;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return fmt::format("{} has no ']'", quoted(text));
    host = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && rest.front() != ':')
      return fmt::format("{} after ']' is not a colon and a service number", quoted(rest));
    has_service = !rest.empty();
    if (has_service) service = rest.substr(1);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    const std::size_t colon = text.find(':');
    host = text.substr(0, colon);
    service = text.substr(colon + 1);
    has_service = true;
  }
  if (std::string error = check_host(host); !error.empty()) return error;
  out.host = host;
  return has_service ? parse_service(service, out.service) : "";
}

}  // namespace metaroce::app
