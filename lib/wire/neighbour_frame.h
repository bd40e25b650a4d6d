// ARP (RFC 826) and IPv6 neighbour discovery (RFC 4861: NS and NA) as one kind of message: who
// asks for, or tells, the MAC address of `target`. Control path only.
#pragma once

#include "wire/net.h"

namespace metaroce::wire {

struct NeighbourMessage {
  bool request = false;  // ARP request or NS; else ARP reply or NA
  bool has_mac = false;  // `mac` is present (an NS or NA may come without it)
  bool solicited =
      false;           // answers: sent to one host that asked (NA flag S; ARP: to a unicast MAC)
  bool probe = false;  // request from the unspecified address: duplicate address detection
  MacAddress mac;      // of the sender (requests) or of `target` (answers)
  MacAddress link_source;  // source MAC of the frame: where an answer to it goes
  IpAddress sender;        // who asks, or who answers (ARP: the same as target in answers)
  IpAddress target;        // whose MAC address this is about
};

// `f` as parse_frame() gave it with kind kNeighbour. kNone, or why the message is refused
// (kIpHeader: malformed or not from this link; kUdpChecksum: ICMPv6 checksum wrong).
[[nodiscard]] DropReason parse_neighbour(const FrameView& f, NeighbourMessage& out);

// Writers fill `out` (kNeighbourFrameBytes of room) and return the frame's length.
// Asks everybody; with `unicast_to`, asks that MAC address only (is it still there?).
std::uint32_t write_neighbour_request(std::uint8_t* out, const MacAddress& own_mac,
                                      const IpAddress& own, const IpAddress& target,
                                      const MacAddress* unicast_to = nullptr);
// Tells `peer` that `own` is at `own_mac`. With `probe` (the asker has no address yet) the answer
// goes to all nodes.
std::uint32_t write_neighbour_reply(std::uint8_t* out, const MacAddress& own_mac,
                                    const IpAddress& own, const MacAddress& peer_mac,
                                    const IpAddress& peer, bool probe = false);

[[nodiscard]] bool is_multicast(const IpAddress& a);  // also IPv4 broadcast
[[nodiscard]] bool is_unspecified(const IpAddress& a);
[[nodiscard]] IpAddress solicited_node(const IpAddress& a);  // ff02::1:ffXX:XXXX

}  // namespace metaroce::wire
