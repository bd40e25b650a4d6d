// Frames around our packets: Ethernet (at most one VLAN tag), IPv4 or IPv6, UDP; ARP and IPv6
// neighbour discovery. The one place that knows these bytes. Pure functions of their input, any
// thread.
//
// parse_frame() runs for each received packet: no loop, no table; IPv4 without a tag is decided
// first. It reads the first kMaxUdpHeaders bytes only, so that `len` may be the length of a chain
// of segments whose first one holds the headers. It refuses by name what we never send (options,
// extension headers, fragments, two tags) instead of skipping it: a receiver that skips has two
// opinions on where a payload starts. Bytes behind the IP length are Ethernet padding.
//
// Sending: an Encap is a finished header of one flow's addresses; write() copies it and fills in
// what differs per packet. IPv4 goes out with DF and identification 0 (RFC 6864), everything with
// ECT(0). The IPv6 flow label repeats the source port's entropy (RFC 6438).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "wire/address.h"
#include "wire/drop_reason.h"
#include "wire/endian.h"

namespace metaroce::wire {

inline constexpr std::uint32_t kEthBytes = 14, kVlanBytes = 4;
inline constexpr std::uint32_t kIpv4Bytes = 20, kIpv6Bytes = 40, kUdpBytes = 8;
inline constexpr std::uint32_t kEncap4Bytes = kEthBytes + kIpv4Bytes + kUdpBytes;  // 42
inline constexpr std::uint32_t kEncap6Bytes = kEthBytes + kIpv6Bytes + kUdpBytes;  // 62
inline constexpr std::uint32_t kMaxUdpHeaders = kEncap6Bytes + kVlanBytes;         // 66
// Largest ARP, NS or NA frame that we write.
inline constexpr std::uint32_t kNeighbourFrameBytes = kEthBytes + kIpv6Bytes + 32;  // 86

struct Ethernet {
  std::uint8_t dst[6], src[6];
  Be16 type;
};
struct Ipv4 {
  std::uint8_t version_ihl, tos;
  Be16 total_length, identification, fragment;
  std::uint8_t ttl, protocol;
  Be16 checksum;
  std::uint8_t src[4], dst[4];
};
struct Ipv6 {
  Be32 version_class_flow;
  Be16 payload_length;
  std::uint8_t next_header, hop_limit;
  std::uint8_t src[16], dst[16];
};
struct Udp {
  Be16 src_port, dst_port, length, checksum;
};
static_assert(sizeof(Ethernet) == kEthBytes && offsetof(Ethernet, type) == 12);
static_assert(sizeof(Ipv4) == kIpv4Bytes && offsetof(Ipv4, fragment) == 6 &&
              offsetof(Ipv4, checksum) == 10 && offsetof(Ipv4, dst) == 16);
static_assert(sizeof(Ipv6) == kIpv6Bytes && offsetof(Ipv6, src) == 8 && offsetof(Ipv6, dst) == 24);
static_assert(sizeof(Udp) == kUdpBytes && offsetof(Udp, checksum) == 6);

enum class FrameKind : std::uint8_t {
  kUdp,
  kNeighbour,  // ARP or ICMPv6 NS/NA: for the control role, see neighbour_frame.h
};

// Where things lie in one received frame; valid while the frame's buffer is. The DSCP is not
// among them: nothing may depend on it. [MR-3.1.7]
struct FrameView {
  const std::uint8_t* frame = nullptr;
  const std::uint8_t* src_ip = nullptr;  // 4 or 16 bytes; null for ARP
  const std::uint8_t* dst_ip = nullptr;
  std::uint32_t frame_len = 0;
  std::uint32_t payload_len = 0;  // UDP payload; behind the IP header for kNeighbour
  std::uint16_t l3_offset = 0;    // 14, or 18 behind a VLAN tag
  std::uint16_t payload_offset = 0;
  std::uint16_t src_port = 0, dst_port = 0;
  std::uint16_t udp_checksum = 0;  // as received, in host order; 0 = absent
  std::uint8_t ecn = 0;            // 3 = congestion experienced
  FrameKind kind = FrameKind::kUdp;
  bool v6 = false;

  [[nodiscard]] const std::uint8_t* dst_mac() const { return frame; }
  [[nodiscard]] const std::uint8_t* src_mac() const { return frame + 6; }
  [[nodiscard]] const std::uint8_t* payload() const { return frame + payload_offset; }
  [[nodiscard]] MacAddress source_mac() const;
  [[nodiscard]] IpAddress source_ip() const;  // kUdp, and kNeighbour over IPv6
  [[nodiscard]] IpAddress destination_ip() const;
};

// kNone: `out` is filled (kind kUdp or kNeighbour). Else the reason; `out` is then unspecified.
// Does not look at addresses (see check_destination) nor verify the UDP checksum. [MR-4.1.4]
[[nodiscard]] DropReason parse_frame(const std::uint8_t* frame, std::uint32_t len, FrameView& out);

// kUdpChecksum when wrong, or absent over IPv6. The whole frame must be contiguous.
[[nodiscard]] DropReason verify_udp_checksum(const FrameView& f);

// kNotForUs unless the frame was sent to exactly this MAC and IP address.
[[nodiscard]] inline DropReason check_destination(const FrameView& f, const MacAddress& mac,
                                                  const IpAddress& ip) {
  const bool ours = std::memcmp(f.dst_mac(), mac.b.data(), 6) == 0 && f.v6 == ip.v6 &&
                    (f.v6 ? std::memcmp(f.dst_ip, ip.b.data(), 16) == 0
                          : std::memcmp(f.dst_ip, ip.b.data(), 4) == 0);
  return ours ? DropReason::kNone : DropReason::kNotForUs;
}

class Encap {
 public:
  Encap() = default;
  // `src` and `dst` of one address family.
  Encap(const MacAddress& src_mac, const MacAddress& dst_mac, const IpAddress& src,
        const IpAddress& dst, std::uint16_t dst_port, std::uint8_t hop_limit = 64);

  // Bytes that write() fills: 42 or 62; 0 for a default-constructed one.
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] bool v6() const { return size_ == kEncap6Bytes; }
  // The header of a packet with `udp_payload_len` bytes behind it. UDP checksum 0: call
  // write_udp_checksum() or write_udp_pseudo_checksum() next, unless the link needs none.
  void write(std::uint8_t* out, std::uint32_t udp_payload_len, std::uint16_t src_port,
             std::uint8_t dscp) const;

 private:
  std::uint8_t bytes_[kEncap6Bytes]{};
  std::uint8_t size_ = 0;
  std::uint16_t ip_sum_ = 0;  // IPv4: one's-complement sum of the constant header words
};

// `ip` points to an IP header that Encap or make_reply wrote; the UDP header follows it. The
// payload is a then b (either may be empty). 0 is sent as 0xffff.
void write_udp_checksum(std::uint8_t* ip, std::span<const std::uint8_t> a,
                        std::span<const std::uint8_t> b = {});
// What NICs with checksum offload want in the field: the sum of the pseudo header.
void write_udp_pseudo_checksum(std::uint8_t* ip);

// Header of an answer to `f`: addresses swapped, VLAN tag repeated. Writes at most kMaxUdpHeaders
// bytes to `out` (the IP header at out + f.l3_offset) and returns how many. UDP checksum 0.
std::uint32_t make_reply(const FrameView& f, std::uint8_t* out, std::uint32_t udp_payload_len,
                         std::uint16_t src_port, std::uint16_t dst_port, std::uint8_t dscp);

// One's-complement sum of big-endian 16-bit words, not complemented, any alignment; `sum` is what
// came before, an even number of bytes. An odd last byte counts as the high half of a word.
[[nodiscard]] std::uint64_t checksum_add(std::uint64_t sum, const std::uint8_t* p, std::size_t n);
// Folds to 16 bits, in host order, not complemented.
[[nodiscard]] std::uint16_t checksum_fold(std::uint64_t sum);

}  // namespace metaroce::wire
