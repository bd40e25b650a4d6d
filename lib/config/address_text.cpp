#include "config/address_text.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

namespace metaroce::config {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool all_zero(const IpAddress& ip, std::size_t first, std::size_t end) {
  return std::all_of(ip.b.begin() + static_cast<std::ptrdiff_t>(first),
                     ip.b.begin() + static_cast<std::ptrdiff_t>(end),
                     [](std::uint8_t x) { return x == 0; });
}

}  // namespace

std::optional<IpAddress> parse_ip(std::string_view text) {
  const std::string s(text);
  IpAddress ip;
  if (s.find('\0') != std::string::npos) return std::nullopt;
  if (inet_pton(AF_INET, s.c_str(), ip.b.data()) == 1) return ip;
  ip = IpAddress{};
  ip.v6 = true;
  if (inet_pton(AF_INET6, s.c_str(), ip.b.data()) == 1) return ip;
  return std::nullopt;
}

std::optional<MacAddress> parse_mac(std::string_view text) {
  if (text.size() != 17) return std::nullopt;
  MacAddress mac;
  for (std::size_t i = 0; i < 6; ++i) {
    const int high = hex_digit(text[3 * i]), low = hex_digit(text[3 * i + 1]);
    if (high < 0 || low < 0 || (i < 5 && text[3 * i + 2] != ':')) return std::nullopt;
    mac.b[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return mac;
}

std::optional<std::string> parse_pci(std::string_view text) {
  std::string full(text);
  if (full.size() == 7) full = "0000:" + full;
  constexpr std::string_view kShape = "xxxx:xx:xx.x";
  if (full.size() != kShape.size()) return std::nullopt;
  for (std::size_t i = 0; i < full.size(); ++i) {
    if (kShape[i] != 'x' ? full[i] != kShape[i] : hex_digit(full[i]) < 0) return std::nullopt;
    if (full[i] >= 'A' && full[i] <= 'F') full[i] = static_cast<char>(full[i] - 'A' + 'a');
  }
  // Five bits of device, three of function.
  if (hex_digit(full[8]) > 1 || hex_digit(full[11]) > 7) return std::nullopt;
  return full;
}

std::string to_text(const IpAddress& ip) {
  char buffer[INET6_ADDRSTRLEN] = {};
  inet_ntop(ip.v6 ? AF_INET6 : AF_INET, ip.b.data(), buffer, sizeof buffer);
  return buffer;
}

std::string to_text(const IpPrefix& prefix) {
  return fmt::format("{}/{}", to_text(prefix.ip), prefix.length);
}

std::string to_text(const MacAddress& mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac.b[0], mac.b[1], mac.b[2],
                     mac.b[3], mac.b[4], mac.b[5]);
}

std::string_view not_unicast(const IpAddress& ip) {
  if (ip.v6) {
    if (all_zero(ip, 0, 16)) return "is the unspecified address";
    if (all_zero(ip, 0, 15) && ip.b[15] == 1) return "is the loopback address";
    if (ip.b[0] == 0xff) return "is a multicast address";
    if (ip.b[0] == 0xfe && (ip.b[1] & 0xc0) == 0x80)
      return "is a link-local address, which names no plane";
    if (all_zero(ip, 0, 10) && ip.b[10] == 0xff && ip.b[11] == 0xff)
      return "is an IPv4 address written as IPv6";
    return {};
  }
  if (ip.b[0] == 0) return "is in 0.0.0.0/8, which names no host";
  if (ip.b[0] == 127) return "is a loopback address";
  if (ip.b[0] >= 224 && ip.b[0] < 240) return "is a multicast address";
  if (ip.b[0] >= 240) return "is a reserved or broadcast address";
  return {};
}

std::string_view not_unicast(const MacAddress& mac) {
  if (mac == MacAddress{}) return "is the zero address";
  if (std::all_of(mac.b.begin(), mac.b.end(), [](std::uint8_t x) { return x == 0xff; }))
    return "is the broadcast address";
  if ((mac.b[0] & 1) != 0) return "is a multicast address (first byte is odd)";
  return {};
}

bool same_network(const IpAddress& a, const IpAddress& b, unsigned length) {
  if (a.v6 != b.v6) return false;
  for (unsigned bit = 0; bit < length; ++bit) {
    const unsigned mask = 0x80U >> (bit % 8);
    if ((a.b[bit / 8] & mask) != (b.b[bit / 8] & mask)) return false;
  }
  return true;
}

}  // namespace metaroce::config
