#include "drivers/fabric/frame.h"

#include "wire/net.h"

namespace metaroce::drivers {
namespace {

constexpr std::uint32_t kIp = wire::kEthBytes;
constexpr std::uint16_t kIpv4Type = 0x0800, kIpv6Type = 0x86dd;
constexpr std::uint8_t kUdp = 17;

std::uint32_t be16(const std::uint8_t* p) { return std::uint32_t{p[0]} << 8 | p[1]; }
std::uint64_t mac_at(const std::uint8_t* p) {
  std::uint64_t v = 0;
  for (unsigned i = 0; i < 6; ++i) v = v << 8 | p[i];
  return v;
}
bool is_ipv4(const std::uint8_t* f, std::uint32_t n) {
  return n >= kIp + wire::kIpv4Bytes && be16(f + 12) == kIpv4Type;
}
bool is_ipv6(const std::uint8_t* f, std::uint32_t n) {
  return n >= kIp + wire::kIpv6Bytes && be16(f + 12) == kIpv6Type;
}

}  // namespace

FrameFacts look_at_frame(const std::uint8_t* f, std::uint32_t n, std::uint8_t control_dscp) {
  FrameFacts x;
  x.dst_mac = mac_at(f);
  x.src_mac = mac_at(f + 6);
  x.group = (f[0] & 1) != 0;
  x.control = true;
  std::uint32_t traffic_class = 0, udp = 0;
  if (is_ipv4(f, n) && f[kIp + 9] == kUdp) {
    traffic_class = f[kIp + 1];
    udp = kIp + (f[kIp] & 0x0fU) * 4;
  } else if (is_ipv6(f, n) && f[kIp + 6] == kUdp) {
    traffic_class = (be16(f + kIp) >> 4) & 0xff;
    udp = kIp + wire::kIpv6Bytes;
  }
  if (udp == 0 || udp + 4 > n) return x;
  x.entropy = be16(f + udp) << 16 | be16(f + udp + 2);
  x.control = traffic_class >> 2 == control_dscp;
  x.ect = (traffic_class & 3) != 0;
  x.ce = (traffic_class & 3) == 3;
  return x;
}

void mark_ce(std::uint8_t* f, std::uint32_t n) {
  std::uint8_t* ip = f + kIp;
  if (is_ipv4(f, n)) {
    const std::uint32_t before = be16(ip);
    ip[1] |= 3;
    std::uint32_t sum = (~be16(ip + 10) & 0xffff) + (~before & 0xffff) + be16(ip);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    ip[10] = static_cast<std::uint8_t>(~sum >> 8);
    ip[11] = static_cast<std::uint8_t>(~sum);
  } else if (is_ipv6(f, n)) {
    ip[1] |= 0x30;
  }
}

}  // namespace metaroce::drivers
