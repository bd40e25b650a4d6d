#include "sim/capture.h"

#include <cstring>

#include "wire/net.h"
#include "wire/packet.h"

namespace metaroce::sim {
namespace {

// What a switch does to an IPv4 header: both ECN bits, and the checksum follows.
void mark_ce(std::uint8_t* ip) {
  ip[offsetof(wire::Ipv4, tos)] |= 3;
  std::uint8_t* sum = ip + offsetof(wire::Ipv4, checksum);
  sum[0] = sum[1] = 0;
  const std::uint16_t right =
      static_cast<std::uint16_t>(~wire::checksum_fold(wire::checksum_add(0, ip, wire::kIpv4Bytes)));
  sum[0] = static_cast<std::uint8_t>(right >> 8);
  sum[1] = static_cast<std::uint8_t>(right);
}

}  // namespace

IpAddress host_address(std::uint16_t host, std::uint8_t plane) {
  return IpAddress::v4(10, plane, static_cast<std::uint8_t>(host >> 8),
                       static_cast<std::uint8_t>(host & 0xff));
}

MacAddress host_mac(std::uint16_t host, std::uint8_t plane) {
  return MacAddress{
      {2, 0, 0, plane, static_cast<std::uint8_t>(host >> 8), static_cast<std::uint8_t>(host)}};
}

void Capture::frame(Nanos at, std::uint16_t host, bool ce, const FrameInfo& info,
                    const std::uint8_t* header) {
  const std::uint32_t udp_payload = info.header_bytes + info.payload_bytes;
  bytes_.resize(wire::kEncap4Bytes + udp_payload);
  const wire::Encap encap(host_mac(info.src_host, info.plane), host_mac(host, info.plane),
                          host_address(info.src_host, info.plane), host_address(host, info.plane),
                          info.dst_port);
  encap.write(bytes_.data(), udp_payload, info.src_port, info.control ? control_dscp_ : data_dscp_);
  std::uint8_t* udp = bytes_.data() + wire::kEncap4Bytes;
  std::memcpy(udp, header, info.header_bytes);
  std::memset(udp + info.header_bytes, 0, info.payload_bytes);  // padding, unless it is
  if (info.payload != nullptr) {
    const auto offset = static_cast<std::uint64_t>(info.payload - arena_);
    for (std::uint32_t i = 0; i < info.payload_bytes; ++i)
      udp[info.header_bytes + i] = pattern_byte(offset + i);
  }
  std::uint8_t* ip = bytes_.data() + wire::kEthBytes;
  wire::write_udp_checksum(ip, {udp, udp_payload});
  if (ce) mark_ce(ip);
  hook_(at - origin_, host, info.plane, bytes_);
}

}  // namespace metaroce::sim
