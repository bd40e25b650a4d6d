#include "wire/net.h"

namespace metaroce::wire {
namespace {

constexpr std::uint16_t kTypeIpv4 = 0x0800, kTypeArp = 0x0806, kTypeIpv6 = 0x86dd;
constexpr std::uint16_t kTypeVlan = 0x8100;
constexpr std::uint8_t kProtocolUdp = 17, kProtocolIcmpv6 = 58;
constexpr std::uint16_t kDontFragment = 0x4000, kFragmentMask = 0x3fff;  // MF and offset [MR-3.1.1]
constexpr std::uint8_t kEct0 = 2;                                        // [MR-3.1.5]
constexpr std::uint32_t kArpBytes = 28;
constexpr std::uint8_t kNeighbourSolicitation = 135, kNeighbourAdvertisement = 136;

std::uint16_t load16(const std::uint8_t* p) {
  return static_cast<std::uint16_t>((p[0] << 8) | p[1]);
}
void store16(std::uint8_t* p, std::uint16_t v) {
  p[0] = static_cast<std::uint8_t>(v >> 8);
  p[1] = static_cast<std::uint8_t>(v);
}

// The header's sum includes its checksum: all ones when right.
bool ipv4_checksum_ok(const std::uint8_t* ip) {
  std::uint64_t s = 0;
  for (unsigned i = 0; i < kIpv4Bytes; i += 4) {
    std::uint32_t w;
    std::memcpy(&w, ip + i, 4);
    s += w;
  }
  return checksum_fold(s) == 0xffff;
}

// `udp` lies `available` bytes before the end that the IP header states.
DropReason parse_udp(const std::uint8_t* p, std::uint32_t udp_offset, std::uint32_t available,
                     FrameView& out) {
  if (available < kUdpBytes) return DropReason::kUdpLength;
  const std::uint8_t* u = p + udp_offset;
  if (load16(u + offsetof(Udp, length)) != available) return DropReason::kUdpLength;
  out.src_port = load16(u);
  out.dst_port = load16(u + offsetof(Udp, dst_port));
  out.udp_checksum = load16(u + offsetof(Udp, checksum));
  out.payload_offset = static_cast<std::uint16_t>(udp_offset + kUdpBytes);
  out.payload_len = available - kUdpBytes;  // [MR-3.1.11]
  out.kind = FrameKind::kUdp;
  return DropReason::kNone;
}

DropReason parse_ipv4(const std::uint8_t* p, std::uint32_t len, std::uint32_t l3, FrameView& out) {
  if (len < l3 + kIpv4Bytes) return DropReason::kTruncatedFrame;
  const std::uint8_t* ip = p + l3;
  if (ip[0] != 0x45) return DropReason::kIpHeader;  // another version, or options
  const std::uint32_t total = load16(ip + offsetof(Ipv4, total_length));
  if (total < kIpv4Bytes) return DropReason::kIpHeader;
  if (total > len - l3) return DropReason::kTruncatedFrame;
  if (!ipv4_checksum_ok(ip)) return DropReason::kIpHeader;
  if ((load16(ip + offsetof(Ipv4, fragment)) & kFragmentMask) != 0) return DropReason::kIpFragment;
  if (ip[offsetof(Ipv4, protocol)] != kProtocolUdp) return DropReason::kNotUdp;
  out.v6 = false;
  out.ecn = ip[offsetof(Ipv4, tos)] & 3;
  out.src_ip = ip + offsetof(Ipv4, src);
  out.dst_ip = ip + offsetof(Ipv4, dst);
  return parse_udp(p, l3 + kIpv4Bytes, total - kIpv4Bytes, out);
}

DropReason parse_ipv6(const std::uint8_t* p, std::uint32_t len, std::uint32_t l3, FrameView& out) {
  if (len < l3 + kIpv6Bytes) return DropReason::kTruncatedFrame;
  const std::uint8_t* ip = p + l3;
  if ((ip[0] >> 4) != 6) return DropReason::kIpHeader;
  const std::uint32_t payload = load16(ip + offsetof(Ipv6, payload_length));
  if (payload > len - l3 - kIpv6Bytes) return DropReason::kTruncatedFrame;
  out.v6 = true;
  out.ecn = (ip[1] >> 4) & 3;
  out.src_ip = ip + offsetof(Ipv6, src);
  out.dst_ip = ip + offsetof(Ipv6, dst);
  switch (ip[offsetof(Ipv6, next_header)]) {
    case kProtocolUdp:
      return parse_udp(p, l3 + kIpv6Bytes, payload, out);
    case 44:
      return DropReason::kIpFragment;
    case 0:   // hop-by-hop options
    case 43:  // routing
    case 60:  // destination options
      return DropReason::kIpHeader;
    case kProtocolIcmpv6:
      break;
    default:
      return DropReason::kNotUdp;
  }
  const std::uint8_t type = payload == 0 ? std::uint8_t{0} : ip[kIpv6Bytes];
  if (type != kNeighbourSolicitation && type != kNeighbourAdvertisement) return DropReason::kNotUdp;
  out.payload_offset = static_cast<std::uint16_t>(l3 + kIpv6Bytes);
  out.payload_len = payload;
  out.kind = FrameKind::kNeighbour;
  return DropReason::kNone;
}

IpAddress address(const std::uint8_t* p, bool v6) {
  IpAddress a;
  a.v6 = v6;
  if (p != nullptr) std::memcpy(a.b.data(), p, v6 ? 16 : 4);
  return a;
}

std::uint32_t flow_label(std::uint16_t src_port) {
  return (src_port * 0x9e3779b1U) >> 12;  // 20 bits, different for each port
}

void set_class_and_flow(std::uint8_t* ip, std::uint8_t dscp, std::uint16_t src_port) {
  const std::uint32_t traffic_class = ((dscp & 0x3fU) << 2) | kEct0;
  const Be32 v = (6U << 28) | (traffic_class << 20) | flow_label(src_port);
  std::memcpy(ip, &v, 4);
}

// Sum of addresses, protocol and length; the length counts once more as UDP's own field.
std::uint64_t pseudo_sum(const std::uint8_t* ip, bool v6, std::uint32_t udp_len) {
  const std::uint64_t s = v6 ? checksum_add(0, ip + offsetof(Ipv6, src), 32)
                             : checksum_add(0, ip + offsetof(Ipv4, src), 8);
  return s + kProtocolUdp + udp_len;
}

struct UdpAt {
  std::uint8_t* udp;
  bool v6;
  std::uint32_t len;
};
UdpAt find_udp(std::uint8_t* ip) {
  const bool v6 = (ip[0] >> 4) == 6;
  std::uint8_t* udp = ip + (v6 ? kIpv6Bytes : kIpv4Bytes);
  return {udp, v6, load16(udp + offsetof(Udp, length))};
}

}  // namespace

MacAddress FrameView::source_mac() const {
  MacAddress m;
  std::memcpy(m.b.data(), src_mac(), 6);
  return m;
}
IpAddress FrameView::source_ip() const { return address(src_ip, v6); }
IpAddress FrameView::destination_ip() const { return address(dst_ip, v6); }

DropReason parse_frame(const std::uint8_t* frame, std::uint32_t len, FrameView& out) {
  if (len < kEthBytes) return DropReason::kTruncatedFrame;
  out.frame = frame;
  out.frame_len = len;
  out.l3_offset = kEthBytes;
  std::uint16_t type = load16(frame + offsetof(Ethernet, type));
  if (type == kTypeIpv4) [[likely]]
    return parse_ipv4(frame, len, kEthBytes, out);
  if (type == kTypeVlan) {
    if (len < kEthBytes + kVlanBytes) return DropReason::kTruncatedFrame;
    out.l3_offset = kEthBytes + kVlanBytes;
    type = load16(frame + kEthBytes + 2);
    if (type == kTypeIpv4) return parse_ipv4(frame, len, out.l3_offset, out);
  }
  if (type == kTypeIpv6) return parse_ipv6(frame, len, out.l3_offset, out);
  if (type != kTypeArp) return DropReason::kNotIp;
  if (len < out.l3_offset + kArpBytes) return DropReason::kTruncatedFrame;
  out.kind = FrameKind::kNeighbour;
  out.v6 = false;
  out.src_ip = out.dst_ip = nullptr;
  out.payload_offset = out.l3_offset;
  out.payload_len = kArpBytes;
  return DropReason::kNone;
}

// [MR-3.1.10]
DropReason verify_udp_checksum(const FrameView& f) {
  if (f.udp_checksum == 0) return f.v6 ? DropReason::kUdpChecksum : DropReason::kNone;
  const std::uint32_t udp_len = f.payload_len + kUdpBytes;
  const std::uint64_t s = pseudo_sum(f.frame + f.l3_offset, f.v6, udp_len);
  const std::uint64_t all = checksum_add(s, f.payload() - kUdpBytes, udp_len);
  return checksum_fold(all) == 0xffff ? DropReason::kNone : DropReason::kUdpChecksum;
}

Encap::Encap(const MacAddress& src_mac, const MacAddress& dst_mac, const IpAddress& src,
             const IpAddress& dst, std::uint16_t dst_port, std::uint8_t hop_limit) {
  size_ = src.v6 ? kEncap6Bytes : kEncap4Bytes;
  std::memcpy(bytes_, dst_mac.b.data(), 6);
  std::memcpy(bytes_ + 6, src_mac.b.data(), 6);
  store16(bytes_ + 12, src.v6 ? kTypeIpv6 : kTypeIpv4);
  std::uint8_t* ip = bytes_ + kEthBytes;
  if (src.v6) {
    ip[offsetof(Ipv6, next_header)] = kProtocolUdp;
    ip[offsetof(Ipv6, hop_limit)] = hop_limit;
    std::memcpy(ip + offsetof(Ipv6, src), src.b.data(), 16);
    std::memcpy(ip + offsetof(Ipv6, dst), dst.b.data(), 16);
  } else {
    ip[0] = 0x45;
    store16(ip + offsetof(Ipv4, fragment), kDontFragment);
    ip[offsetof(Ipv4, ttl)] = hop_limit;
    ip[offsetof(Ipv4, protocol)] = kProtocolUdp;
    std::memcpy(ip + offsetof(Ipv4, src), src.b.data(), 4);
    std::memcpy(ip + offsetof(Ipv4, dst), dst.b.data(), 4);
    ip_sum_ = checksum_fold(checksum_add(0, ip, kIpv4Bytes));
  }
  store16(bytes_ + size_ - kUdpBytes + offsetof(Udp, dst_port), dst_port);
}

void Encap::write(std::uint8_t* out, std::uint32_t udp_payload_len, std::uint16_t src_port,
                  std::uint8_t dscp) const {
  const auto udp_len = static_cast<std::uint16_t>(udp_payload_len + kUdpBytes);
  std::uint8_t* ip = out + kEthBytes;
  std::uint8_t* udp;
  if (!v6()) {
    std::memcpy(out, bytes_, kEncap4Bytes);
    const auto total = static_cast<std::uint16_t>(udp_len + kIpv4Bytes);
    const auto tos = static_cast<std::uint8_t>((dscp << 2) | kEct0);
    ip[offsetof(Ipv4, tos)] = tos;
    store16(ip + offsetof(Ipv4, total_length), total);
    const std::uint16_t sum = checksum_fold(std::uint64_t{ip_sum_} + tos + total);
    store16(ip + offsetof(Ipv4, checksum), static_cast<std::uint16_t>(~sum));
    udp = ip + kIpv4Bytes;
  } else {
    std::memcpy(out, bytes_, kEncap6Bytes);
    set_class_and_flow(ip, dscp, src_port);
    store16(ip + offsetof(Ipv6, payload_length), udp_len);
    udp = ip + kIpv6Bytes;
  }
  store16(udp, src_port);
  store16(udp + offsetof(Udp, length), udp_len);
}

// [MR-3.1.8] [MR-3.1.9]
void write_udp_checksum(std::uint8_t* ip, std::span<const std::uint8_t> a,
                        std::span<const std::uint8_t> b) {
  const UdpAt u = find_udp(ip);
  store16(u.udp + offsetof(Udp, checksum), 0);
  std::uint64_t s = checksum_add(pseudo_sum(ip, u.v6, u.len), u.udp, kUdpBytes);
  s = checksum_add(s, a.data(), a.size());
  std::uint16_t tail = checksum_fold(checksum_add(0, b.data(), b.size()));
  if (a.size() % 2 != 0) tail = __builtin_bswap16(tail);  // b's bytes sit in the other halves
  const auto sum = static_cast<std::uint16_t>(~checksum_fold(s + tail));
  store16(u.udp + offsetof(Udp, checksum), sum == 0 ? std::uint16_t{0xffff} : sum);
}

void write_udp_pseudo_checksum(std::uint8_t* ip) {
  const UdpAt u = find_udp(ip);
  store16(u.udp + offsetof(Udp, checksum), checksum_fold(pseudo_sum(ip, u.v6, u.len)));
}

std::uint32_t make_reply(const FrameView& f, std::uint8_t* out, std::uint32_t udp_payload_len,
                         std::uint16_t src_port, std::uint16_t dst_port, std::uint8_t dscp) {
  MacAddress own;
  std::memcpy(own.b.data(), f.dst_mac(), 6);
  const Encap e(own, f.source_mac(), f.destination_ip(), f.source_ip(), dst_port);
  if (f.l3_offset == kEthBytes) {
    e.write(out, udp_payload_len, src_port, dscp);
    return e.size();
  }
  std::uint8_t untagged[kEncap6Bytes];
  e.write(untagged, udp_payload_len, src_port, dscp);
  std::memcpy(out, untagged, 12);
  std::memcpy(out + 12, f.frame + 12, kVlanBytes);
  std::memcpy(out + 16, untagged + 12, e.size() - 12);
  return e.size() + kVlanBytes;
}

}  // namespace metaroce::wire
