#include "wire/neighbour_frame.h"

#include <algorithm>

namespace metaroce::wire {
namespace {

struct Arp {
  Be16 hardware, protocol;
  std::uint8_t hardware_len, protocol_len;
  Be16 operation;
  std::uint8_t sender_mac[6], sender_ip[4], target_mac[6], target_ip[4];
};
static_assert(sizeof(Arp) == 28 && offsetof(Arp, sender_ip) == 14 &&
              offsetof(Arp, target_ip) == 24);

struct Nd {  // NS and NA, up to the options
  std::uint8_t type, code;
  Be16 checksum;
  Be32 flags;  // NA: R 31, S 30, O 29
  std::uint8_t target[16];
};
static_assert(sizeof(Nd) == 24 && offsetof(Nd, target) == 8);
constexpr std::uint8_t kSolicitation = 135, kAdvertisement = 136;
constexpr std::uint8_t kSourceLinkLayer = 1, kTargetLinkLayer = 2;
constexpr std::uint32_t kFlagSolicited = 1U << 30, kFlagOverride = 1U << 29;
constexpr MacAddress kBroadcast{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

template <std::size_t N>
IpAddress ip_of(const std::uint8_t (&b)[N]) {
  IpAddress a;
  a.v6 = N == 16;
  std::memcpy(a.b.data(), b, N);
  return a;
}

bool usable_mac(const MacAddress& m) { return (m.b[0] & 1) == 0 && m != MacAddress{}; }

MacAddress multicast_mac(const IpAddress& group) {
  return {{0x33, 0x33, group.b[12], group.b[13], group.b[14], group.b[15]}};
}

void write_ethernet(std::uint8_t* out, const MacAddress& dst, const MacAddress& src,
                    std::uint16_t type) {
  std::memcpy(out, dst.b.data(), 6);
  std::memcpy(out + 6, src.b.data(), 6);
  const Be16 t = type;
  std::memcpy(out + 12, &t, 2);
}

std::uint16_t icmpv6_sum(const std::uint8_t* ip, const std::uint8_t* icmp, std::uint32_t len) {
  return checksum_fold(
      checksum_add(checksum_add(0, ip + offsetof(Ipv6, src), 32) + 58 + len, icmp, len));
}

DropReason parse_arp(const FrameView& f, NeighbourMessage& out) {
  Arp a;
  std::memcpy(&a, f.payload(), sizeof a);
  const std::uint16_t op = a.operation;
  if (a.hardware != 1 || a.protocol != 0x0800 || a.hardware_len != 6 || a.protocol_len != 4 ||
      (op != 1 && op != 2))
    return DropReason::kIpHeader;
  out.request = op == 1;
  out.has_mac = true;
  std::memcpy(out.mac.b.data(), a.sender_mac, 6);
  out.sender = ip_of(a.sender_ip);
  out.target = out.request ? ip_of(a.target_ip) : out.sender;
  out.solicited = !out.request && (f.dst_mac()[0] & 1) == 0;
  out.probe = out.request && is_unspecified(out.sender);
  const bool sane = usable_mac(out.mac) && !is_multicast(out.sender) && !is_multicast(out.target) &&
                    (out.request || !is_unspecified(out.sender));
  return sane ? DropReason::kNone : DropReason::kIpHeader;
}

// Link-layer address option of the wanted type; false when an option is malformed.
bool parse_options(const std::uint8_t* p, std::uint32_t n, std::uint8_t wanted,
                   NeighbourMessage& out) {
  while (n != 0) {
    if (n < 8 || p[1] == 0 || p[1] * 8U > n) return false;
    if (p[0] == wanted && p[1] == 1) {
      out.has_mac = true;
      std::memcpy(out.mac.b.data(), p + 2, 6);
    }
    n -= p[1] * 8U;
    p += p[1] * 8U;
  }
  return true;
}

DropReason parse_nd(const FrameView& f, NeighbourMessage& out) {
  const std::uint8_t* ip = f.frame + f.l3_offset;
  if (f.payload_len < sizeof(Nd)) return DropReason::kTruncatedFrame;
  // 255 proves that no router forwarded it.
  if (ip[offsetof(Ipv6, hop_limit)] != 255) return DropReason::kIpHeader;
  if (icmpv6_sum(ip, f.payload(), f.payload_len) != 0xffff) return DropReason::kUdpChecksum;
  Nd nd;
  std::memcpy(&nd, f.payload(), sizeof nd);
  if (nd.code != 0) return DropReason::kIpHeader;
  out.request = nd.type == kSolicitation;
  out.solicited = !out.request && (nd.flags & kFlagSolicited) != 0;
  out.sender = f.source_ip();
  out.target = ip_of(nd.target);
  out.probe = out.request && is_unspecified(out.sender);
  if (!parse_options(f.payload() + sizeof nd, f.payload_len - static_cast<std::uint32_t>(sizeof nd),
                     out.request ? kSourceLinkLayer : kTargetLinkLayer, out))
    return DropReason::kIpHeader;
  const IpAddress dst = f.destination_ip();
  const bool bad = is_multicast(out.target) || is_multicast(out.sender) ||
                   (out.has_mac && !usable_mac(out.mac)) ||
                   (out.probe && (out.has_mac || dst != solicited_node(out.target))) ||
                   (out.solicited && is_multicast(dst)) ||
                   (!out.request && is_unspecified(out.sender));
  return bad ? DropReason::kIpHeader : DropReason::kNone;
}

std::uint32_t write_arp(std::uint8_t* out, std::uint16_t op, const MacAddress& eth_dst,
                        const MacAddress& own_mac, const IpAddress& own, const MacAddress& peer_mac,
                        const IpAddress& peer) {
  write_ethernet(out, eth_dst, own_mac, 0x0806);
  Arp a;
  a.hardware = 1;
  a.protocol = 0x0800;
  a.hardware_len = 6;
  a.protocol_len = 4;
  a.operation = op;
  std::memcpy(a.sender_mac, own_mac.b.data(), 6);
  std::memcpy(a.sender_ip, own.b.data(), 4);
  std::memcpy(a.target_mac, peer_mac.b.data(), 6);
  std::memcpy(a.target_ip, peer.b.data(), 4);
  std::memcpy(out + kEthBytes, &a, sizeof a);
  return kEthBytes + sizeof a;
}

std::uint32_t write_nd(std::uint8_t* out, std::uint8_t type, std::uint32_t flags,
                       const MacAddress& eth_dst, const MacAddress& own_mac, const IpAddress& own,
                       const IpAddress& dst, const IpAddress& target) {
  write_ethernet(out, eth_dst, own_mac, 0x86dd);
  constexpr std::uint32_t kLen = sizeof(Nd) + 8;
  Ipv6 ip;
  ip.version_class_flow = 6U << 28;
  ip.payload_length = static_cast<std::uint16_t>(kLen);
  ip.next_header = 58;
  ip.hop_limit = 255;
  std::memcpy(ip.src, own.b.data(), 16);
  std::memcpy(ip.dst, dst.b.data(), 16);
  std::uint8_t* ip_at = out + kEthBytes;
  std::memcpy(ip_at, &ip, sizeof ip);
  Nd nd{};
  nd.type = type;
  nd.flags = flags;
  std::memcpy(nd.target, target.b.data(), 16);
  std::uint8_t* icmp = ip_at + kIpv6Bytes;
  std::memcpy(icmp, &nd, sizeof nd);
  std::uint8_t* option = icmp + sizeof nd;
  option[0] = type == kSolicitation ? kSourceLinkLayer : kTargetLinkLayer;
  option[1] = 1;
  std::memcpy(option + 2, own_mac.b.data(), 6);
  const Be16 sum = static_cast<std::uint16_t>(~icmpv6_sum(ip_at, icmp, kLen));
  std::memcpy(icmp + offsetof(Nd, checksum), &sum, 2);
  return kEthBytes + kIpv6Bytes + kLen;
}

}  // namespace

bool is_multicast(const IpAddress& a) {
  if (a.v6) return a.b[0] == 0xff;
  return (a.b[0] & 0xf0) == 0xe0 ||
         (a.b[0] == 0xff && a.b[1] == 0xff && a.b[2] == 0xff && a.b[3] == 0xff);
}

bool is_unspecified(const IpAddress& a) {
  return std::all_of(a.b.begin(), a.b.end(), [](std::uint8_t x) { return x == 0; });
}

IpAddress solicited_node(const IpAddress& a) {
  IpAddress r;
  r.v6 = true;
  r.b = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a.b[13], a.b[14], a.b[15]};
  return r;
}

DropReason parse_neighbour(const FrameView& f, NeighbourMessage& out) {
  out = {};
  out.link_source = f.source_mac();
  return f.v6 ? parse_nd(f, out) : parse_arp(f, out);
}

std::uint32_t write_neighbour_request(std::uint8_t* out, const MacAddress& own_mac,
                                      const IpAddress& own, const IpAddress& target,
                                      const MacAddress* unicast_to) {
  if (!own.v6)
    return write_arp(out, 1, unicast_to != nullptr ? *unicast_to : kBroadcast, own_mac, own, {},
                     target);
  if (unicast_to != nullptr)
    return write_nd(out, kSolicitation, 0, *unicast_to, own_mac, own, target, target);
  const IpAddress group = solicited_node(target);
  return write_nd(out, kSolicitation, 0, multicast_mac(group), own_mac, own, group, target);
}

std::uint32_t write_neighbour_reply(std::uint8_t* out, const MacAddress& own_mac,
                                    const IpAddress& own, const MacAddress& peer_mac,
                                    const IpAddress& peer, bool probe) {
  if (!own.v6) return write_arp(out, 2, peer_mac, own_mac, own, peer_mac, peer);
  if (!probe)
    return write_nd(out, kAdvertisement, kFlagSolicited | kFlagOverride, peer_mac, own_mac, own,
                    peer, own);
  IpAddress all_nodes;
  all_nodes.v6 = true;
  all_nodes.b = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return write_nd(out, kAdvertisement, kFlagOverride, multicast_mac(all_nodes), own_mac, own,
                  all_nodes, own);
}

}  // namespace metaroce::wire
